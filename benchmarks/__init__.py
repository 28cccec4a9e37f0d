"""Side-by-side timings and accuracy: `python -m benchmarks [--quick] [--json FILE]`.

Every speed is a ratio of two times measured in the same run. Real data come through `culpa.datasets`, so set CULPA_DATA
or let them be downloaded.
"""
