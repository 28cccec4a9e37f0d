"""Data sets: rebuilt, read from every kind of file, refused when wrong, downloaded, simulated."""

import hashlib
import http.server
import os
import sys
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.io import savemat

from culpa import PCADetector
from culpa.datasets import (
    ODDS_NAMES,
    DataFileError,
    Fault,
    files,
    load_cars04,
    load_odds,
    load_wbc,
    load_wine_outliers,
    make_plant,
)
from culpa.datasets.plant import DEFAULT_FAULTS

needs_data = pytest.mark.skipif(
    "CULPA_DATA" not in os.environ, reason="the folder of data files is not named by CULPA_DATA"
)

# rows, features and anomalies as the sources state them
SHAPES = {
    "cardio": (1831, 21, 176),
    "cover": (286048, 10, 2747),
    "ionosphere": (351, 33, 126),
    "mammography": (11183, 6, 260),
    "musk": (3062, 166, 97),
    "satimage-2": (5803, 36, 71),
    "shuttle": (49097, 9, 3511),
    "vowels": (1456, 12, 50),
    "wbc": (378, 30, 21),
    "wine": (129, 13, 10),
}


@needs_data
@pytest.mark.parametrize("name", ODDS_NAMES)
def test_odds(name):
    X, y, names, _ = load_odds(name)
    assert (*X.shape, y.sum()) == SHAPES[name]
    assert X.dtype == np.float64
    assert len(names) == X.shape[1]
    assert set(np.unique(y)) == {0, 1}


@needs_data
def test_cars():
    cars = load_cars04()
    assert cars.X.shape == (428, 11)
    assert cars.row_names[0] == "Chevrolet Aveo 4dr"
    assert np.isnan(cars.X).sum() == 86
    assert (~np.isnan(cars.X).any(axis=1)).sum() == 387
    rotary = cars.X[:, cars.feature_names.index("ncyl")] == -1
    assert [cars.row_names[i][:10] for i in np.flatnonzero(rotary)] == ["Mazda RX-8"] * 2


@needs_data
def test_rebuilt_sets_are_the_published_ones():
    for rebuilt, name, tolerance in ((load_wine_outliers(), "wine", 0), (load_wbc(), "wbc", 1e-12)):
        published = load_odds(name)
        np.testing.assert_allclose(rebuilt.X, published.X, atol=tolerance, rtol=0)
        np.testing.assert_array_equal(rebuilt.y, published.y)
        assert len(rebuilt.feature_names) == rebuilt.X.shape[1]


@needs_data
def test_original_fixed_width_file(tmp_path):
    cars = load_cars04()

    def cell(value):
        return "*" if np.isnan(value) else f"{value:g}"

    lines = [
        f"{name:<45} 0 0 1 0 0 0 0  {' '.join(map(cell, row))}"
        for name, row in zip(cars.row_names, cars.X, strict=True)
    ]
    (tmp_path / "04cars.dat.txt").write_text("\n".join(lines) + "\n")
    again = load_cars04(tmp_path)
    np.testing.assert_array_equal(again.X, cars.X)
    assert again.row_names == cars.row_names
    (tmp_path / "04cars.dat.txt").write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(DataFileError, match=r"04cars\.dat\.txt is not the data set 'cars04': it has 427 x 11"):
        load_cars04(tmp_path)


def test_wrong_cars_are_refused(tmp_path):
    (tmp_path / "cars04.csv").write_text("name,msrp\nFord,1\n")
    with pytest.raises(
        DataFileError, match=r"cars04\.csv cannot be read as a \.csv file \(its columns are name, msrp\)"
    ):
        load_cars04(tmp_path)
    header = ",".join(("name", *files.CARS_FEATURES))
    (tmp_path / "cars04.csv").write_text(header + "\nFord,1,2,3,4,5,6,7,8,9,10,eleven\n")
    with pytest.raises(DataFileError, match=r"cars04\.csv cannot be read .*could not convert"):
        load_cars04(tmp_path)


