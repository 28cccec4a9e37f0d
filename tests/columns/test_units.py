"""Units in headers: which texts in brackets are taken for units."""

import pytest

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
