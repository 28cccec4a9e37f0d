"""The one description of every parameter: what it accepts, and that signatures and docstrings agree with it."""

import inspect
import math
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from parameters_page import page

from culpa import PPCA, Explainer, PCADetector, StudentPPCA, calibrate
from culpa._core import kinds
from culpa._core.choices import RANKINGS, suggestion
from culpa._core.kinds import FLAG, FRACTION, any_of, choice, number, text, whole
from culpa._core.parameter import check_keywords
from culpa._core.parameters import (
    CALIBRATION,
    DETECTOR,
    EXPLAINER,
    PPCA_PARAMETERS,
    STUDENT_PARAMETERS,
    DetectorSettings,
    ExplainerOptions,
    PPCASettings,
)
from culpa.calibration.plan import Plan

DESCRIBED = {
    PCADetector: DETECTOR,
    PPCA: PPCA_PARAMETERS,
    StudentPPCA: STUDENT_PARAMETERS,
    Explainer: EXPLAINER,
    calibrate: CALIBRATION,
}
NOT_PARAMETERS = {"model", "X", "detector", "chosen"}  # what a function works on


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (FRACTION, [0.5, np.float32(0.5)], [0, 1, math.nan, "0.5", None, True]),
        (number(at_least=0, below=0.5), [0, 0.49], [0.5, -1e-9, math.inf]),
        (number(at_least=0), [0, 1e300, 10**400], [math.inf, -1]),
        (whole(1), [1, np.int64(7)], [0, 1.0, True, 10**400, "1"]),
        (whole(None), [-1, 4], [0, None]),
        (FLAG, [True, np.bool_(False)], [0, "yes", None]),
        (choice(("a", "b")), ["a"], ["c", ["a"], None, np.array(["a"])]),
        (text(5), ["metre"], ["", "  ", "metres", 5]),
        (any_of(whole(1), choice(["mle"])), [3, "mle"], [0, "ml"]),
        (kinds.FEATURES, ["flow", ["a", 1], range(3), np.arange(3)], [3, None, [None], [1.5], {"a": 1}]),
        (kinds.GROUPS, [{}, {"g": ["a", 2]}, {"g": "a"}], [[], {"g": None}, {1: ["a"]}]),
    ],
)
def test_kinds(kind, good, bad):
    for value in good:
        kind.check(value, "x")
    for value in bad:
        with pytest.raises(ValueError, match=r"^(x must be|unknown x) .*"):
            kind.check(value, "x")


@pytest.mark.parametrize("owner", DESCRIBED, ids=lambda owner: owner.__name__)
def test_signatures_agree_with_the_description(owner):
    parameters = DESCRIBED[owner]
    signature = inspect.signature(owner).parameters
    assert set(signature) - (NOT_PARAMETERS - set(parameters)) == set(parameters.keywords)
    typed = {PCADetector: DetectorSettings, Explainer: ExplainerOptions, PPCA: PPCASettings}
    hints = get_type_hints(typed.get(owner, owner.__init__ if isinstance(owner, type) else owner))
    for parameter in parameters.values():
        default = signature[parameter.name].default
        assert default == (None if parameter.alias else parameter.default), parameter.name
        parameter.check(parameter.default)
        assert parameter.help.endswith(".")
        if parameter.kind.names and not parameter.kind.parts:  # the type checker knows the same names
            hint = hints[parameter.name]
            literals = [hint, *get_args(hint)]
            assert any(get_origin(h) is Literal and get_args(h) == tuple(parameter.kind.names) for h in literals)


def test_the_plan_of_a_calibration_has_the_same_defaults():
    for parameter in CALIBRATION.values():
        assert getattr(Plan(), parameter.name) == parameter.default


@pytest.mark.parametrize("owner", DESCRIBED, ids=lambda owner: owner.__name__)
def test_docstrings_have_the_description(owner):
    for parameter in DESCRIBED[owner].values():
        assert f"    {parameter.name} : " in owner.__doc__
        assert parameter.help in owner.__doc__
    assert "{parameters}" not in owner.__doc__


def test_unknown_keywords_suggest_the_nearest():
    model = PPCA(1).fit(np.random.default_rng(0).normal(size=(20, 3)))
    for call, nearest in [
        (lambda: PCADetector(statistc="t2"), "PCADetector has no parameter 'statistc'; did you mean 'statistic'"),
        (lambda: PPCA(shrink=1), "PPCA has no parameter 'shrink'; did you mean 'shrinkage'"),
        (lambda: Explainer(model, gmae="x"), "Explainer has no parameter 'gmae'; did you mean 'game'"),
        (lambda: calibrate(None, trials=5), "calibrate has no parameter 'trials'; did you mean 'n_trials'"),
    ]:
        with pytest.raises(TypeError, match=nearest):
            call()
    with pytest.raises(TypeError, match=r"thing has no parameter 'zzz'\.$"):
        check_keywords(["zzz"], ["game"], "thing")
    detector = PCADetector(1).fit(np.random.default_rng(0).normal(size=(20, 3)))
    with pytest.raises(TypeError, match="has no parameter 'gmae'; did you mean 'game'"):
        detector.explain(np.zeros((1, 3)), gmae="x")


def test_two_names_of_one_parameter():
    X = np.random.default_rng(0).normal(size=(40, 4))
    detector = PCADetector(2).fit(X)
    assert Explainer(detector, statistic="t2", random_state=3).seed == 3
    assert Explainer(detector, score="t2", statistic="t2").score.name == "t2"
    assert Explainer(detector).score.name == "spe"
    assert Explainer(detector).seed == 0
    same = [detector.explain(X[:3], **{name: "t2"}).values for name in ("score", "statistic")]
    np.testing.assert_array_equal(*same)
    assert detector.explainer(statistic="t2") is detector.explainer(score="t2")
    with pytest.raises(ValueError, match="score='spe' and statistic='t2' are two names for the same parameter"):
        Explainer(detector, "spe", statistic="t2")


def test_suggestions():
    assert suggestion("shaply", RANKINGS) == "; did you mean 'shapley'?"
    assert suggestion("zzz", RANKINGS) == ""


def test_the_page_is_up_to_date():
    written = Path(__file__).parents[2] / "docs" / "parameters.md"
    assert written.read_text() == page(), "run: python tests/parameters_page.py"
