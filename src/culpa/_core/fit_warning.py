"""The kind of warning that fitting gives."""


class FitWarning(UserWarning):
    """Something that you should know before you rely on a fitted detector."""
