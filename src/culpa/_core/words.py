"""Numbers with their nouns, shares, spans of time, lists and names, as messages and sentences show them."""

import csv
import math
from collections.abc import Iterable, Sequence

_LONGEST = 60  # characters of a name that a sentence spells out
_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
# capitals whose names begin with a vowel sound: an SVC, an MLP, but a PCA
_SPOKEN_WITH_VOWEL = frozenset("AEFHILMNORSX")
_NOT_VOWELS = ("One", "Uni", "Use", "Eu")  # a OneClassSVM


def count(n: float, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "row"), count(12345, "row"), count(0, "feature")
    ('1 row', '12,345 rows', '0 features')
    """
    return f"{n:,.0f} {noun}{'' if n == 1 else 's'}"


def count_are(n: float, noun: str) -> str:
    """A number, its noun and the verb.

    >>> count_are(1, "row"), count_are(2, "row")
    ('1 row is', '2 rows are')
    """
    return f"{count(n, noun)} {'is' if n == 1 else 'are'}"


def with_article(name: str) -> str:
    """A name after "a" or "an".

    >>> [with_article(name) for name in ("IsolationForest", "PCA", "SVC", "OneClassSVM", "list")]
    ['an IsolationForest', 'a PCA', 'an SVC', 'a OneClassSVM', 'a list']
    """
    spelled = len(name) > 1 and name[:2].isupper()  # letter by letter
    vowel = name[:1] in _SPOKEN_WITH_VOWEL if spelled else name[:1].lower() in set("aeiou")
    return f"{'an' if vowel and not name.startswith(_NOT_VOWELS) else 'a'} {name}"


def kind_of(thing: object) -> str:
    """What a thing is, and whose, for errors about the wrong kind of object.

    >>> from sklearn.ensemble import IsolationForest
    >>> kind_of(IsolationForest()), kind_of([1])
    ('an IsolationForest of sklearn', 'a list')
    """
    kind = type(thing)
    package = kind.__module__.partition(".")[0]
    return with_article(kind.__name__) + ("" if package in ("builtins", "__main__") else f" of {package}")


def split_list(text: str) -> list[str]:
    """Names given as 'a,b,c'; a name with a comma is quoted, as in CSV.

    >>> split_list('a, "b,c"')
    ['a', 'b,c']
    """
    return [name.strip() for cells in csv.reader([text], skipinitialspace=True) for name in cells]


def join_list(names: Iterable[str]) -> str:
    """What `split_list` takes apart again."""
    return ",".join('"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name for name in names)


def cut(name: str, most: int = _LONGEST) -> str:
    """A name without its middle, where it is too long to read.

    >>> cut("temperature"), cut("temperature of the upper reactor", 16)
    ('temperature', 'temperatu…eactor')
    """
    head = math.ceil((most - 1) * 0.6)
    return name if len(name) <= most else f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


def listed(texts: Sequence[str]) -> str:
    """Texts with commas and an "and".

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def share(part: float) -> str:
    """A share in percent, to two digits of it or of what is missing to the whole.

    >>> share(0.5), share(0.01234), share(0.00004), share(1.0), share(0.995), share(0.99997)
    ('50%', '1.2%', '0.004%', '100%', '99.5%', '99.997%')
    """
    smaller = float(f"{100 * min(part, 1 - part):.2g}")
    return f"{smaller if part < 0.5 else 100 - smaller:.12g}%"


def ordinal(n: int) -> str:
    """A number in an order.

    >>> ordinal(2), ordinal(3), ordinal(11), ordinal(21)
    ('2nd', '3rd', '11th', '21st')
    """
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def in_percent(rate: Iterable[float]) -> tuple[str, str, str]:
    """A rate and its interval in percent, all with the decimals that the width of the interval needs.

    >>> in_percent((0.01, 0.0096, 0.0104)), in_percent((0.011, 0.004, 0.023)), in_percent((0.0, 0.0, 0.11))
    (('1.00', '0.96', '1.04'), ('1.1', '0.4', '2.3'), ('0', '0', '11'))
    """
    rate = tuple(rate)
    width = 100 * (rate[2] - rate[1])
    decimals = max(math.ceil(math.log10(5 / width)), int(width < 10)) if width > 0 else 2
    value, low, high = (f"{100 * share:.{decimals}f}" for share in rate)
    return value, low, high


def span(seconds: float, digits: int = 3) -> str:
    """A span of time, in the largest unit that it reaches.

    >>> span(5400), span(86400), span(172800), span(0.25), span(0)
    ('1.5 h', '1 day', '2 days', '250 ms', '0 s')
    """
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1] if seconds else (1, "s"))
    number = f"{seconds / size:.{digits}g}"
    return f"{number} {unit}{'s' if unit == 'day' and number != '1' else ''}"
