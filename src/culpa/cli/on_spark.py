"""`--engine spark`: fit, score, explain and incidents of tables that Spark reads, and answers that Spark writes."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from culpa._core.choices import one_of
from culpa.cli import console, options

ENGINE = "Spark"
_FORMATS = {".csv": "csv", ".json": "json", ".ndjson": "json", ".orc": "orc"}  # by extension; a folder is Parquet
_READ = {"csv": {"header": "true", "inferSchema": "true"}}
_WRITE = {"csv": {"header": "true"}}


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options that say where a job runs: in this process or on Spark."""

    engine: str = options.option(
        "'spark' for tables that Spark reads, such as folders of Parquet files; the output is a folder.",
        default="culpa",
        panel=ENGINE,
    )
    master: str = options.option(
        "Spark: the cluster, such as 'yarn' or 'sc://host' for Connect.", default="local[*]", panel=ENGINE
    )
    spark_format: str | None = options.option(
        "Spark: format of the table, such as 'delta'.", shown="file extension, or parquet", panel=ENGINE
    )

    def __post_init__(self) -> None:
        one_of(self.engine, ("culpa", "spark"), "--engine")

    @property
    def is_spark(self) -> bool:
        """Whether Spark runs the job."""
        return self.engine == "spark"

    @property
    def is_local(self) -> bool:
        """Whether Spark runs on this machine."""
        return self.master.startswith("local")

    @contextmanager
    def session(self) -> Iterator[Any]:
        """The session that runs already, or a new one, which is stopped at the end."""
        import os
        import sys

        from culpa.spark.frames import require_pyspark

        require_pyspark()
        from pyspark.sql import SparkSession

        if (running := SparkSession.getActiveSession()) is not None:
            yield running
            return
        connect = self.master.startswith("sc://")
        if self.is_local:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if not connect:
            _require_java()
        builder = SparkSession.builder.appName("culpa")
        builder = builder.remote(self.master) if connect else builder.master(self.master)
        session = builder.config("spark.log.level", "ERROR").getOrCreate()
        try:
            yield session
        finally:
            session.stop()

    def read(self, session: Any, tables: Sequence[str]) -> Any:
        """The tables as one DataFrame."""
        kind = self.spark_format or _FORMATS.get(Path(tables[0]).suffix, "parquet")
        from pyspark.errors import AnalysisException

        try:
            return session.read.format(kind).options(**_READ.get(kind, {})).load(list(tables))
        except AnalysisException as error:
            raise ValueError(f"{', '.join(tables)}: {str(error).splitlines()[0]}") from None


def _require_java() -> None:
    import os
    import shutil

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ValueError("Spark needs Java 17 or later. Install it, or name a Connect server with --master sc://host.")


def paths(table: options.TableOptions) -> list[Path | None]:
    """The tables. Patterns are Spark's business: they may be about files on a cluster."""
    return [Path(each) for each in table.table]


def _check_output(output: Path, inputs: Sequence[Path | None]) -> None:
    """Refuse to replace a folder that is one of the inputs, or that contains one."""
    for each in inputs:
        if each is not None and each.resolve().is_relative_to(output.resolve()):
            raise ValueError(f"{output} is one of the inputs, or contains one of them. Choose another output.")


def write(answer: Any, output: options.OutputOptions, *, local: bool) -> None:
    """Let Spark write an answer to a folder. On this machine, an old folder is replaced when the new one is complete."""
    import shutil
    from secrets import token_hex

    assert output.path is not None
    if not (local and output.force and output.path.is_dir()):
        _save(answer, output.path, output.path.suffix, "overwrite" if output.force else "error")
        return
    part = output.path.with_name(f".{output.path.name}.{token_hex(8)}.part")
    try:
        _save(answer, part, output.path.suffix, "error")
        shutil.rmtree(output.path)
        part.rename(output.path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _save(answer: Any, path: Path, suffix: str, mode: str) -> None:
    from pyspark.errors import AnalysisException

    from culpa.spark.frames import with_reason

    kind = _FORMATS.get(suffix, "parquet")
    writer = answer.write.mode(mode).format(kind).options(**_WRITE.get(kind, {}))
    try:
        with_reason(lambda: writer.save(str(path)))
    except AnalysisException as error:
        if "PATH_ALREADY_EXISTS" not in str(error):
            raise ValueError(str(error).splitlines()[0]) from None
        raise ValueError(f"{path} exists already. Replace it with --force.") from None


def answer_new_rows(
    engine: EngineOptions,
    rows: options.NewRowsOptions,
    output: options.OutputOptions,
    job: str,
    arguments: Mapping[str, Any],
    refused: Mapping[str, Any],
) -> None:
    """Score or explain new rows, or find their incidents, with the function of `culpa.spark` of that name."""
    import culpa.spark
    from culpa.detecting.pieces import of_fitted

    refuse_values(refused)
    refuse(rows, allowed=("table", "model", "quiet", "no_groups", "time"))
    refuse(output, allowed=("output", "force"))
    if output.path is None:
        raise ValueError("--engine spark writes a folder. Name it with -o.")
    _check_output(output.path, [*paths(rows), rows.model])
    detector = of_fitted(rows.detector())
    with engine.session() as session:
        answer = getattr(culpa.spark, job)(engine.read(session, rows.table), detector, **arguments)
        write(answer, output, local=engine.is_local)
    if not rows.quiet:
        console.say(f"Spark wrote {output.path}")


def learn(
    engine: EngineOptions,
    table: options.TableOptions,
    columns: options.ColumnOptions,
    parameters: Mapping[str, Any],
    output: Path,
    *,
    complete_only: bool,
    compile: bool,
) -> Any:
    """Fit a detector to a table that Spark reads, write its model file, and return it."""
    import culpa.spark
    from culpa.io.tables.columns import split_names
    from culpa.spark.frames import feature_names

    refuse(table, allowed=("table", "time"))
    order = None if table.time in (None, "none") else table.time
    with engine.session() as session:
        df = engine.read(session, table.table)
        wanted, dropped, others = (
            split_names(names or [], df.columns) for names in (columns.columns, columns.drop, columns.id)
        )
        names = [name for name in feature_names(df, wanted or None, order, *others) if name not in dropped]
        detector = culpa.spark.fit(df, names, order=order, complete_only=complete_only, **parameters)
    if compile:
        detector.explainer().compile()
    detector.save(output)
    return detector


def refuse(given: Any, allowed: Sequence[str]) -> None:
    """Refuse options that Spark's jobs do not take, rather than ignore them."""
    for field in dataclasses.fields(given):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if field.name not in allowed and getattr(given, field.name) not in (default, None, False):
            raise ValueError(f"--{field.name.replace('_', '-')} is not for --engine spark.")


def refuse_values(given: Mapping[str, Any]) -> None:
    """The same for single options, by name."""
    for name, value in given.items():
        if value not in (None, False):
            raise ValueError(f"{name} is not for --engine spark.")
