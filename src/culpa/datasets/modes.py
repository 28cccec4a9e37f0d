"""A simulated plant with three operating modes: half load, full load and recycle.

Two hidden states, feed and heat, change slowly. How the sensors follow them depends on the mode: at half load the valve
opens with the feed, in recycle it closes. The plant stays in a mode for a long stretch and then switches.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.datasets.plant import hidden_states

MODES = ("half load", "full load", "recycle")
# sensor: for each mode its mean and its change per standard deviation of feed and heat; then its noise
_SENSORS = {
    "flow_feed": (((60.0, 3.0, 0.0), (120.0, 4.0, 0.0), (60.0, 2.0, 0.5)), 0.5),
    "flow_product": (((48.0, 2.4, 0.3), (96.0, 3.2, 0.4), (12.0, -1.0, 0.4)), 0.4),
    "flow_recycle": (((10.0, 0.5, 0.0), (20.0, -0.8, 0.0), (48.0, 2.6, 0.0)), 0.3),
    "valve_position": (((40.0, 3.5, 0.5), (75.0, 1.5, -1.5), (55.0, -3.0, 1.0)), 0.5),
    "power": (((210.0, 6.0, 8.0), (380.0, 10.0, 6.0), (260.0, -5.0, 9.0)), 1.5),
    "pressure": (((4.0, 0.1, 0.12), (6.5, 0.25, -0.1), (5.2, -0.15, 0.2)), 0.03),
    "temperature_reactor": (((340.0, -1.0, 3.0), (365.0, 2.0, 2.0), (352.0, 1.5, -2.5)), 0.5),
    "temperature_cooling": (((22.0, 0.3, 1.2), (30.0, 0.8, -0.8), (26.0, -0.8, 1.0)), 0.2),
}
_MEMORY = 0.8  # correlation of a state with itself one row later
_SHORTEST, _LONGEST = 60, 180  # rows that the plant stays in a mode


class Fault(NamedTuple):
    """A sensor that reads too much (or too little) from row ``start`` to before row ``stop``, by ``size``."""

    feature: str
    start: int
    stop: int
    size: float


class ModesPlant(NamedTuple):
    """A simulated plant with operating modes, some sensors of which are faulty among the new rows.

    Attributes
    ----------
    normal : ndarray of shape (rows, sensors)
        Rows to learn from.
    new : ndarray of shape (rows, sensors)
        Later rows, with faults.
    normal_modes, new_modes : ndarray of shape (rows,)
        The mode of every row, from 0.
    culprits : ndarray of shape (rows, sensors)
        Which cells of ``new`` are faulty.
    faults : tuple of Fault
        The faults among the new rows.
    feature_names : tuple of str
        Names of the sensors.

    Examples
    --------
    >>> plant = make_modes_plant()
    >>> [fault.feature for fault in plant.faults]
    ['temperature_reactor', 'valve_position', 'pressure']
    """

    normal: Floats
    new: Floats
    normal_modes: NDArray[np.int64]
    new_modes: NDArray[np.int64]
    culprits: NDArray[np.bool_]
    faults: tuple[Fault, ...]
    feature_names: tuple[str, ...]


DEFAULT_FAULTS = (
    Fault("temperature_reactor", 60, 90, -8.0),  # full load, at a temperature of half load
    Fault("valve_position", 260, 290, 8.0),
    Fault("pressure", 420, 450, 0.5),
)


def make_modes_plant(n_normal: int = 3000, n_new: int = 600, *, seed: int = 0) -> ModesPlant:
    """Simulate a plant of 8 sensors with three operating modes; every mode has one fault among the new rows.

    Parameters
    ----------
    n_normal, n_new
        Numbers of rows to learn from, and of new rows, at least 450 of them.
    seed
        The same seed gives the same plant.

    Returns
    -------
    ModesPlant
        Normal and new rows, in one run of the plant.

    Examples
    --------
    >>> plant = make_modes_plant()
    >>> plant.new.shape, sorted(set(plant.normal_modes.tolist()))
    ((600, 8), [0, 1, 2])
    """
    rng = np.random.default_rng(seed)
    normal_modes = _switching(n_normal, rng)
    new_modes = np.repeat([1, 2, 0], -(-n_new // 3))[:n_new].astype(np.int64)
    states = hidden_states(n_normal + n_new, 2, _MEMORY, rng)
    rows = _measure(states, np.concatenate([normal_modes, new_modes]), rng)
    new, names = rows[n_normal:].copy(), tuple(_SENSORS)
    culprits = np.zeros(new.shape, dtype=np.bool_)
    faults = tuple(fault for fault in DEFAULT_FAULTS if fault.stop <= n_new)
    for fault in faults:
        at = names.index(fault.feature)
        new[fault.start : fault.stop, at] += fault.size
        culprits[fault.start : fault.stop, at] = True
    return ModesPlant(rows[:n_normal], new, normal_modes, new_modes, culprits, faults, names)


def _switching(n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The mode of each row: the next mode is one of the others."""
    modes: list[int] = []
    mode = 0
    while len(modes) < n_rows:
        modes += [mode] * int(rng.integers(_SHORTEST, _LONGEST))
        mode = (mode + int(rng.integers(1, 3))) % 3
    return np.array(modes[:n_rows], dtype=np.int64)


def _measure(states: Floats, modes: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    law = np.array([by_mode for by_mode, _ in _SENSORS.values()])  # (sensors, modes, 3)
    noise = np.array([each for _, each in _SENSORS.values()])
    mean, gains = law[:, :, 0].T[modes], law[:, :, 1:].transpose(1, 0, 2)[modes]
    return np.asarray(mean + np.einsum("nds,ns->nd", gains, states) + noise * rng.standard_normal(mean.shape))
