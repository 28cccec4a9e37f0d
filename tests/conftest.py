"""Set before scipy is imported: without it scikit-learn skips one of its conformance checks."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")
