"""The paper's experiments, one module per table or figure, and experiments beyond the paper.

`culpa.experiments.run.reproduce` runs them. ``paper.json`` holds the numbers that the paper printed, and ``expected.json``
those that an independent prototype found.
"""