@pytest.fixture
def wine():
    return load_wine_outliers()


@pytest.mark.parametrize("place", ["wine.mat", "wine.npz", "odds/wine.mat", "odds/wine.npz"])
def test_every_container_of_the_same_numbers(tmp_path, wine, place, monkeypatch):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".mat":  # labels are a column there
        savemat(path, {"X": wine.X, "y": wine.y[:, None].astype(np.uint8)})
    else:
        np.savez(path, X=wine.X, y=wine.y)
    given = load_odds("wine", tmp_path)
    monkeypatch.setenv("CULPA_DATA", str(tmp_path))
    from_environment = load_odds("wine")
    for loaded in (given, from_environment):
        np.testing.assert_array_equal(loaded.X, wine.X)
        np.testing.assert_array_equal(loaded.y, wine.y)


def damaged(wine, path, how):
    X, y = wine.X.copy(), wine.y.copy()
    if how == "one number":
        X[17, 3] += 1e-9
    elif how == "one label":
        y[20] = 1
    elif how == "a row short":
        X, y = X[:-1], y[:-1]
    elif how == "labels short":
        y = y[:-1]
    elif how == "objects":
        X = X.astype(object)
    np.savez(path, X=X, y=y)
    content = path.read_bytes()
    if how == "cut short":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "a web page":
        path.write_bytes(b"<html>404: Not Found</html>")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("one number", "numbers or labels differ"),
        ("one label", "numbers or labels differ"),
        ("a row short", "128 x 13 numbers .* instead of 129 x 13"),
        ("labels short", "128 labels for 129 rows"),
        ("objects", "cannot be read"),
        ("cut short", "cannot be read as a .npz file .* cut short"),
        ("empty", "is empty"),
        ("a web page", "cannot be read"),
    ],
)
def test_wrong_files_are_refused_by_name(tmp_path, wine, how, says):
    damaged(wine, tmp_path / "wine.npz", how)
    with pytest.raises(DataFileError, match=says) as caught:
        load_odds("wine", tmp_path)
    assert str(tmp_path / "wine.npz") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_names(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'vowels'"):
        load_odds("vowel", tmp_path)
    with pytest.raises(DataFileError, match="nowhere' does not exist"):
        load_odds("wine", tmp_path / "nowhere")


class Server:
    """A web server on this machine in the place of the real one."""

    def __init__(self, folder):
        handler = partial(http.server.SimpleHTTPRequestHandler, directory=folder)
        handler.func.log_message = lambda *_: None
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,))
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"

    def stop(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def site(tmp_path, monkeypatch, wine):
    """The address of a server that has the wine file, an empty cache, no data folder."""
    source = files.ODDS["wine"]
    path = tmp_path / "site" / source.repository / source.commit / source.path
    path.parent.mkdir(parents=True)
    savemat(path, {"X": wine.X, "y": wine.y})
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(files.ODDS, "wine", replace(source, sha256=sha256))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("CULPA_DATA", raising=False)
    server = Server(tmp_path / "site")
    monkeypatch.setattr(files, "BASE_URL", server.address)
    yield server, path
    server.stop()


def test_download_then_cache(site, wine, tmp_path):
    _, path = site
    np.testing.assert_array_equal(load_odds("wine").X, wine.X)
    path.unlink()
    np.testing.assert_array_equal(load_odds("wine", tmp_path).X, wine.X)  # not in the folder, but downloaded before
    (cached,) = (tmp_path / "cache").rglob("wine.mat")
    cached.write_bytes(b"damaged")
    with pytest.raises(DataFileError, match=r"wine\.npz is not in .*cannot download wine\.mat"):
        load_odds("wine", tmp_path)


def test_download_with_wrong_checksum(site, tmp_path):
    _, path = site
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        DataFileError, match=r"does not have the expected sha256 .* deleted.*put odds/wine.npz or odds/wine.mat"
    ):
        load_odds("wine")
    assert not list((tmp_path / "cache").rglob("wine.mat"))


