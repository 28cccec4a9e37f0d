"""Side-by-side timings; `python -m benchmarks` prints ratios measured in one run."""
