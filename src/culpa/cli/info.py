"""`culpa info`: what is in a model file?"""

from typing import Any

import typer

from culpa.cli import options
from culpa.cli.command import command
from culpa.cli.console import plain


@command
def info(
    model: options.ModelArgument,
    json: options.Json = False,
    model_option: options.NoModelOption = None,
) -> None:
    """Show the features, groups, components, limits and training rows of a model, with warnings.

    \b
    culpa info plant.culpa
    culpa info plant.culpa --json
    """
    from culpa.jobs.describing import describe

    about = describe(model)
    if json:
        from json import dumps

        typer.echo(dumps(about, indent=2, ensure_ascii=False))
    else:
        _print(about)


def _print(about: dict[str, Any]) -> None:
    from culpa.columns.units import short_names
    from culpa.jobs.describing import facts

    lines = facts(about) | {
        "score": f"{about['statistic']}, flagged above {about['limit']:.6g} "
        f"({about['limit_kind']}, {about['confidence']:.4g})",
        "blame": f"{about['game']} game, features ranked by {about['ranking']}",
        "explainer": about["explainer"],
        "format": f"{about['format']}, written by culpa {about['culpa']}",
    }
    for name, text in lines.items():
        _echo(f"{name:<14}{text}")
    _echo(f"\n{'feature':<24}{'mean':>14}{'std':>14}  unit")
    for feature, name in zip(about["features"], short_names([each["name"] for each in about["features"]]), strict=True):
        shown = name if feature["unit"] else feature["name"]  # the unit has a column of its own
        _echo(f"{shown:<24}{feature['mean']:>14.6g}{feature['std']:>14.6g}  {feature['unit']}".rstrip())
    if about["groups"]:
        _echo(f"\n{'group':<24}features")
        for name, members in about["groups"].items():
            _echo(f"{name:<24}{', '.join(members)}")
    for suggestion in about["suggestions"]:
        _echo(f"\n{suggestion}")
    for warning in about["warnings"]:
        _echo(f"\nWarning: {warning}")


def _echo(text: str) -> None:
    """Lines without characters that would steer the terminal."""
    typer.echo("\n".join(map(plain, text.split("\n"))))
