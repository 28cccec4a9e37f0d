"""Model files: what comes back is what went in, and nothing else is let in."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from forgery import forge, set_parameter
from safetensors.numpy import save as to_bytes

import culpa
from culpa import PCADetector
from culpa.io.model_container import FORMAT, read, unpack
from culpa.io.model_file import ModelFileError, kept_detector
from culpa.shapley import QuadraticForms


def rows(n=60, d=5, seed=0, missing=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d)) + 5
    if missing:
        X[rng.random(X.shape) < 0.05] = np.nan
    return X


@pytest.fixture
def model(tmp_path):
    detector = PCADetector().fit(pd.DataFrame(rows(), columns=list("abcde")))
    detector.units_ = {"a": "°C"}
    detector.explainer().compile()
    path = tmp_path / "plant.culpa"
    detector.save(path)
    return path


def same(actual, expected):
    # arrays that went through a file may lie otherwise in memory, which moves the last digit of a product
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def test_forms_on_axes(tmp_path):
    """Columns that all but copy each other, which forms keep their digits of in other coordinates."""
    X = rows(d=3)
    X = np.column_stack([X, X[:, 0] + X[:, 1], X[:, 2]]) + 1e-4 * np.random.default_rng(2).normal(size=(len(X), 5))
    detector = PCADetector(3).fit(X)
    forms = detector.explainer().compile().forms
    assert forms.coordinates is not None
    detector.save(tmp_path / "m")
    again = culpa.load(tmp_path / "m")
    np.testing.assert_array_equal(again.explainer().forms.coordinates, forms.coordinates)
    new = X[:20] + 0.1 * (np.arange(5) == 3)
    same(again.explain(new).values, detector.explain(new).values)
    same(again.explain(new).values, PCADetector(3).fit(X).explain(new).values)
    arrays = forms.to_arrays()
    with pytest.raises(ValueError, match=r"coordinates .* do not fit 5 features"):
        QuadraticForms.from_arrays(arrays | {"coordinates": arrays["coordinates"][:4]})


@pytest.mark.parametrize("statistic", ["spe", "mse", "t2", "mahalanobis", "combined"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale": False},
        {"limit": "empirical"},
        {"n_components": 2, "noise": 3.0},
        {"n_components": 4, "shrinkage": 0.02, "ranking": "fault-odds"},
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_a_loaded_detector_behaves_like_the_saved_one(tmp_path, statistic, options, compiled, missing):
    detector = PCADetector(statistic=statistic, **options).fit(rows(missing=missing))
    if compiled:
        detector.explainer().compile()
    detector.save(tmp_path / "m")
    again = culpa.load(tmp_path / "m")
    new = rows(20, seed=1, missing=True)
    assert again.get_params() == detector.get_params()
    assert (again.explainer().forms is not None) == compiled
    for method in ("predict", "score_samples", "decision_function", "reconstruct", "residuals"):
        same(getattr(again, method)(new), getattr(detector, method)(new))
    pd.testing.assert_frame_equal(again.statistics(new), detector.statistics(new))
    for field in ("values", "std_error", "score", "expected", "score_if_fixed"):
        same(getattr(again.explain(new), field), getattr(detector.explain(new), field))
    pd.testing.assert_frame_equal(again.explain(new).top(2), detector.explain(new).top(2))
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "covariance_", "mean_"):
        same(getattr(again.model_, name), getattr(detector.model_, name))
    same(
        again.explain(new, score="spe", game="retraining").values,
        detector.explain(new, score="spe", game="retraining").values,
    )


def test_the_compiled_minimal_game(tmp_path):
    """Its base value differs from row to row, which the check at loading must know."""
    detector = PCADetector(2, game="minimal").fit(rows())
    detector.explainer().compile()
    detector.save(tmp_path / "m")
    again, new = culpa.load(tmp_path / "m"), rows(20, seed=1)
    assert again.explainer().forms is not None
    same(again.explain(new).values, detector.explain(new).values)


def test_names_and_units_are_kept_as_text(tmp_path):
    names = ["a,b", "=1+1", "Temperatur °C", "\n", "__class__"]
    detector = PCADetector().fit(pd.DataFrame(rows(), columns=names))
    detector.save(str(tmp_path / "m"))
    again = culpa.load(str(tmp_path / "m"))
    assert list(again.feature_names_in_) == names
    with pytest.raises(ValueError, match="feature names"):
        again.predict(pd.DataFrame(rows(), columns=list("abcde")))


def test_saving_is_repeatable_and_replaces_whole(tmp_path, model):
    before = unpack(read(model))
    culpa.load(model).save(model)
    after = unpack(read(model))
    assert after[1] == before[1]
    assert after[0].keys() == before[0].keys()
    assert all((after[0][name] == before[0][name]).all() for name in before[0])
    assert [path.name for path in tmp_path.iterdir()] == ["plant.culpa"]


def test_an_unfitted_detector_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        PCADetector().save(tmp_path / "m")


def test_every_truncation_is_refused(model, tmp_path):
    content = model.read_bytes()
    for length in range(0, len(content), 7):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            culpa.load(tmp_path / "cut")


def test_every_flipped_bit_is_refused(model, tmp_path):
    content = model.read_bytes()
    rng = np.random.default_rng(0)
    damaged = tmp_path / "damaged"
    for position in range(len(content)):
        bits = bytearray(content)
        bits[position] ^= 1 << rng.integers(8)
        damaged.write_bytes(bits)
        with pytest.raises(ModelFileError):
            culpa.load(damaged)


def set_header(**fields):
    return lambda arrays, header: header.update(fields)


def set_array(name, array):
    return lambda arrays, header: arrays.update({name: array})


def scale_array(name, factor):
    return lambda arrays, header: arrays.update({name: factor * arrays[name]})


def add_to_one(name, change):
    def add(arrays, header):
        arrays[name] = arrays[name].copy()
        arrays[name][0, 1, -2] += change

    return add


def set_abnormal(position):
    def change(arrays, header):
        header.update(abnormal=["row"])
        arrays.update(abnormal=np.array([[position, 1.0, 1.0, 1.0, 0.0]]))

    return change


SIGNS = np.array([1.0, 1.0, 1.0, 1.0, -1.0])  # of axes that stay orthonormal and point elsewhere


def set_limits(kind, rows, **scores):
    """Other limits than the file's own: header and arrays, "spe" and "spe_block"."""

    def change(arrays, header):
        header.update(limits={"kind": kind, "source": "", "rows": rows})
        for name in [name for name in arrays if name.startswith("limits.")]:
            del arrays[name]
        arrays.update({f"limits.{name.replace('_', '.')}": array for name, array in scores.items()})

    return change


