"""`culpa fit` and the commands after it: groups, units in headers, and columns that imply each other."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run

import culpa
from culpa import PCADetector

NAMES = ["T1 [degC]", "T2 [degC]", "valve", "flow (m3/h)", "power", "speed"]
GROUP = "cooling=T1 [degC], valve"


def table(n=300, seed=0):
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(7)
    X = rng.normal(size=(n, 2)) @ fixed.normal(size=(2, 6)) + rng.normal(size=(n, 6))
    X[:, 3] = X[:, 2] + 0.05 * rng.normal(size=n)  # the valve sets the flow
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture
def folder(tmp_path):
    new = table(40, seed=1)
    new.loc[20:, "T1 [degC]"] += 8
    table().to_csv(tmp_path / "normal.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def fit(folder, *options):
    run("fit", folder / "normal.csv", "-o", folder / "m.culpa", "--force", "--quiet", *options)
    return folder / "m.culpa"


def read(folder, command, *options):
    out = folder / "out.parquet"
    run(command, folder / "new.csv", "-m", folder / "m.culpa", "-o", out, "--force", "--quiet", *options)
    return pd.read_parquet(out)


def test_commands_blame_groups_and_open_them(folder):
    model = fit(folder, "--group", GROUP, "--group", "drive=power,speed")
    new = pd.read_csv(folder / "new.csv")
    detector = culpa.load(model)
    assert detector.groups == {"cooling": ["T1 [degC]", "valve"], "drive": ["power", "speed"]}
    for options, groups in ((), detector.groups), (("--no-groups",), None):
        why = detector.explain(new, groups=groups)
        found = read(folder, "explain", "--all", *options)
        assert tuple(found.columns[-len(why.player_names) :]) == why.player_names
        np.testing.assert_allclose(found[list(why.player_names)], why.values, rtol=1e-6, atol=1e-8)
        lines = read(folder, "explain", "--top", "1", *options)
        assert lines["feature"].iloc[-1] == ("T1 [degC]" if options else "cooling")
        printed = run("explain", folder / "new.csv", "-m", model, "--top", "1", "-q", *options).stdout
        assert ",," not in printed  # groups have the reading of their worst member
        assert "nan" not in printed
        told = read(folder, "incidents", *options)
        assert told["sentence"].tolist() == [one.sentence for one in detector.incidents(new, groups=groups)]
        page = run("report", folder / "new.csv", "-m", model, "--json", "-q", *options).stdout
        assert json.loads(page)["players"] == list(why.player_names)
        periods = folder / "normal.csv", folder / "new.csv"
        compared = json.loads(run("compare", *periods, "-m", model, "--json", *options).stdout)
        assert {one["feature"] for one in compared["features"]} == set(why.player_names)
    assert "nan" not in run("compare", *periods, "-m", model).stdout


def test_pipes_blame_groups(folder):
    fit(folder, "--group", GROUP)
    lines = pd.read_csv(folder / "new.csv").to_json(orient="records", lines=True)
    answers = run("explain", "-", "-m", folder / "m.culpa", "--top", "1", "-q", stdin=lines).stdout.splitlines()
    assert json.loads(answers[-1])["culprits"][0]["feature"] == "cooling"


def test_a_compiled_explainer_is_that_of_the_groups(folder):
    detector = culpa.load(fit(folder, "--group", GROUP, "--compile"))
    assert detector.explainer().forms.constants.shape[1] == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group", "cooling"], "--group must be 'name=a,b', where a and b are columns to learn from, got 'cooling'."),
        (["--group", "=valve"], "--group must be 'name=a,b'"),
        (["--group", "cooling= , "], "--group must be 'name=a,b'"),
        (["--group", "cooling=valv,power"], "unknown feature in group 'cooling': 'valv'"),
        (["--group", "cooling=valv,power"], "did you mean 'valve'?"),
        (["--group", "u=valve", "--group", "v=power,valve"], "'valve' is in the groups 'u' and 'v'"),
        (["--group", "u=valve", "--given", "valve"], "column 'valve' is given and in the group 'u'"),
        (["--group", "power=valve,speed"], "group 'power' has the name of a feature that is not in the group"),
        (["--drop", "valve", "--group", "u=valve,power"], "unknown feature in group 'u': 'valve'"),
        (["--given", "valv"], "unknown feature in given: 'valv'"),
    ],
)
def test_wrong_groups_are_refused_in_one_sentence(folder, options, message):
    for command in (["fit"], ["calibrate"]):
        result = run(*command, folder / "normal.csv", "-o", folder / "m.culpa", *options, code=2)
        assert message in result.stderr
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
    assert not (folder / "m.culpa").exists()


def test_a_group_may_be_given_in_parts(folder):
    assert culpa.load(fit(folder, "--group", "u=valve", "--group", "u=power")).groups == {"u": ["valve", "power"]}


def test_units_come_from_headers_unless_they_are_given(folder):
    found = culpa.load(fit(folder, "--unit", "T2 [degC]=K", "--unit", "power=kW")).units_
    assert found == {"T1 [degC]": "degC", "T2 [degC]": "K", "flow (m3/h)": "m3/h", "power": "kW"}
    told = run("info", folder / "m.culpa").stdout
    assert [line.split()[0::3] for line in told.splitlines() if line.startswith("T")] == [["T1", "degC"], ["T2", "K"]]


def test_columns_that_imply_each_other(folder):
    told = run("fit", folder / "normal.csv", "-o", folder / "m.culpa").stderr
    (sentence,) = (line for line in told.splitlines() if "imply each other" in line)
    strength = PCADetector().fit(table()).suggested_groups()[0].strength
    assert sentence == (
        f"valve and flow imply each other (partial correlation {strength:.2f}): faults in one cannot be "
        "distinguished from faults in the other. Consider --group 'valve/flow=valve,flow (m3/h)'"
    )
    assert sentence in run("info", folder / "m.culpa").stdout
    about = json.loads(run("info", folder / "m.culpa", "--json").stdout)
    assert about["suggested_groups"] == [
        {"features": ["valve", "flow (m3/h)"], "strength": pytest.approx(strength, rel=1e-6)}
    ]
    assert about["groups"] == {}
    again = run("fit", folder / "normal.csv", "-o", folder / "m.culpa", "-f", "--group", "valve/flow=valve,flow (m3/h)")
    assert "imply each other" not in again.stderr
    about = run("info", folder / "m.culpa").stdout
    assert "imply each other" not in about
    assert "valve/flow              valve, flow (m3/h)" in about
    assert "imply each other" not in run("fit", folder / "normal.csv", "-o", folder / "m.culpa", "-f", "-q").stderr
