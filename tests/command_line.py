"""Running the command line inside a test, and writing the tables it reads."""

import json

from typer.testing import CliRunner

from culpa.cli import app


def write(table, path):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".feather":
        table.to_feather(path)
    else:
        records = [{n: None if v != v else v for n, v in row.items()} for row in table.to_dict("records")]
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def run(*arguments, code=0, stdin=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result
