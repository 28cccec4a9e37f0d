"""The same rows, however they come: as CSV, NDJSON, Parquet, several files or a pipe."""

import io
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from command_line import run

import culpa
from culpa import PCADetector
from culpa.io.reading import Options
from culpa.jobs.answers import score
from culpa.jobs.batches import Listener
from culpa.jobs.incident_stream import incidents
from culpa.report import report_on

NAMES = list("abcd")


class Sink:
    def __init__(self):
        self.lines = []

    def write(self, columns):
        table = pd.DataFrame({name: list(cells) for name, cells in columns.items()})
        self.lines += table.to_dict("records")


class Trickle(io.BytesIO):
    """Standard input that arrives in pieces of random sizes."""

    def __init__(self, content, rng):
        super().__init__(content)
        self.rng = rng

    def read1(self, size=-1):
        return super().read1(int(self.rng.integers(1, 400)))


def plant(n, seed):
    rng = np.random.default_rng(seed)
    state = np.zeros((n, 2))
    for t in range(1, n):
        state[t] = 0.9 * state[t - 1] + rng.normal(size=2)
    X = state @ np.random.default_rng(99).normal(size=(2, 4)) + 0.1 * rng.normal(size=(n, 4))
    return pd.DataFrame(X, columns=NAMES)


def faulty(seed):
    """Rows of one a minute, with faults, a stop of the plant and a hole in the times."""
    rng = np.random.default_rng(seed)
    table = plant(240, seed + 1)
    at = np.arange(240) + 30 * (np.arange(240) >= rng.integers(150, 200))
    for start in rng.integers(10, 220, size=6):
        table.loc[start : start + int(rng.integers(0, 4)), rng.choice(NAMES)] += 8.0
    table.insert(0, "time", pd.Timestamp("2024-03-05") + pd.to_timedelta(at, "min"))
    return table


def ndjson(table, rng):
    """One line per row, blank lines, and lines in place of those rows that a CSV table has as ragged ones."""
    lines = []
    for row in table.to_dict("records"):
        lines += [b""] * int(rng.integers(0, 2))
        lines.append(json.dumps({**row, "time": str(row["time"])}).encode())
    return b"\n".join(lines) + b"\n"


def opened(path, said, rng=None, monkeypatch=None, **options):
    from culpa.io.tables.formats import open_table

    if isinstance(path, bytes):
        monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": Trickle(path, rng), "closed": False}))
        path = "-"
    return open_table([path] if isinstance(path, str) else path, Options(time="time", **options), said.append)


@pytest.fixture
def ways(tmp_path, monkeypatch):
    """All ways in which the rows of a table can come, some of which lose the rows ``lost``."""

    def write(table, seed):
        rng = np.random.default_rng(seed)
        texts = table.assign(time=table["time"].astype(str))
        texts.to_csv(tmp_path / "t.csv", index=False)
        table.to_parquet(tmp_path / "t.parquet")
        lines = ndjson(table, rng)
        (tmp_path / "t.ndjson").write_bytes(lines)
        parts = []
        for first, end in pairwise([0, 70, 71, 190, len(texts)]):
            parts.append(str(tmp_path / f"part{first}.csv"))
            texts[first:end].to_csv(parts[-1], index=False)
        paths = {name: str(tmp_path / f"t.{name}") for name in ("csv", "parquet", "ndjson")}
        pipes = {"csv pipe": (tmp_path / "t.csv").read_bytes(), "ndjson pipe": lines}
        return {**paths, "several": parts, **pipes}

    return write


