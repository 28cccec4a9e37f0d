"""Pictures of explanations and detectors. What they show is in `culpa.plots.content`, which needs no drawing library."""
