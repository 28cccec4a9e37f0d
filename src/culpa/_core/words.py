"""Numbers with their nouns, names with their articles, so that messages read right for one and for many; lists of names."""

import csv
from collections.abc import Iterable

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
