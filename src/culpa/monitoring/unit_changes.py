"""A column that reads in another unit than in normal rows, recognised from its readings alone.

The other columns imply what a column should read. If one, and only one, of the usual conversions of units brings its
readings back to that, as near as normal rows are, the unit has changed.
"""

from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats

_AS_NEAR = 1.25  # times what normal rows show


class Conversion(NamedTuple):
    """Readings are factor * value + offset, with the value in the unit of the normal rows; as from one unit to another."""

    factor: float
    offset: float
    one: str
    other: str


_PAIRS = (  # factor, and the units that it converts from and to
    (10.0, "cm", "mm"),
    (100.0, "fractions", "percent"),
    (1000.0, "kg", "g"),
    (60.0, "hours", "minutes"),
    (3600.0, "hours", "seconds"),
    (2.20462, "kg", "lb"),
    (3.28084, "m", "ft"),
    (14.5038, "bar", "psi"),
    (6.89476, "psi", "kPa"),
    (4.184, "cal", "J"),
    (3.78541, "gal", "l"),
    (35.3147, "m3", "ft3"),
    (2.54, "in", "cm"),
    (1.8, "K", "°R"),
)
CONVERSIONS = (
    *(Conversion(factor, 0.0, one, other) for factor, one, other in _PAIRS),
    *(Conversion(1 / factor, 0.0, other, one) for factor, one, other in _PAIRS),
    Conversion(1.8, 32.0, "°C", "°F"),
    Conversion(1 / 1.8, -32 / 1.8, "°F", "°C"),
    Conversion(1.0, 273.15, "°C", "K"),
    Conversion(1.0, -273.15, "K", "°C"),
)


def changed_unit(readings: Floats, implied: Floats, sd: float) -> Conversion | None:
    """The conversion that explains readings of a column, if it is the only one; ``sd`` is usual between the two.

    >>> implied = np.array([20.0, 21.0, 20.5])
    >>> changed_unit(1.8 * implied + 32, implied + [0.01, -0.02, 0.0], 0.02)
    Conversion(factor=1.8, offset=32.0, one='°C', other='°F')
    >>> changed_unit(implied + 3, implied, 0.02), changed_unit(1.8 * implied, implied, 100.0)
    (None, None)
    """
    if not np.ptp(readings):
        return None  # it stands still
    near = [
        one for one in CONVERSIONS if np.mean(((readings - one.offset) / one.factor - implied) ** 2) <= _AS_NEAR * sd**2
    ]
    return near[0] if len(near) == 1 else None
