"""What must be set before tests start other programs or import scipy."""

import os
import signal

# tests run side by side, one for each core; threads of matrix products would only get in each other's way
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # without it scikit-learn skips one of its conformance checks
# a shell ignores Ctrl-C for tests in the background, and the programs that they interrupt would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
