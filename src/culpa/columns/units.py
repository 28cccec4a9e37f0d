"""Units in the headers of columns, such as "T1 [degC]" and "flow (m3/h)".

Square brackets after a name are taken for a unit. Round brackets may hold anything ("pump (A)", "valve (old)"), so only
text that is made of units counts: symbols with prefixes and exponents, multiplied or divided.
"""

import re
from collections import Counter
from collections.abc import Sequence

_LONGEST = 16  # signs of a unit
_HEADER = re.compile(r"(?P<name>.*\S)(?P<space>\s*)(?:\[(?P<square>[^\[\]]*)\]|\((?P<round>[^()]*)\))\s*", re.DOTALL)
_NO_UNIT = ("-", "–")  # what headers say of numbers without a unit

_SCALED = "m g s K mol Hz N Pa J W V A F C T H S ohm Ω bar l L eV Wh VA var Ah B bit cal t"  # take prefixes
_PREFIXES = {  # with the symbols that they are usual for
    "k m u µ μ n p": _SCALED,
    "M G T": "Hz N Pa J W V ohm Ω eV Wh VA var B bit",
    "da h d c": "m g l L N Pa",
}
_UNSCALED = """
    % ‰ pct vol% mol% wt% %rel %RH ppm ppb ppt ppmv ppbv ° deg °C °F ℃ degC degF degK rad rpm min h hr d day sec
    lb lbs oz psi psig psia barg bara atm Torr mmHg inHg mmH2O inH2O ft in yd mph kn gal gpm cfm scfm sccm slpm kscmh
    Nm Nl Sm dB dBA dBm pH cP cSt NTU Gy Sv Bq lx lm u USD EUR
"""
# words and labels that are spelled like units, and mean them only beside others, as in kg/min
_WORDS = "A B C D F H L N S T d l t u in min cal sec pm hm Nl Sm"
_LABELS = re.compile(r"[A-Z](/[A-Z])+")  # such as A/B
_SPELLINGS = {"deg C": "degC", "deg F": "degF", "mm Hg": "mmHg", "% rel": "%rel", "vol %": "vol%", "mol %": "mol%"}

_PREFIXED = [prefix + unit for some, units in _PREFIXES.items() for prefix in some.split() for unit in units.split()]
_SYMBOLS = {*_UNSCALED.split(), *_SCALED.split(), *_PREFIXED}
_SYMBOL = "|".join(map(re.escape, sorted(_SYMBOLS, key=len, reverse=True)))
_FACTOR = rf"(?:{_SYMBOL})(?:\^?[-+]?\d|[⁻⁺]?[¹²³])?"
_PRODUCT = re.compile(rf"(?:1/{_FACTOR}|{_FACTOR}[/*·.]{_FACTOR})(?:[/*·.]{_FACTOR})*")
# a symbol with a number may be a label, such as K1 and t-1, unless it is an area, a volume or a frequency
_SINGLE = re.compile(rf"{_SYMBOL}|(?:[mcdk]?m|ft|yd)(?:\^?[23]|[²³])|(?:s|min|h)(?:\^?-1|⁻¹)")


def split_unit(name: str) -> tuple[str, str]:
    """The name and the unit in the header of a column; the whole header and "" where it has no unit.

    >>> split_unit("T1 [degC]"), split_unit("flow (m3/h)"), split_unit("pump (A)"), split_unit("quality [-]")
    (('T1', 'degC'), ('flow', 'm3/h'), ('pump (A)', ''), ('quality', ''))
    """
    found = _HEADER.fullmatch(name)
    if found is None:
        return name, ""
    square = found["square"] is not None
    unit = (found["square"] if square else found["round"]).strip()
    if unit in _NO_UNIT:
        return found["name"], ""
    known = _looks_like_unit(unit)
    # without a space, brackets may hold an index: x[i]
    said = square and bool(found["space"]) and _may_be_unit(unit)
    return (found["name"], unit) if known or said else (name, "")


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names without the units in them, for texts that show units with the numbers; whole where two would be the same.

    >>> short_names(["T1 [degC]", "flow (m3/h)", "p [bar]", "p [psi]"])
    ('T1', 'flow', 'p [bar]', 'p [psi]')
    """
    short = [split_unit(name)[0] for name in names]
    uses = Counter([*short, *names])
    return tuple(a if uses[a] == 1 else b for a, b in zip(short, names, strict=True))


def units_in_headers(names: Sequence[str]) -> dict[str, str]:
    """The units of the columns whose headers have one."""
    units = {name: split_unit(name)[1] for name in names}
    return {name: unit for name, unit in units.items() if unit}


def is_unit(text: str) -> bool:
    """Whether a text that stands alone, as in a row of units below the names, can be a unit.

    >>> [is_unit(text) for text in ("°C", "m3/h", "A", "TI101", "")]
    [True, True, True, False, False]
    """
    return _looks_like_unit(text) or text in _WORDS.split()


def _looks_like_unit(text: str) -> bool:
    """Whether a text is made of units, and is not a word or a label as well."""
    compact = re.sub(r"\s*([/*·])\s*", r"\1", _SPELLINGS.get(text, text))
    if len(text) > _LONGEST or compact in _WORDS.split() or _LABELS.fullmatch(compact):
        return False
    return _PRODUCT.fullmatch(compact) is not None or _SINGLE.fullmatch(compact) is not None


def _may_be_unit(text: str) -> bool:
    """Whether a text in square brackets can be a unit that is not listed here."""
    return 0 < len(text) <= _LONGEST and not re.search(r"[\s,;=]", text) and any(map(str.isalpha, text))