def test_download_not_found(site):
    server, path = site
    path.unlink()
    with pytest.raises(DataFileError, match=rf"cannot download wine\.mat from {server.address}/Minqi824/.*404"):
        load_odds("wine")


def test_download_refused(site, monkeypatch):
    monkeypatch.setattr(files, "BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(DataFileError, match=r"without a network, put odds/wine.npz .* --data or CULPA_DATA") as caught:
        load_odds("wine")
    assert "\n" not in str(caught.value)


def test_download_without_pooch(site, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataFileError, match=r"needs pooch: pip install 'culpa\[reproduce\]'"):
        load_odds("wine")


def test_addresses_are_complete():
    for source in (files.CARS04, *files.ODDS.values()):
        url = source.url(files.BASE_URL)
        assert url.startswith(f"https://raw.githubusercontent.com/{source.repository}/{source.commit}/")
        assert len(source.sha256) == len(source.numbers) == 64
        assert len(source.commit) == 40


def test_plant_is_seeded_and_correlated():
    plant, same, other = make_plant(seed=1), make_plant(seed=1), make_plant(seed=2)
    np.testing.assert_array_equal(plant.new, same.new)
    assert not np.array_equal(plant.normal, other.normal)
    spectrum = np.linalg.eigvalsh(np.corrcoef(plant.normal.T))[::-1]
    assert spectrum[:3].sum() / spectrum.sum() > 0.95  # three hidden states


def test_faults_touch_what_they_say():
    healthy, plant = make_plant(faults=()), make_plant()
    changed = plant.new != healthy.new
    assert not healthy.culprits.any()
    assert (changed <= plant.culprits).all()
    assert changed.sum() > 0.99 * plant.culprits.sum()
    assert {fault.kind for fault in DEFAULT_FAULTS} == {"bias", "drift", "stuck", "spike", "lost correlation"}
    assert plant.culprits[320].sum() == 3  # several at once


def test_kinds_of_faults():
    at, spread = 2, make_plant(20000, faults=()).normal[:, 2].std()

    def shift(kind, size=4.0):
        fault = Fault(kind, "flow_reflux", 100, 300, size)
        return make_plant(faults=[fault]).new[100:300, at], make_plant(faults=()).new[99:300, at]

    seen, true = shift("bias")
    np.testing.assert_allclose((seen - true[1:]) / spread, 4.0, rtol=0.05)
    seen, true = shift("spike", -3.0)
    np.testing.assert_allclose((seen - true[1:]) / spread, -3.0, rtol=0.05)
    seen, true = shift("drift")
    assert (np.diff(seen - true[1:]) > 0).all()
    assert (seen - true[1:])[-1] == pytest.approx(4.0 * spread, rel=0.05)
    seen, true = shift("stuck")
    assert (seen == true[0]).all()
    seen, true = shift("lost correlation")
    assert abs(np.corrcoef(seen, true[1:])[0, 1]) < 0.25
    assert seen.std() == pytest.approx(spread, rel=0.2)


def test_impossible_faults():
    with pytest.raises(ValueError, match="did you mean 'drift'"):
        make_plant(faults=[Fault("drfit", "flow_feed", 0, 5)])
    with pytest.raises(ValueError, match="did you mean 'flow_feed'"):
        make_plant(faults=[Fault("bias", "flow_fed", 0, 5)])
    with pytest.raises(ValueError, match="choose 0 <= start < stop <= 400"):
        make_plant(faults=[Fault("bias", "flow_feed", 390, 401)])


def test_culprits_of_the_plant_are_found():
    plant = make_plant()
    detector = PCADetector(3).fit(plant.normal)
    blamed = detector.explain(plant.new).values.argmax(axis=1)
    right = plant.culprits[np.arange(len(blamed)), blamed]
    flagged = detector.predict(plant.new) == -1
    assert right[flagged & plant.culprits.any(axis=1)].mean() > 0.95
    assert flagged[~plant.culprits.any(axis=1)].mean() < 0.03