def count_rows(*names):
    """More rows behind the limits of statistics than scores that were kept could stand for."""

    def change(arrays, header):
        blocks = np.repeat([0.0, 1.0], 20)
        scores = {name: np.arange(40.0) for name in ("spe", "t2", "mahalanobis")}
        rows = {name: [20, 1_000_000 if name in names else 20] for name in scores}
        header["parameters"].update(limit="auto")
        header.update(statistic="mahalanobis")
        set_limits("held-out", rows, **scores, **{f"{name}_block": blocks for name in scores})(arrays, header)

    return change


_BLOCKS = np.repeat([0.0, 1.0], 5)

HOSTILE = {
    "older format": (set_header(format=1), "has format 1"),
    "newer format": (set_header(format=3), "has format 3"),
    "no format": (lambda arrays, header: header.pop("format"), "no format version"),
    "format true": (set_header(format=True), "no format version"),
    "names too few": (set_header(features=["a"]), "'features'"),
    "names twice": (set_header(features=list("aabcd")), "'features'"),
    "names not text": (set_header(features=[1, 2, 3, 4, 5]), "'features'"),
    "units of others": (set_header(units={"z": "m"}), "'units'"),
    "limit text": (set_header(limit="1"), "'limit'"),
    "limit negative": (set_header(limit=-1.0), "'limit'"),
    "limit huge": (set_header(limit=10**400), "'limit'"),
    "limit that NumPy cannot hold": (set_header(limit=10**30), "'limit'"),
    "too many degrees of freedom": (
        lambda arrays, header: (
            set_parameter(model="student")(arrays, header) or header.update(degrees_of_freedom=1e308)
        ),
        "'degrees_of_freedom'",
    ),
    "limits of another kind": (set_header(limits={"kind": "exact", "source": "", "rows": {}}), "'limits'"),
    "limits of a list": (set_header(limits={"kind": ["empirical"], "source": "", "rows": {}}), "'limits'"),
    "limits of files that are older": (set_header(limits={"kind": "auto", "source": "", "rows": {}}), "'limits'"),
    "limits of no score": (set_header(limits={"kind": "empirical", "source": "", "rows": {"../x": [5]}}), "'limits'"),
    "limits without scores": (set_limits("empirical", {"spe": [5]}), "'limits.spe' is missing"),
    "scores without limits": (set_limits("empirical", {}, spe=np.ones(3)), "'limits.spe' is missing or unknown"),
    "a number for blocks": (set_limits("empirical", {"spe": 5}, spe=np.arange(5.0)), "'limits'"),
    "more scores than rows": (
        set_limits("empirical", {"spe": [2]}, spe=np.arange(3.0), spe_block=np.zeros(3)),
        "sorted scores, at most 2",
    ),
    "no scores": (
        set_limits("empirical", {"spe": [9]}, spe=np.empty(0), spe_block=np.empty(0)),
        "'limits.spe.block' has no scores",
    ),
    "scores not sorted": (
        set_limits("empirical", {"spe": [9]}, spe=np.arange(3.0)[::-1].copy(), spe_block=np.zeros(3)),
        "sorted scores, at most 9",
    ),
    "more held-out scores than rows": (
        set_limits("held-out", {"spe": [4, 5]}, spe=np.arange(10.0), spe_block=_BLOCKS),
        "sorted scores, at most 9",
    ),
    "held-out scores without blocks": (
        set_limits("held-out", {"spe": [5, 5]}, spe=np.arange(10.0)),
        "'limits.spe.block' is missing",
    ),
    "blocks too few": (
        set_limits("held-out", {"spe": [5, 5]}, spe=np.arange(10.0), spe_block=_BLOCKS[:9]),
        "'limits.spe.block' has shape (9,) instead of (10)",
    ),
    "a block that is not there": (
        set_limits("held-out", {"spe": [5, 5]}, spe=np.arange(10.0), spe_block=_BLOCKS + 1),
        "'limits.spe.block' contains a number that is too large",
    ),
    "a negative block": (
        set_limits("held-out", {"spe": [5, 5]}, spe=np.arange(10.0), spe_block=_BLOCKS - 1),
        "'limits.spe.block' contains a number that is negative",
    ),
    "blocks that are not whole": (
        set_limits("held-out", {"spe": [5, 5]}, spe=np.arange(10.0), spe_block=_BLOCKS + 0.5 * (_BLOCKS == 0)),
        "'limits.spe.block' contains a number that is not whole",
    ),
    "blocks of nothing": (
        set_limits("held-out", {"spe": [0, 0]}, spe=np.arange(5.0), spe_block=_BLOCKS[:5]),
        "'limits'",
    ),
    "more scores than rows in a block": (
        set_limits("held-out", {"spe": [10, 0]}, spe=np.arange(10.0), spe_block=_BLOCKS),
        "or more in a block than the block has rows",
    ),
    "weights of other blocks": (
        set_limits(
            "held-out", {"spe": [5, 5]}, spe=np.arange(10.0), spe_block=_BLOCKS, spe_weight=np.array([1.0, 2.0])
        ),
        "'limits.spe.weight' contains a number that is too large",
    ),
    "more rows than scores can stand for": (count_rows("mahalanobis"), "scores in array 'limits.mahalanobis'"),
    "more rows of SPE than scores can stand for": (count_rows("spe"), "scores in array 'limits.spe' can stand for"),
    "more rows of all than scores can stand for": (count_rows("spe", "t2", "mahalanobis"), "counts more rows than"),
    "blocks of too many rows": (scale_array("blocks.n", 1e60), "'blocks.n' counts more rows than are possible"),
    "no blocks": (set_limits("held-out", {"spe": []}), "'limits'"),
    "held-out scores in one number": (set_limits("held-out", {"spe": 10}, spe=np.arange(10.0)), "'limits'"),
    "scores of no block": (
        set_limits("empirical", {"spe": [5, 5]}, spe=np.arange(10.0)),
        "'limits.spe.block' is missing",
    ),
    "own statistic": (set_header(statistic="os.system"), "'statistic'"),
    "own statistic list": (set_header(statistic=["spe"]), "'statistic'"),
    "own statistic auto": (set_header(statistic="auto"), "'statistic'"),
    "curve too short": (set_array("components", np.empty(0)), "'components'"),
    "curve of a table": (set_array("components", np.ones((3, 3))), "'components'"),
    "abnormal rows of another number": (set_header(abnormal=["a"] * 50), "'abnormal'"),
    "abnormal rows that are no labels": (set_header(abnormal=[{}]), "'abnormal'"),
    "trim too large": (set_parameter(trim=0.7), "'parameters'"),
    "holdout negative": (set_parameter(holdout=-1), "'parameters'"),
    "noise zero": (set_header(noise_variance=0), "'noise_variance'"),
    "training": (set_header(training={"rows": -1, "iterations": 1, "converged": True}), "'training'"),
    "training missing": (lambda arrays, header: header.pop("training"), "'training'"),
    "unknown parameter": (set_parameter(code="print()"), "'parameters'"),
    "statistic": (set_parameter(statistic="os.system"), "'parameters'"),
    "statistic list": (set_parameter(statistic=["spe"]), "'parameters'"),
    "confidence": (set_parameter(confidence=2), "'parameters'"),
    "components": (set_parameter(n_components=None), "'parameters'"),
    "noise": (set_parameter(noise=-1.0), "'parameters'"),
    "shrinkage": (set_parameter(shrinkage=2), "'parameters'"),
    "game": (set_parameter(game="chess"), "'parameters'"),
    "ranking": (set_parameter(ranking="eval"), "'parameters'"),
    "noun": (set_parameter(noun=""), "'parameters' is missing or not valid: noun must be text of 1 to 30 characters"),
    "noun that goes on": (set_parameter(noun="sensor\n" * 10_000), "got 'sensor"),
    "groups of something": (
        set_parameter(groups=["a", "b"]),
        "groups must be a dict of group name to list of features",
    ),
    "groups of nothing": (set_parameter(groups={"feed": [None]}), "groups must be a dict"),
    "groups of other columns": (set_parameter(groups={"feed": ["z"]}), "unknown feature in group 'feed': 'z'"),
    "groups that overlap": (set_parameter(groups={"u": ["a"], "v": ["a", "b"]}), "'a' is in the groups 'u' and 'v'"),
    "groups that forms do not know": (set_parameter(groups={"feed": ["a", "b"]}), "the forms have 5 players"),
    "lags that do not fit": (set_parameter(lags=3), "3 lags do not fit 5 features"),
    "lags too large": (set_parameter(lags=10**30), "lags must be a whole number"),
    "parameter gone": (lambda arrays, header: header["parameters"].pop("trim"), "'trim' is missing or unknown"),
    "nan": (set_array("mean", np.array([np.nan] * 5)), "'mean' contains a number that is not finite"),
    "infinite": (set_array("model.covariance", np.full((5, 5), np.inf)), "not finite"),
    "scale zero": (set_array("scale", np.zeros(5)), "'scale' contains a number that is too small"),
    "scale shape": (set_array("scale", np.ones(4)), "shape"),
    "dtype": (set_array("mean", np.ones(5, dtype=np.float32)), "F64"),
    "extra": (set_array("extra", np.ones(3)), "'extra'"),
    "gone": (lambda arrays, header: arrays.pop("model.axes"), "'model.axes'"),
    "no loadings": (lambda arrays, header: arrays.pop("model.loadings"), "'model.loadings'"),
    "too many components": (set_array("model.loadings", np.ones((5, 5))), "'model.loadings'"),
    "half of the forms": (lambda arrays, header: arrays.pop("forms.sizes"), "forms"),
    "forms of another model": (set_array("forms.sizes", np.array([4, 16])), "do not fit"),
    "huge": (set_array("mean", np.array([1e200, 0, 0, 0, 0])), "'mean' contains a number that is too large"),
    "scale tiny": (set_array("scale", np.full(5, 1e-200)), "'scale' contains a number that is too small"),
    "noise tiny": (set_header(noise_variance=1e-200), "'noise_variance' is too small"),
    "axes not orthonormal": (scale_array("model.axes", 1.01), "'model.axes' is not orthonormal"),
    "axes elsewhere": (scale_array("model.axes", SIGNS), "'model.loadings' does not fit array 'model.axes'"),
    "no loadings at all": (scale_array("model.loadings", 0.0), "'model.loadings' does not fit"),
    "negative variance": (scale_array("model.covariance", -1.0), "'model.covariance' is not a covariance matrix"),
    "correlations beyond one": (
        set_array("model.covariance", 3.0 - 2 * np.eye(5)),
        "'model.covariance' is not a covariance matrix",
    ),
    "not symmetric": (set_array("model.covariance", np.eye(5) + 0.5 * np.eye(5, k=1)), "not a covariance matrix"),
    "abnormal row between rows": (set_abnormal(0.5), "'abnormal' contains a position that is not a whole number"),
    "forms that do not add up": (scale_array("forms.coefficients", 1.01), "does not add up to the score"),
    "one coefficient that does not add up": (add_to_one("forms.coefficients", 0.01), "does not add up to the score"),
    "constants that do not add up": (scale_array("forms.constants", 0.0), "does not add up to the score"),
    "features that are lists": (set_header(features=[[1], [2], [3], [4], [5]]), "'features'"),
    "features that are a number": (set_header(features=5), "'features'"),
    "reading that is a number": (set_header(reading=0), "'reading'"),
    "reading that is a list": (set_header(reading=[]), "'reading'"),
    "forms sizes": (set_array("forms.sizes", np.array([5, -1])), "'forms.sizes' contains a number that is negative"),
}