@pytest.mark.parametrize("options", [{}, {"lags": 2}, {"smooth": 0.3}], ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_rows_give_the_same_answers(ways, monkeypatch, options, seed):
    detector = PCADetector(2, **options).fit(plant(400, 0))
    table, said = faulty(seed), []
    rng = np.random.default_rng(seed)
    for chosen in ({}, {"exclude": ("2024-03-05T01:00/2024-03-05T01:20",)}):
        answers = {}
        for name, way in ways(table, seed).items():
            found, scores = Sink(), Sink()
            source = opened(way, said, rng, monkeypatch, **chosen)
            incidents(detector.fitted, source, found, time="time", gap=2, baseline=20)
            score(detector.fitted, opened(way, said, rng, monkeypatch, **chosen), scores)
            answers[name] = (
                [
                    (one["first"], one["last"], str(one["start"]), one["sentence"], one["n_flagged"])
                    for one in found.lines
                ],
                [one["row"] for one in scores.lines],
                [one["score"] for one in scores.lines],
            )
        stories, rows, values = answers["csv"]
        assert len(stories) > 2
        for other_stories, other_rows, other_values in answers.values():
            assert other_stories == stories
            assert other_rows == rows
            np.testing.assert_allclose(other_values, values, rtol=1e-9)
        told = report_on(
            detector.fitted, opened(ways(table, seed)["csv"], said, **chosen), time="time", gap=2, baseline=20
        )
        assert [(one["first"], one["last"], one["n_flagged"]) for one in told.to_dict()["incidents"]] == [
            (first, last, n) for first, last, _, _, n in stories
        ]
    assert not said


def test_the_library_agrees_with_files(ways, monkeypatch):
    table = faulty(3)
    detector = PCADetector(2, lags=2).fit(plant(400, 0))
    found = Sink()
    incidents(detector.fitted, opened(ways(table, 0)["csv"], []), found, time="time", gap=2)
    known = detector.incidents(table, time="time", gap=2)
    assert [(one["first"], one["last"], one["score"]) for one in found.lines] == [
        (one.first, one.last, pytest.approx(one.score)) for one in known
    ]


def with_hole(X, at, span="1D"):
    """A table of one row a minute, of which a long time passes before the row ``at``."""
    times = pd.Timestamp("2024-03-05") + pd.to_timedelta(np.arange(len(X)), "min")
    return X.assign(time=times.where(np.arange(len(X)) < at, times + pd.Timedelta(span)))[["time", *X.columns]]


class Rows:
    """Batches of given sizes as a table."""

    name, live, again, time = "rows", False, True, "time"

    def __init__(self, table, cuts=()):
        self.table, self.cuts = table, cuts

    def batches(self, features, carried):
        import pyarrow as pa

        from culpa.io.tables import Batch

        for rows in np.split(np.arange(len(self.table)), self.cuts):
            some = self.table.iloc[rows]
            yield Batch(rows, some[list(features)].to_numpy(), {name: pa.array(some[name]) for name in carried})


def scores_of(detector, source):
    sink = Sink()
    score(detector.fitted, source, sink)
    return np.array([line["score"] for line in sink.lines])


@pytest.mark.parametrize("options", [{"lags": 1}, {"lags": 2}, {"smooth": 0.3}], ids=str)
def test_no_past_beyond_a_hole(options):
    detector = PCADetector(2, **options).fit(plant(400, 0))
    new = plant(100, 1)
    new[50:] += 50.0 * (new[50:].mean() - new[:50].mean())  # another state of the plant
    after = scores_of(detector, Rows(new[50:].assign(time=pd.date_range("2024-03-06", periods=50, freq="min"))))
    for cuts in ([], [50], [7, 49, 51]):
        table = with_hole(new, 50)
        np.testing.assert_allclose(scores_of(detector, Rows(table, cuts))[50:], after)
    np.testing.assert_allclose(-detector.score_samples(new[:50]), scores_of(detector, Rows(table))[:50])
    with pytest.warns(UserWarning, match="row labels have gaps"):
        np.testing.assert_allclose(-detector.score_samples(table.set_index("time"))[50:], after)


def test_the_next_file_has_no_past_unless_times_go_on(tmp_path):
    detector = PCADetector(2, lags=1).fit(plant(400, 0))
    detector.save(tmp_path / "m.culpa")
    first, second = plant(30, 1), plant(30, 2)
    for k, table in enumerate((first, second)):
        table.to_csv(tmp_path / f"{k}.csv", index=False)
    run("score", tmp_path / "0.csv", tmp_path / "1.csv", "-m", tmp_path / "m.culpa", "-o", tmp_path / "s.csv")
    found = pd.read_csv(tmp_path / "s.csv")["score"].to_numpy()
    np.testing.assert_allclose(found[:30], -detector.score_samples(first))
    np.testing.assert_allclose(found[30:], -detector.score_samples(second))


@pytest.mark.parametrize("options", [{}, {"trim": 0.01}], ids=str)
def test_fit_and_update_learn_no_pairs_across_a_hole(tmp_path, options):
    """The detector is that of two stretches, each of which loses its first row."""
    normal = plant(600, 0)
    normal[300:] += 30.0
    table = with_hole(normal, 300)
    table.to_csv(tmp_path / "t.csv", index=False)
    extra = [word for name, value in options.items() for word in (f"--{name}", value)]
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.culpa", "--lags", 1, "--limit", "formula", *extra)
    with pytest.warns(UserWarning, match="row labels have gaps"):
        fitted = PCADetector(lags=1, limit="formula", **options).fit(table.set_index("time"))
    read = culpa.load(tmp_path / "m.culpa")
    assert fitted.model_.n_samples_ == read.model_.n_samples_ == (598 if not options else fitted.model_.n_samples_)
    np.testing.assert_allclose(fitted.model_.covariance_, read.model_.covariance_, rtol=1e-6)
    if options:
        return
    pairs = np.vstack([np.hstack([half[1:], half[:-1]]) for half in np.split(normal.to_numpy(), 2)])
    np.testing.assert_allclose(fitted.mean_, pairs.mean(axis=0))
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "n.culpa", "--lags", 1, "--to", "2024-03-05T03:20")
    run("update", tmp_path / "n.culpa", tmp_path / "t.csv", "-o", tmp_path / "u.culpa")
    before = culpa.load(tmp_path / "n.culpa").model_.n_samples_
    assert culpa.load(tmp_path / "u.culpa").model_.n_samples_ == before + 598


