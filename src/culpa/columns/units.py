"""Units in the headers of columns, such as "T1 [degC]" and "flow (m3/h)".

Square brackets after a name are taken for a unit. Round brackets may hold anything ("pump (A)", "valve (old)"), so only
text that is made of units counts: symbols with prefixes and exponents, multiplied or divided.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

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


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A product of units, and a single unit; made on first use, because that takes some time."""
    prefixed = [prefix + unit for some, units in _PREFIXES.items() for prefix in some.split() for unit in units.split()]
    symbols = {*_UNSCALED.split(), *_SCALED.split(), *prefixed}
    symbol = "|".join(map(re.escape, sorted(symbols, key=len, reverse=True)))
    factor = rf"(?:{symbol})(?:\^?[-+]?\d|[⁻⁺]?[¹²³])?"
    # a symbol with a number may be a label, such as K1 and t-1, unless it is an area, a volume or a frequency
    single = rf"{symbol}|(?:[mcdk]?m|ft|yd)(?:\^?[23]|[²³])|(?:s|min|h)(?:\^?-1|⁻¹)"
    return re.compile(rf"(?:1/{factor}|{factor}[/*·.]{factor})(?:[/*·.]{factor})*"), re.compile(single)


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
    return any(pattern.fullmatch(compact) for pattern in _patterns())


def _may_be_unit(text: str) -> bool:
    """Whether a text in square brackets can be a unit that is not listed here."""
    return 0 < len(text) <= _LONGEST and not re.search(r"[\s,;=]", text) and any(map(str.isalpha, text))


def same_unit(one: str, other: str) -> bool:
    """Whether two texts write the same unit.

    >>> same_unit("degC", "°C"), same_unit("m3/h", "m³ / h"), same_unit("°C", "°F")
    (True, True, False)
    """
    return _plain(one) == _plain(other)


def conversion(unit: str, other: str) -> tuple[float, float] | None:
    """Factor and shift that turn a number in one unit into one in another; ``None`` if they are not known.

    >>> [round(x, 4) for x in conversion("degF", "°C")], conversion("kPa", "bar"), conversion("m3/h", "°C")
    ([0.5556, -17.7778], (0.01, 0.0), None)
    """
    a, b = _SCALES.get(_plain(unit)), _SCALES.get(_plain(other))
    if a is None or b is None or a[0] != b[0]:
        return None
    return a[1] / b[1], (a[2] - b[2]) / b[1]


def physical_range(unit: str) -> tuple[float, float]:
    """The lowest and the highest value that a quantity in this unit can have.

    >>> physical_range("%"), physical_range("°C"), physical_range("kg"), physical_range("bar")
    ((0.0, 100.0), (-273.15, inf), (0.0, inf), (-inf, inf))
    """
    plain = _plain(unit)
    measures, size, zero = _SCALES.get(plain, ("", 1.0, 0.0))
    if measures == "1" or plain in _SHARES:
        return 0.0, 1 / size if measures == "1" else 100.0
    if measures == "K":
        return -zero / size, math.inf
    return (0.0 if measures in _NEVER_NEGATIVE or plain in _ABSOLUTE else -math.inf), math.inf


def _plain(unit: str) -> str:
    """A unit in one spelling."""
    text = re.sub(r"\s*([/*·])\s*", r"\1", _SPELLINGS.get(unit.strip(), unit.strip())).replace("^", "")
    text = text.translate(str.maketrans("⁻⁺¹²³μ·*", "-+123µ.."))
    text = re.sub(rf"(?<![A-Za-z])({'|'.join(_ALSO)})(?![A-Za-z])", lambda symbol: _ALSO[symbol[0]], text)
    return re.sub(r"(?<![A-Za-z])u(?=[A-Za-z])", "µ", text)


_ALSO = {"degC": "°C", "℃": "°C", "degF": "°F", "degK": "K", "pct": "%", "Ω": "ohm", "L": "l"}
_ALSO |= {"sec": "s", "hr": "h", "day": "d", "lbs": "lb"}
_POWERS = {"k": 3, "m": -3, "µ": -6, "n": -9, "p": -12, "M": 6, "G": 9, "T": 12, "da": 1, "h": 2, "d": -1, "c": -2}
_MEASURED_IN = {  # what units measure, how many of its basic units they are, and where they begin
    **{
        "°C": ("K", 1.0, 273.15),
        "°F": ("K", 5 / 9, 459.67 * 5 / 9),
        "bar": ("Pa", 1e5, 0.0),
        "atm": ("Pa", 101325.0, 0.0),
    },
    **{"psi": ("Pa", 6894.757293168, 0.0), "mmHg": ("Pa", 133.322387415, 0.0), "Torr": ("Pa", 101325 / 760, 0.0)},
    **{"ft": ("m", 0.3048, 0.0), "in": ("m", 0.0254, 0.0), "yd": ("m", 0.9144, 0.0), "lb": ("g", 453.59237, 0.0)},
    **{"t": ("g", 1e6, 0.0), "Wh": ("J", 3600.0, 0.0), "min": ("s", 60.0, 0.0), "h": ("s", 3600.0, 0.0)},
    **{"%": ("1", 1e-2, 0.0), "‰": ("1", 1e-3, 0.0), "ppm": ("1", 1e-6, 0.0), "ppb": ("1", 1e-9, 0.0)},
}
_BASIC = {unit: _MEASURED_IN.get(unit, (unit, 1.0, 0.0)) for unit in _SCALED.split() if unit not in ("Ω", "L")}
_SHARES = ("vol%", "mol%", "wt%", "%rel", "%RH")
_NEVER_NEGATIVE, _ABSOLUTE = ("g", "l", "mol", "Hz"), ("bara", "psia", "m3", "gal", "rpm", "ppmv", "ppbv")
_SCALES = {
    **_MEASURED_IN,
    **_BASIC,
    **{
        prefix + unit: (_BASIC[unit][0], _BASIC[unit][1] * 10.0 ** _POWERS[prefix], 0.0)
        for some, units in _PREFIXES.items()
        for prefix in some.split()
        for unit in units.split()
        if prefix in _POWERS and unit in _BASIC and prefix + unit not in _MEASURED_IN
    },
}
