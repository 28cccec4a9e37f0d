"""The paper's experiments, one module per table or figure, with its numbers and ours beside them.

`culpa.experiments.run.reproduce` runs them; ``paper.json`` holds what the paper printed, ``expected.json`` what an
independent prototype found.
"""
