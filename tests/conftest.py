"""What must be set before tests start other programs or import scipy."""

import os
import signal

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # without it scikit-learn skips one of its conformance checks
# a shell ignores Ctrl-C for tests in the background, and the programs that they interrupt would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
