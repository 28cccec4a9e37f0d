"""Help for commands: ``-h`` shows what nearly everybody needs on one screen, ``--help`` all options by subject."""

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from culpa.cli import console
from culpa.cli.project import with_origin

_COMMON = """
    after all before by choose columns components confidence counterfactual drop events false_incidents flagged force
    forget group id json missing new output project_file text time title top version
"""  # options that nearly everybody needs, by the names of their variables
_WIDEST, _LEFT = 100, 26  # columns of a page, and of the names of options
_EXAMPLES = 3  # on a short page
_METAVARS = {int: "N", float: "X", Path: "FILE"}
_HELP = "Show the options that most people need (-h), or all (--help)."


class Command(TyperCommand):
    """A command with a short and a long help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say where a wrong value comes from."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if isinstance(text := getattr(error, "message", None), str):
                name = getattr(getattr(error, "param", None), "opts", [""])[0]
                error.message = with_origin(f"{name} {text}").removeprefix(f"{name} ")  # type: ignore[attr-defined]
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help that was asked for."""
        formatter.write("\n".join(_page(self, ctx, short="-h" in console.words)) + "\n")


class Commands(TyperGroup):
    """The commands; the words that they were called with are remembered for messages."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember the words before they are taken apart."""
        console.words[:] = args
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, and the options that all have."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        lines = [
            (name, (each.help or "").partition(". ")[0].split("\n")[0].rstrip(".")) for name, each in commands if each
        ]
        page = [*_page(self, ctx, short=False), "", "Commands:", *_listed(lines)]
        formatter.write("\n".join([*page, "", "Options of a command: culpa COMMAND -h"]) + "\n")


def _page(command: Any, ctx: Any, *, short: bool) -> Iterator[str]:
    params = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    arguments = [each for each in params if each.param_type_name == "argument"]
    options = [each for each in params if each not in arguments]
    usage = [ctx.command_path, "[OPTIONS]", *map(_called, arguments)]
    yield " ".join(["Usage:", *usage, *(["COMMAND [ARGS]..."] if isinstance(command, TyperGroup) else [])])
    yield from _paragraphs(command.help or "", short=short)
    if arguments:
        yield from ("", "Arguments:", *_listed((_called(each), each.help or "") for each in arguments))
    common = [each for each in options if each.name in _COMMON.split() or each.required]
    common.sort(key=lambda each: not each.required)
    yield from ("", "Options:", *_listed(map(_described, common)))
    if short:
        yield from ("", f"All {len(options)} options: {ctx.command_path} --help")
        return
    others = [each for each in options if each not in common]
    for panel in dict.fromkeys(each.rich_help_panel for each in others):
        shown = (each for each in others if each.rich_help_panel == panel)
        yield from ("", f"{panel or 'Other options'}:", *_listed(map(_described, shown)))


def _called(argument: Any) -> str:
    return f"{argument.metavar or argument.name.upper()}{'...' * (argument.nargs == -1)}"


def _described(option: Any) -> tuple[str, str]:
    """How an option is written, and what it says about itself."""
    if option.name == "help":
        return "-h, --help", _HELP
    names = sorted((*option.opts, *option.secondary_opts), key=lambda name: name.startswith("--"))
    if option.secondary_opts:
        names = [name for name in names if name in option.secondary_opts] if option.default else names
    kind: Any = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    metavar = "" if option.is_flag else f" {option.metavar or _METAVARS.get(kind, 'TEXT')}"
    default = option.show_default if isinstance(option.show_default, str) else _default(option)
    return ", ".join(names) + metavar, f"{option.help or ''}{f' [{default}]' if default else ''}"


def _default(option: Any) -> str:
    if option.required:
        return "required"
    plain = option.default is None or option.is_flag or not option.show_default
    return "" if plain else f"{option.default:g}" if isinstance(option.default, float) else str(option.default)


def _width() -> int:
    return min(shutil.get_terminal_size().columns, _WIDEST)


def _listed(lines: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in lines:
        wrapped = textwrap.wrap(text, _width() - _LEFT - 4, break_on_hyphens=False) or [""]
        first, *rest = wrapped if len(name) <= _LEFT else ["", *wrapped]
        yield f"  {name:<{_LEFT}}  {first}".rstrip()
        yield from (f"{'':{_LEFT + 4}}{line}" for line in rest)


def _paragraphs(text: str, *, short: bool) -> Iterator[str]:
    """Paragraphs wrapped to the page; examples, which follow a line with a backspace, line by line. Few, if ``short``."""
    for k, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        if paragraph.startswith("\b"):
            lines = [f"  {line}" for line in paragraph.split("\n")[1:]]
            yield from (
                "",
                *(line for line in lines[: _EXAMPLES if short else None] if not short or len(line) <= _width()),
            )
        elif k == 0 or not short:
            yield from ("", *textwrap.wrap(" ".join(paragraph.split()), _width(), break_on_hyphens=False))
