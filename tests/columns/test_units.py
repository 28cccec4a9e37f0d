"""Units in headers: which texts in brackets are taken for units."""

import numpy as np
import pandas as pd
import pytest

import culpa
from culpa import PCADetector
from culpa.columns.units import short_names, split_unit, units_in_headers


@pytest.mark.parametrize(
    ("header", "name", "unit"),
    [
        ("T1 [degC]", "T1", "degC"),
        ("T1[degC]", "T1", "degC"),
        ("T1 [degC] ", "T1", "degC"),
        ("T1 (raw) [°C]", "T1 (raw)", "°C"),
        ("flow\n[kg/h]", "flow", "kg/h"),
        ("feed [kscmh]", "feed", "kscmh"),
        ("signal [a.u.]", "signal", "a.u."),
        ("current [A]", "current", "A"),
        ("speed (1/min)", "speed", "1/min"),
        ("flow (kg / h)", "flow", "kg / h"),
        ("flow (Nm3/h)", "flow", "Nm3/h"),
        ("flow (l/min)", "flow", "l/min"),
        ("rate (g·s⁻¹)", "rate", "g·s⁻¹"),
        ("area (m2)", "area", "m2"),
        ("level (%)", "level", "%"),
        ("humidity (% rel)", "humidity", "% rel"),
        ("temperature (deg C)", "temperature", "deg C"),
        ("current (mA)", "current", "mA"),
        ("temperature (K)", "temperature", "K"),
        ("quality [-]", "quality", ""),
    ],
)
def test_headers_with_units(header, name, unit):
    assert split_unit(header) == (name, unit)


@pytest.mark.parametrize(
    "header",
    [
        "T1",
        "flow_kg/h",
        "",
        "[degC]",
        "(degC)",
        "T1 [degC] raw",
        "x[1]",
        "x [1]",
        "x[i]",
        "x []",
        "valve [tank 2]",
        "valve [a,b]",
        "valve [from the laboratory]",
        "pump (A)",
        "pump (A/B)",
        "phase (L1)",
        "zone (TC)",
        "inlet (in)",
        "pressure (min)",
        "pressure (max)",
        "valve (old)",
        "valve (SP)",
        "flow (t-1)",
        "T1 [degC] (t-1)",
    ],
)
def test_headers_without_units(header):
    assert split_unit(header) == (header, "")


def test_units_by_column():
    assert units_in_headers(["T1 [degC]", "pump (A)", "quality [-]", "flow (m3/h)"]) == {
        "T1 [degC]": "degC",
        "flow (m3/h)": "m3/h",
    }


def test_short_names_stay_different():
    assert short_names(["T1 [degC]", "p [bar]", "p [psi]"]) == ("T1", "p [bar]", "p [psi]")
    assert short_names(["T1 [degC]", "T1"]) == ("T1 [degC]", "T1")


def rows(n=100, seed=0):
    names = ["T1 [degC]", "flow (m3/h)", "pump (A)", "load [MW]"]
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 4)), columns=names)


UNITS = {"T1 [degC]": "degC", "flow (m3/h)": "m3/h", "load [MW]": "MW"}


@pytest.mark.parametrize("options", [{}, {"lags": 1}, {"given": ["load [MW]"]}, {"smooth": 0.3}])
def test_detectors_know_the_units_in_headers(tmp_path, options):
    detector = PCADetector(**options).fit(rows())
    assert detector.units_ == UNITS
    detector.save(tmp_path / "m")
    assert culpa.load(tmp_path / "m").units_ == UNITS
    assert PCADetector().fit(rows().to_numpy()).units_ == {}


def test_units_by_hand_are_stronger_and_last():
    detector = PCADetector().partial_fit(rows())
    assert detector.units_ == UNITS
    detector.units_ = detector.units_ | {"T1 [degC]": "K"}
    detector.partial_fit(rows(seed=1))
    assert detector.units_ == UNITS | {"T1 [degC]": "K"}
    assert detector.fit(rows()).units_ == UNITS


def test_incidents_tell_units_from_headers():
    detector, new = PCADetector().fit(rows()), rows(20, seed=1)
    new.loc[10, "T1 [degC]"] += 30
    (incident,) = detector.incidents(new)
    assert incident.culprits[0].unit == "degC"
