"""Methods of a detector: judge rows one by one, and watch rows in order of time."""
