"""A simulated plant: correlated sensors driven by a few hidden states, with faults in known sensors.

Feed rate, heat duty and ambient temperature change slowly. Flows and pressures depend mostly on feed and duty,
temperatures on all three. Every sensor adds its own noise. So the other sensors imply what each sensor should read,
and a fault in one sensor breaks the correlations.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import one_of
from culpa._core.types import Floats

Kind = Literal["bias", "drift", "stuck", "spike", "lost correlation"]

STATES = ("feed", "duty", "ambient")
# sensor: mean, change per standard deviation of each state, and noise, all in the unit of the sensor
_SENSORS = {
    "flow_feed": (120.0, (8.0, 0.0, 0.0), 0.8),
    "flow_product": (90.0, (6.0, 0.8, 0.0), 0.7),
    "flow_reflux": (45.0, (2.4, 1.8, 0.0), 0.5),
    "flow_steam": (14.0, (0.3, 1.1, -0.2), 0.15),
    "pressure_inlet": (8.2, (-0.35, 0.0, 0.05), 0.05),
    "pressure_column": (5.6, (0.12, 0.22, 0.06), 0.04),
    "pressure_outlet": (3.1, (-0.2, 0.1, 0.0), 0.03),
    "pressure_drop": (5.1, (0.38, 0.05, 0.0), 0.06),
    "temperature_feed": (62.0, (-0.6, 0.4, 2.5), 0.35),
    "temperature_top": (88.0, (-0.5, 1.6, 0.7), 0.3),
    "temperature_bottom": (141.0, (-1.4, 2.9, 0.3), 0.4),
    "temperature_cooling": (24.0, (0.2, 0.3, 3.0), 0.3),
}
_MEMORY = 0.9  # correlation of a state with itself one row later


class Fault(NamedTuple):
    """A fault of one sensor of the simulated plant.

    Attributes
    ----------
    kind : str
        "bias", "drift", "stuck", "spike" or "lost correlation".
    feature : str
        Name of the sensor.
    start, stop : int
        The fault is in the new rows from ``start`` to before ``stop``.
    size : float
        In standard deviations of the sensor. It is not used for "stuck", where the sensor repeats its value from before the
        fault, and for "lost correlation", where it shows usual values that have nothing to do with the other sensors.

    Examples
    --------
    >>> plant = make_plant(faults=[Fault("bias", "flow_feed", 100, 110, size=-3.0)])
    >>> plant.culprits.sum(axis=0)[:3].tolist()
    [10, 0, 0]
    """

    kind: Kind
    feature: str
    start: int
    stop: int
    size: float = 4.0


class Plant(NamedTuple):
    """A simulated plant, some sensors of which are faulty among the new rows.

    Attributes
    ----------
    normal : ndarray of shape (rows, sensors)
        Rows to learn from.
    new : ndarray of shape (rows, sensors)
        Later rows, with faults.
    culprits : ndarray of shape (rows, sensors)
        Which cells of ``new`` are faulty.
    faults : tuple of Fault
        The faults among the new rows.
    feature_names : tuple of str
        Names of the sensors.

    Examples
    --------
    >>> plant = make_plant()
    >>> plant.faults[0].kind, plant.faults[0].feature
    ('bias', 'flow_reflux')
    """

    normal: Floats
    new: Floats
    culprits: NDArray[np.bool_]
    faults: tuple[Fault, ...]
    feature_names: tuple[str, ...]


DEFAULT_FAULTS = (
    Fault("bias", "flow_reflux", 50, 80),
    Fault("drift", "temperature_bottom", 100, 150, 6.0),
    Fault("stuck", "pressure_column", 170, 210),
    Fault("spike", "flow_steam", 230, 231, 8.0),
    Fault("lost correlation", "pressure_drop", 250, 290),
    # several at once
    Fault("bias", "flow_product", 310, 340),
    Fault("bias", "temperature_top", 310, 340, -4.0),
    Fault("drift", "pressure_inlet", 310, 340, 5.0),
)


def make_plant(
    n_normal: int = 1000,
    n_new: int = 400,
    faults: Sequence[Fault] = DEFAULT_FAULTS,
    *,
    seed: int | np.random.Generator | None = 0,
) -> Plant:
    """Simulate a plant of 12 sensors that a few slowly changing states drive.

    Parameters
    ----------
    n_normal, n_new
        Numbers of rows to learn from, and of new rows.
    faults
        Applied to the new rows, one after the other.
    seed
        The same seed gives the same plant.

    Returns
    -------
    Plant
        Normal and new rows, in one run of the plant.

    Examples
    --------
    >>> plant = make_plant()
    >>> plant.new.shape, plant.feature_names[0]
    ((400, 12), 'flow_feed')
    >>> plant.culprits[60].nonzero()[0].tolist()
    [2]
    """
    for fault in faults:
        _check(fault, n_new)
    rng = np.random.default_rng(seed)
    rows = _measure(hidden_states(n_normal + n_new, len(STATES), _MEMORY, rng), rng)
    normal, new = rows[:n_normal], rows[n_normal:].copy()
    names = tuple(_SENSORS)
    culprits = np.zeros(new.shape, dtype=np.bool_)
    for fault in faults:
        at = names.index(fault.feature)
        new[fault.start : fault.stop, at] = _faulty(fault, new[:, at], rng)
        culprits[fault.start : fault.stop, at] = True
    return Plant(normal, new, culprits, tuple(faults), names)


def hidden_states(n_rows: int, n_states: int, memory: float, rng: np.random.Generator) -> Floats:
    """Hidden states of mean 0 and variance 1, correlated from row to row."""
    shocks = rng.standard_normal((n_rows, n_states)) * np.sqrt(1 - memory**2)
    states, state = np.empty_like(shocks), rng.standard_normal(n_states)
    for row, shock in enumerate(shocks):
        state = memory * state + shock
        states[row] = state
    return np.asarray(states)


def _measure(states: Floats, rng: np.random.Generator) -> Floats:
    centre, gains, noise = (np.array(column) for column in zip(*_SENSORS.values(), strict=True))
    return np.asarray(centre + states @ gains.T + noise * rng.standard_normal((len(states), len(centre))))


def _faulty(fault: Fault, sensor: Floats, rng: np.random.Generator) -> Floats:
    """Readings of the sensor during the fault."""
    true = sensor[fault.start : fault.stop]
    spread = _spread(fault.feature)
    if fault.kind == "stuck":
        return np.full_like(true, sensor[max(fault.start - 1, 0)])
    if fault.kind == "lost correlation":
        return _SENSORS[fault.feature][0] + spread * rng.standard_normal(len(true))
    ramp = np.linspace(0, 1, len(true) + 1)[1:] if fault.kind == "drift" else 1.0
    return np.asarray(true + fault.size * spread * ramp)


def _spread(feature: str) -> float:
    """Standard deviation of a healthy sensor."""
    _, gains, noise = _SENSORS[feature]
    return float(np.sqrt(np.sum(np.square(gains)) + noise**2))


def _check(fault: Fault, n_new: int) -> None:
    one_of(fault.kind, get_args(Kind), "kind of fault")
    one_of(fault.feature, _SENSORS, "sensor")
    if not 0 <= fault.start < fault.stop <= n_new:
        raise ValueError(
            f"the fault {fault.kind!r} of {fault.feature} has start={fault.start} and stop={fault.stop}, "
            f"but there are {n_new} new rows: choose 0 <= start < stop <= {n_new}."
        )
