"""What fuzzing looks for."""


class Finding(Exception):
    """Something that must never happen: a crash, a wrong answer, half an output, a file that stays behind."""


def must(holds, what):
    if not holds:
        raise Finding(what)
