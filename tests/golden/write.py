"""Write the numbers that explanations are compared with: ``python tests/golden/write.py``.

Run it after a change that is meant to change numbers. It says which cases changed, and by how much.
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden import cases, stored


def main():
    before = stored.read() if stored.PATH.exists() else {}
    answers = {case: cases.answer(case) for case in cases.names()}
    changed = {case: stored.difference(answer, before[case]) for case, answer in answers.items() if case in before}
    changed = {case: text for case, text in changed.items() if text}
    kinds = Counter((*case.split("/")[:2], text.partition(" is off")[0]) for case, text in changed.items())
    lines = [f"{which}, {game} game: {n} cases changed: {text}" for (which, game, text), n in kinds.items()]
    lines += [f"{len(answers):,} cases, {len(changed):,} changed, {len(answers.keys() - before.keys()):,} new"]
    sys.stdout.write("\n".join(lines) + "\n")
    stored.write(answers)


if __name__ == "__main__":
    main()
