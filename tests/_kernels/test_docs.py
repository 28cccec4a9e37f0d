"""The worked examples of docs/kernels.md, repeated."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"


def test_examples_of_the_page():
    blocks = re.findall(r"^```pycon\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", str(PAGE), 0)
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
    assert not runner.failures, "".join(report)