@pytest.mark.parametrize(("change", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_in_one_sentence(model, change, message):
    with pytest.raises(ModelFileError, match=re.escape(message)) as error:
        culpa.load(forge(model, change))
    assert str(error.value).startswith(str(model))
    assert "\n" not in str(error.value)


def test_the_noun_is_kept(tmp_path):
    PCADetector(noun="sensor").fit(rows()).save(tmp_path / "m")
    assert culpa.load(tmp_path / "m").noun == "sensor"


def test_groups_are_kept_with_their_compiled_explainer(tmp_path):
    new = pd.DataFrame(rows(seed=1), columns=list("abcde"))
    detector = PCADetector(groups={"feed": ("a", 3), "drive": "e"}).fit(pd.DataFrame(rows(), columns=list("abcde")))
    detector.explainer().compile()
    detector.save(tmp_path / "m")
    again = culpa.load(tmp_path / "m")
    assert again.groups == {"feed": ["a", 3], "drive": ["e"]}
    assert again.explainer().forms is not None
    why = again.explain(new)
    assert why.player_names == ("feed", "b", "c", "drive")
    same(why.values, detector.explain(new).values)
    same(again.explain(new, groups=None).values, detector.explain(new, groups=None).values)


def test_groups_of_other_columns_are_refused_before_anybody_asks_for_an_explanation(tmp_path):
    PCADetector().fit(rows()).save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="contradict each other: unknown feature in group 'feed': 'z'"):
        culpa.load(forge(tmp_path / "m", set_parameter(groups={"feed": ["z"]})))


@pytest.mark.parametrize("text", ["", "null", "[]", '"x"', "{", "[" * 100_000, '{"format": 1}', "{}"])
def test_hostile_headers(model, text):
    with pytest.raises(ModelFileError):
        culpa.load(forge(model, text=text))


def test_pipes_devices_and_folders_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ModelFileError, match="a folder, a pipe or a device, not a model file"):
            culpa.load(path)


