"""``python -m studies NAME``: run studies, and write their numbers and pages."""

import argparse
from pathlib import Path

from culpa.cli.console import work_bar
from studies.runner import DOCS, STUDIES, measure, parts, write_page


def main(arguments: list[str] | None = None) -> None:
    """Run the studies that are named, or write only their pages."""
    parser = argparse.ArgumentParser(prog="python -m studies", description="Run studies, and write numbers and pages.")
    parser.add_argument("names", nargs="+", choices=STUDIES, metavar="NAME", help=", ".join(STUDIES))
    parser.add_argument("-o", "--output", type=Path, default=DOCS, help="folder for numbers and pages (default: docs)")
    parser.add_argument("--data", type=Path, help="folder with the data files (default: CULPA_DATA)")
    parser.add_argument("--page", action="store_true", help="write the page from the numbers that are there already")
    parser.add_argument("--part", help="measure only this part again (false-alarms: in_order)")
    chosen = parser.parse_args(arguments)
    if chosen.part is not None and any(chosen.part not in parts(name) for name in chosen.names):
        parser.error(f"{' and '.join(chosen.names)} cannot measure {chosen.part!r} alone.")
    for name in chosen.names:
        if not chosen.page:
            with work_bar() as progress:
                measure(name, chosen.data, chosen.output, progress, chosen.part)
        print(f"wrote {write_page(name, chosen.output)}")


if __name__ == "__main__":
    main()