def test_machines_restart_at_holes():
    import pyarrow as pa

    from culpa.io.model_file import detector_from_bytes
    from culpa.jobs.machines import machine_fits

    table = with_hole(plant(300, 0), 150).assign(machine="m")
    batch = pa.RecordBatch.from_pandas(table)
    (line,) = pa.Table.from_batches(
        list(machine_fits([batch], ["machine"], tuple(NAMES), {"lags": 1}, "time"))
    ).to_pylist()
    assert detector_from_bytes(line["model"]).model_.n_samples_ == 298


def ragged(table, at, ndjson):
    """The table with a line that cannot be used before each of the rows ``at``."""
    texts = table.assign(time=table["time"].astype(str))
    lines = [json.dumps(row) for row in texts.to_dict("records")] if ndjson else texts.to_csv(index=False).splitlines()
    for k in sorted(at, reverse=True):
        lines.insert(k + (not ndjson), '{"broken": ' if ndjson else "1,2")
    return "\n".join(lines) + "\n"


def test_skipped_rows_are_no_normal_rows_in_between(tmp_path):
    """Two incidents remain two, whatever lines are skipped within and between them."""
    detector = PCADetector(2).fit(plant(400, 0))
    detector.save(tmp_path / "m.culpa")
    table = with_hole(0.5 * plant(60, 1), 99)
    table.loc[[20, 21, 24, 40, 41, 42, 43], "a"] += 20.0
    found = {}
    for kind in ("csv", "ndjson"):
        path = tmp_path / f"t.{kind}"
        path.write_text(ragged(table, [21, 24, 40, 42, 42, 60], kind == "ndjson"))
        extra = ["--skip-ragged"] if kind == "csv" else []
        out = tmp_path / "out.csv"
        run("incidents", path, "-m", tmp_path / "m.culpa", "-o", out, "--gap", 2, "--min-length", 3, "--force", *extra)
        lines = pd.read_csv(out)
        assert lines["n_flagged"].tolist() == [3, 4]
        found[kind] = lines[["first", "last", "start", "sentence"]].to_dict("records")
    assert found["csv"] == found["ndjson"]
    assert [(one["first"], one["last"]) for one in found["csv"]] == [(20, 26), (43, 48)]


