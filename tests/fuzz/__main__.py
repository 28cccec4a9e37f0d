"""``python -m tests.fuzz --tables 100000 --models 10000 --kills 300``: run random cases and print what was found."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.campaign import main

main()
