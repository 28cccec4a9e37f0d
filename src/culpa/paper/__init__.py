"""The paper's tables and figures, one module each.

`culpa.paper.run.reproduce` runs them. ``paper.json`` holds the numbers that the paper printed, and ``expected.json`` those
that an independent prototype found.
"""
