"""Commands made of blocks of options: one flat signature, help and checks from the description of the parameters."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
import typer
from command_line import run, write
from typer.testing import CliRunner

import culpa
from culpa._core.parameters import CALIBRATION, DETECTOR
from culpa.cli import app
from culpa.cli.command import Described, command
from culpa.io.reading import READING


@dataclass(frozen=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option("--width", "-w", help="How wide.")]
    height: Annotated[int, typer.Option(help="How high.")] = 2

    def __post_init__(self):
        if self.width < 0:
            raise ValueError("--width must not be negative.")


def area(
    size: Size,
    parameters: Annotated[dict[str, Any], Described(DETECTOR, ("n_components", "statistic", "lags", "scale"))],
    loud: Annotated[bool, typer.Option("--loud")] = False,
) -> None:
    """An area."""
    typer.echo(f"{size.width * size.height} {parameters} {loud}")


def invoke(*arguments):
    small = typer.Typer()
    small.command()(command(area))
    return CliRunner().invoke(small, list(arguments))


def test_blocks_become_one_signature():
    result = invoke("-w", "3", "--loud", "--components", "2", "--no-scale")
    expected = {"n_components": 2, "statistic": "auto", "lags": 0, "scale": False}
    assert result.output == f"6 {expected} True\n"
    assert "n_components': 0.9," in invoke("--width", "3", "--components", ".9").output
    assert "n_components': 'auto'," in invoke("--width", "3").output == invoke("-w", "3", "--components", "auto").output
    assert invoke().exit_code == 2  # the width is missing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--width", "-1"], "Error: --width must not be negative.\n"),
        (["--width", "1", "--lags", "-1"], "Error: --lags must be a whole number of at least 0, got -1.\n"),
        (
            ["--width", "1", "--components", "mle"],
            "Error: --components must be a whole number of at least 1, a number above 0 and below 1 (a share of the "
            "variance) or \"auto\", got 'mle'.\n",
        ),
        (["--width", "1", "--statistic", "t3"], "Error: unknown --statistic 't3': choose one of 'auto', 'spe', 'mse'"),
    ],
)
def test_errors_are_one_sentence_and_name_the_option(arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_option_twice_is_a_programming_error():
    def twice(size: Size, width: Annotated[int, typer.Option()] = 1) -> None: ...

    with pytest.raises(TypeError, match="twice has the option 'width' twice"):
        command(twice)


def help_of(name):
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    return " ".join(result.output.replace("│", " ").split())


def test_help_has_every_parameter_of_the_detector():
    text = help_of("fit")
    for parameter in DETECTOR.values():
        assert f"--{'no-' if parameter.default is True else ''}{parameter.option or parameter.name}" in text
        assert parameter.help.rstrip(".") in text
    assert "spe, mse, t2, mahalanobis or combined" in text
    assert CALIBRATION["n_trials"].help in help_of("calibrate")


@pytest.mark.parametrize("name", ["fit", "calibrate", "score", "explain", "incidents", "report", "compare", "update"])
def test_all_commands_read_tables_in_the_same_way(name):
    text = help_of(name)
    for option in READING.values():
        assert f"{option.flag} " in text
        assert option.help.rstrip(".") in text


@pytest.mark.parametrize("words", [["fit"], ["info"], []])
def test_h_is_help(words):
    assert CliRunner().invoke(app, [*words, "-h"]).output.startswith("Usage: ")


def test_formats_are_checked(tmp_path):
    wrong = run("score", "new.csv", "-m", "m", "--input-format", "cvs", code=2).stderr
    assert "unknown --input-format 'cvs': choose one of" in wrong
    assert "did you mean 'csv'" in wrong
    assert "unknown --format 'jason'" in run("score", "new.csv", "-m", "m", "--format", "jason", code=2).stderr


def test_the_noun_goes_into_the_model_file(tmp_path):
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    normal = write(rows, tmp_path / "normal.csv")
    run("fit", normal, "-o", tmp_path / "m", "--noun", "sensor")
    assert culpa.load(tmp_path / "m").noun == "sensor"
    wrong = run("fit", normal, "-o", tmp_path / "n", "--noun", "", code=2).stderr
    assert "--noun must be text of 1 to 30 characters, got ''" in wrong
