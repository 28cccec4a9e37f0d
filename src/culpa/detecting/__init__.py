"""The detectors that users fit and call: judging rows one by one, watching rows in order of time."""