def test_an_excluded_stop_ends_an_incident(tmp_path):
    detector = PCADetector(2).fit(plant(400, 0))
    detector.save(tmp_path / "m.culpa")
    table = with_hole(0.5 * plant(60, 1), 99)
    table.loc[18:41, "a"] += 20.0
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ["-m", tmp_path / "m.culpa", "--exclude", "2024-03-05T00:20/2024-03-05T00:40"]
    run("incidents", tmp_path / "t.csv", *options, "-o", tmp_path / "i.csv", "--gap", "1h")
    run("report", tmp_path / "t.csv", *options, "-o", tmp_path / "r.json", "--json", "--gap", "1h")
    lines = pd.read_csv(tmp_path / "i.csv")
    assert lines[["first", "last"]].to_numpy().tolist() == [[18, 19], [40, 41]]
    told = json.loads((tmp_path / "r.json").read_text())
    assert [(one["first"], one["last"]) for one in told["incidents"]] == [(18, 19), (40, 41)]
    rows = {detail["row"] for detail in told["details"]["rows"]}
    assert {one["peak"] for one in told["incidents"]} | {one["onset"]["row"] for one in told["incidents"]} <= rows
    assert set(told["chart"]["row"]) == set(range(60)) - set(range(20, 40))


@pytest.mark.parametrize("cuts", [[0], [0, 1], [1, 1, 30]], ids=str)
def test_gap_and_clock_do_not_come_from_the_first_batch(cuts):
    detector = PCADetector(2).fit(plant(400, 0))
    table = with_hole(0.5 * plant(60, 1), 99)
    table.loc[[0, 10, 12, 14], "a"] += 20.0
    for gap, n in (("5min", 2), (2, 2), ("1min", 4)):
        found = Sink()
        incidents(detector.fitted, Rows(table, cuts), found, time="time", gap=gap)
        assert len(found.lines) == n
    found = Sink()
    incidents(detector.fitted, Rows(table, cuts), found, time="time", gap=2)
    assert "00:10" in found.lines[1]["sentence"]
    days = table.assign(time=pd.date_range("2024-03-05", periods=60))
    found = Sink()
    incidents(detector.fitted, Rows(days, cuts), found, time="time", gap=2)
    assert "00:00" not in "".join(line["sentence"] for line in found.lines)


def test_a_monitor_goes_on_after_a_late_row_and_an_empty_time(monkeypatch):
    detector = PCADetector(2).fit(plant(400, 0))
    table = with_hole(0.5 * plant(60, 1), 99)
    table.loc[[30, 31, 33, 34], "a"] += 20.0
    texts = table.assign(time=table["time"].astype(str))
    texts.loc[10, "time"] = ""
    texts.loc[32, "time"] = "2024-03-04 00:00:00"
    texts.loc[50, "time"] = "soon"
    for kind in ("csv", "ndjson"):
        lines = [json.dumps(row) + "\n" for row in texts.to_dict("records")]
        content = (texts.to_csv(index=False) if kind == "csv" else "".join(lines)).encode()
        for size in (1, 1 << 20):
            found, said = Sink(), []
            source = opened(content, said, np.random.default_rng(size), monkeypatch)
            summary = incidents(detector.fitted, source, found, time="time", told=Listener(warning=said.append))
            assert [(one["first"], one["last"], one["n_flagged"]) for one in found.lines] == [(30, 34, 4)]
            assert (summary.rows, summary.skipped, len(said)) == (57, 3, 1)


