"""`python -m benchmarks`: every table of docs/performance.md, measured anew."""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import engine, peers_table, whole
from benchmarks.commands import small_commands
from benchmarks.coverage import coverage
from benchmarks.fit import fit_times
from benchmarks.forms import compiled_t2, missing_patterns
from benchmarks.in_order import in_order
from benchmarks.leading import leading
from benchmarks.long_tables import long_tables
from benchmarks.mixture import mixture_walks
from benchmarks.models import model_costs
from benchmarks.problems import all_problems
from benchmarks.sampling import GOALS, arrays_of, large_model, sampling
from benchmarks.timing import product_rate
from benchmarks.wide import wide_tables


def show(console: Console, title: str, lines: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for name in lines[0]:
        table.add_column(name, justify="left" if isinstance(lines[0][name], str) else "right")
    for line in lines:
        table.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in line.values()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    named = (
        "peers, exact, compiled, whole, row, pipe, sampling, few, coverage, leading, first, busy, "
        "fit, mixture, models, order, long, wide, commands"
    )
    parser.add_argument("--only", help=f"run one part: {named}, 'compiled T2', 'missing patterns'")
    options = parser.parse_args()
    console = Console(width=140)
    engine.warm_up()
    problems = all_problems()
    large = [problem for problem in problems if problem.d > 24]
    parts = {
        "peers": lambda: [line for problem in problems for line in peers_table.compare(problem, options.quick)],
        "exact": lambda: engine.exact_walks(options.quick),
        "compiled": lambda: engine.compiled_rows(options.quick),
        "whole": lambda: whole.whole_explanations(options.quick),
        "row": whole.one_row,
        "pipe": whole.pipes,
        "sampling": lambda: [
            sampling(name, arrays, score, goal)
            for name, arrays in (*((problem.name, arrays_of(problem)) for problem in large), ("made up", large_model()))
            for score in ("mahalanobis", "spe")
            for goal in GOALS
        ],
        "few": lambda: [engine.how_few(problem, 0.01, options.quick) for problem in large],
        "coverage": lambda: coverage(options.quick),
        "leading": lambda: [leading(problem, k) for problem in large for k in (1, 3)],
        "first": engine.first_use,
        "busy": engine.busy_machine,
        "fit": lambda: fit_times(options.quick),
        "mixture": lambda: mixture_walks(options.quick),
        "models": lambda: model_costs(options.quick),
        "order": lambda: in_order(options.quick),
        "long": lambda: long_tables(options.quick),
        "wide": lambda: wide_tables(options.quick),
        "commands": small_commands,
        "compiled T2": lambda: compiled_t2(options.quick),
        "missing patterns": lambda: missing_patterns(options.quick),
    }
    results: dict[str, Any] = {"machine": engine.machine() | {"product rate, Gflop/s": product_rate() / 1e9}}
    console.print(results["machine"])
    for name, run in parts.items():
        if options.only in (None, name):
            results[name] = run()
            show(console, name, results[name])
            if options.json:
                options.json.write_text(engine.to_json(results))


if __name__ == "__main__":
    main()