def test_files_that_are_too_large_are_not_read(tmp_path):
    path = tmp_path / "m"
    path.touch()
    os.truncate(path, 1 << 40)  # takes no space on the disk
    with pytest.raises(ModelFileError, match="more than any model file"):
        culpa.load(path)
    os.truncate(path, 7)
    with pytest.raises(ModelFileError, match="not a culpa model file"):
        culpa.load(path)


@pytest.mark.parametrize(
    ("format", "advice"),
    [
        (FORMAT + 1, r"Use the version of culpa that wrote it, or a newer one\."),
        (FORMAT - 1, r"Fit the model again, or use the version of culpa that wrote it\."),
    ],
)
def test_another_format_names_the_version_that_wrote_it(model, format, advice):
    message = rf"the file has format {format} \(culpa 9.1\), but culpa .* reads format {FORMAT}\. {advice}"
    with pytest.raises(ModelFileError, match=message):
        culpa.load(forge(model, set_header(format=format, culpa="9.1")))


def test_files_of_other_programs(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(to_bytes({"a": np.ones(3)}))
    with pytest.raises(ModelFileError, match="another program"):
        culpa.load(path)
    path.write_bytes(b"a,b\n1,2\n" * 100)
    with pytest.raises(ModelFileError, match="not a culpa model file"):
        culpa.load(path)
    with pytest.raises(FileNotFoundError):
        culpa.load(tmp_path / "absent")


def test_a_failed_save_leaves_the_old_file(model, monkeypatch):
    before = model.read_bytes()

    def full(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        culpa.load(model).save(model)
    assert model.read_bytes() == before
    assert list(Path(model.parent).iterdir()) == [model]


def test_labels_that_are_neither_texts_nor_numbers(tmp_path):
    X = rows(200)
    X[:4] += 50 * np.eye(4, 5)
    detector = PCADetector(2).fit(pd.DataFrame(X, columns=list("abcde"), index=np.arange(200) % 2 == 0))
    detector.save(tmp_path / "m")
    assert set(culpa.load(tmp_path / "m").abnormal_training_rows_["row"]) == {"True", "False"}


@pytest.mark.parametrize("change", [{"statistic": "t2"}, {"confidence": 0.5}, {"noise": 9.0}, {"shrinkage": 0.5}])
def test_parameters_changed_after_fitting_wait_for_the_next_fit(tmp_path, change):
    detector = PCADetector(2, statistic="combined").fit(rows())
    new = rows(20, seed=1)
    before, limits = detector.decision_function(new), detector.control_limits()
    detector.set_params(**change).save(tmp_path / "m")
    again = culpa.load(tmp_path / "m")
    same(again.decision_function(new), before)
    same(detector.explain(new).score, -detector.score_samples(new))
    for one in (detector, again):
        pd.testing.assert_frame_equal(one.control_limits(), limits)
    calibrated = detector.calibrate_limit(rows(200, seed=2))  # a new limit is for what is asked for now
    calibrated.save(tmp_path / "m")
    assert calibrated.explain(new).score_name == calibrated.statistic
    same(culpa.load(tmp_path / "m").decision_function(new), calibrated.decision_function(new))


@pytest.mark.parametrize("given", [["a"], ["c"], ["e"], ["b", "d"]])
def test_suspicious_cells_of_given_columns_are_saved(tmp_path, given):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2)) @ random.normal(size=(2, 5)) + 0.2 * random.normal(size=(200, 5))
    X[[3, 7, 9], [0, 4, 2]] += 9
    detector = PCADetector(robust="cells", given=given).fit(pd.DataFrame(X, columns=list("abcde")))
    assert {"a", "c", "e"} <= set(detector.suspicious_cells_["feature"])
    detector.save(tmp_path / "m.culpa")
    pd.testing.assert_frame_equal(
        pd.DataFrame(culpa.load(tmp_path / "m.culpa").suspicious_cells_),
        pd.DataFrame(detector.suspicious_cells_),
        check_dtype=False,
    )


def test_engines_may_send_the_function_that_keeps_detectors():
    assert pickle.loads(pickle.dumps(kept_detector)) is kept_detector