def test_rows_skipped_at_the_end_of_a_file_count(tmp_path):
    table = with_hole(plant(20, 1), 99)
    detector = PCADetector(2).fit(plant(400, 0))
    for kind in ("csv", "ndjson"):
        paths = []
        for k in range(2):
            paths.append(str(tmp_path / f"{k}.{kind}"))
            (tmp_path / f"{k}.{kind}").write_text(ragged(table, [20, 20], kind == "ndjson"))
        from culpa.io.tables.formats import open_table

        sink = Sink()
        options = Options(time="time", skip_ragged=True)
        score(detector.fitted, open_table(paths, options, lambda text: None), sink)
        assert [line["row"] for line in sink.lines] == [*range(20), *range(22, 42)]


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_late_row_after_an_excluded_period_does_not_hide_it(monkeypatch, size):
    detector = PCADetector(2).fit(plant(400, 0))
    table = with_hole(0.5 * plant(40, 1), 99)
    table.loc[[9, 15], "a"] += 20.0
    texts = table.assign(time=table["time"].astype(str))
    texts.loc[14, "time"] = texts["time"][3]
    start, end = table["time"][10], table["time"][14]
    found = Sink()
    content = texts.to_csv(index=False).encode()
    source = opened(content, [], np.random.default_rng(size), monkeypatch, exclude=(f"{start}/{end}",))
    incidents(detector.fitted, source, found, time="time", gap=10)
    assert [(one["first"], one["last"]) for one in found.lines] == [(9, 9), (15, 15)]


@pytest.mark.parametrize("options", [{}, {"trim": 0.01}], ids=str)
def test_rows_of_another_rate_have_no_past_that_lags_mean(tmp_path, options):
    """The command line learns how far apart rows are, keeps it in the model file, and says where new rows differ."""
    normal, new = plant(400, 0), plant(90, 1)
    with_hole(normal, 999).to_csv(tmp_path / "n.csv", index=False)
    extra = [word for name, value in options.items() for word in (f"--{name}", value)]
    run("fit", tmp_path / "n.csv", "-o", tmp_path / "m.culpa", "--lags", 1, *extra)
    detector = culpa.load(tmp_path / "m.culpa")
    alone = [-detector.score_samples(new[k : k + 1])[0] for k in range(0, 90, 3)]
    with_hole(new, 999)[::3].to_csv(tmp_path / "t.csv", index=False)
    for command in ("score", "incidents", "report"):
        found = run(
            command,
            tmp_path / "t.csv",
            "-m",
            tmp_path / "m.culpa",
            "-o",
            tmp_path / f"{command}.html",
            *(("--format", "csv") if command != "report" else ()),
        )
        assert "rows are 3 min apart, and those that the model was fitted to were 1 min apart" in found.stderr
    np.testing.assert_allclose(pd.read_csv(tmp_path / "score.html")["score"], alone)
    with_hole(new, 999).to_csv(tmp_path / "t.csv", index=False)
    found = run("score", tmp_path / "t.csv", "-m", tmp_path / "m.culpa", "-o", tmp_path / "s.csv")
    assert "apart" not in found.stderr
    np.testing.assert_allclose(pd.read_csv(tmp_path / "s.csv")["score"], -detector.score_samples(new))
    run("update", tmp_path / "m.culpa", tmp_path / "t.csv", "-o", tmp_path / "u.culpa", code=2 if options else 0)
    if not options:
        assert culpa.load(tmp_path / "u.culpa").fitted.columns.step == detector.fitted.columns.step


def test_accepted_false_incidents_per_week_when_rows_come_one_by_one():
    """How far apart rows are is known after a few of them, which wait; incidents are those of the file."""
    table, model, told = faulty(3), PCADetector().fit(plant(800, 5)), []
    for cuts in ([], range(1, 240)):
        sink = Sink()
        summary = incidents(model.fitted, Rows(table, cuts), sink, time="time", false_incidents="1 per week")
        told.append(([line["sentence"] for line in sink.lines], summary.expected))
    assert told[0] == told[1]
    assert told[0][0]
    assert "false incidents per day" in told[0][1]
