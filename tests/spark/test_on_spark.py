"""culpa.spark on a real Spark: two local workers, at least four partitions, and the library to compare with."""

import doctest
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from command_line import run
from partitions import NAMES, plant

import culpa
import culpa.spark
from culpa import PCADetector
from culpa.detecting.pieces import of_fitted
from culpa.spark.frames import map_arrow

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Java is not installed", allow_module_level=True)

# PySpark's own: about newer versions of other packages, and sockets that it leaves to the end
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "Resource")]

# Java starts in half the time if it does not optimise code that runs for seconds
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

COLUMNS = list(NAMES)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = pyspark.sql.SparkSession.builder.master("local[2,2]")  # two workers, and two attempts
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame():
    frame = plant(607, centre=100.0)
    frame.loc[100:110, "heat"] += 4
    return frame


@pytest.fixture(scope="module")
def table(spark, frame):
    """The rows in six partitions: two long ones, a short one, and empty ones."""
    rows = spark.createDataFrame(frame.sample(frac=1, random_state=0))
    spread = rows.repartition(6, (rows["machine"] == "m0").cast("int"), rows["time"] > "2024-03-05 01:00:00").cache()
    assert spread.rdd.getNumPartitions() == 6
    sizes = spread.rdd.glom().map(len).collect()
    assert 0 in sizes
    assert max(sizes) > 300
    return spread


@pytest.fixture(scope="module")
def detector(frame):
    return PCADetector().fit(frame[COLUMNS][200:])


def sorted_rows(answer):
    return answer.toPandas().sort_values("time", kind="stable").reset_index(drop=True)


def test_fit_in_order_is_the_librarys(table, frame):
    found = culpa.spark.fit(table, COLUMNS, order="time")
    expected = PCADetector().fit(frame[COLUMNS])
    assert found.limit_kind_ == expected.limit_kind_ == "held-out"
    assert found.limit_ == pytest.approx(expected.limit_, rel=1e-12)
    np.testing.assert_allclose(found.model_.covariance_, expected.model_.covariance_, rtol=1e-9)
    np.testing.assert_allclose(found.fitted.score(frame[COLUMNS]), expected.fitted.score(frame[COLUMNS]), rtol=1e-9)
    np.testing.assert_allclose(found.explain(frame[COLUMNS]).values, expected.explain(frame[COLUMNS]).values, atol=1e-9)


def test_scores_and_explanations_are_the_librarys(table, frame, detector):
    scores = culpa.spark.score(table, detector)
    assert scores.columns == [*frame.columns, "score_", "limit", "anomaly", "p_value"]
    found = sorted_rows(scores)
    pd.testing.assert_frame_equal(found[frame.columns], frame, check_dtype=False)
    np.testing.assert_allclose(found["score_"], detector.fitted.score(frame[COLUMNS]), rtol=1e-12)
    np.testing.assert_array_equal(found["anomaly"], detector.predict(frame[COLUMNS]) == -1)

    why = culpa.spark.explain(table, detector)
    assert why.columns == ["time", "machine", "score", "score_", "limit", "anomaly", *NAMES]
    np.testing.assert_allclose(
        sorted_rows(why)[COLUMNS], detector.explain(frame[COLUMNS]).values, rtol=1e-12, atol=1e-12
    )
    top = sorted_rows(culpa.spark.explain(table, detector, top=2, flagged_only=True))
    flagged = frame[COLUMNS][detector.predict(frame[COLUMNS]) == -1]
    expected = detector.explain(flagged).top(2)
    assert list(top["feature"]) == list(expected["feature"])
    np.testing.assert_allclose(top["value"], expected["value"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", culpa.spark.__all__)
def test_examples_of_docstrings(table, detector, name):
    """They are skipped elsewhere, because they need Spark."""
    df = table.drop("score")
    models = culpa.spark.fit_many(df, by="machine", columns=COLUMNS)
    names = {"culpa": culpa, "df": df, "detector": detector, "columns": COLUMNS, "models": models}
    [example] = doctest.DocTestFinder().find(getattr(culpa.spark, name), name, globs=names)
    for line in example.examples:
        line.options.clear()
    assert doctest.DocTestRunner().run(example).failed == 0


def test_columns_without_numbers(spark, table, frame, detector):
    from pyspark.sql import functions as F

    empty = table.withColumn("power", F.lit(None).cast("double"))
    with pytest.raises(ValueError, match="all cells of column 'power' are missing"):
        culpa.spark.fit(empty, COLUMNS)
    found = sorted_rows(culpa.spark.score(empty, detector))["score_"]
    expected = detector.fitted.score(frame[COLUMNS].assign(power=np.nan))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    texts = table.withColumn("power", F.lit("high"))
    with pytest.raises(ValueError, match="column 'power' contains string, not numbers"):
        culpa.spark.score(texts, detector)
    with pytest.raises(ValueError, match="there is no column 'power'"):
        culpa.spark.explain(table.drop("power"), detector)


def test_a_partition_with_bad_rows(table, detector):
    from pyspark.sql import functions as F

    bad = F.when(F.col("score") == "label 17", F.lit(float("inf"))).otherwise(F.col("`SI101.PV`"))
    broken = table.withColumn("SI101.PV", bad)
    with pytest.raises(ValueError, match=r"^column 'SI101.PV' of the table contains infinity in row \d+"):
        culpa.spark.fit(broken, COLUMNS)
    with pytest.raises(pyspark.errors.PythonException, match=r"column 'SI101.PV' of the table contains infinity"):
        culpa.spark.score(broken, detector).collect()


def test_a_worker_that_is_killed_is_replaced(table, frame, detector, tmp_path):
    marker = str(tmp_path / "killed")

    def kill_once(batches):
        for batch in batches:
            yield batch
            if not os.path.exists(marker):
                open(marker, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)

    shaky = map_arrow(table, kill_once, table.schema)
    found = sorted_rows(culpa.spark.score(shaky, detector))
    assert os.path.exists(marker)
    np.testing.assert_allclose(found["score_"], detector.fitted.score(frame[COLUMNS]), rtol=1e-12)


def test_streams_of_files(spark, table, frame, detector, tmp_path):
    table.coalesce(3).write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(table.schema).parquet(str(tmp_path / "rows"))
    for name, answer in (("scores", culpa.spark.score), ("reasons", culpa.spark.explain)):
        answers = answer(stream, detector)
        assert answers.isStreaming
        query = answers.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
        query.awaitTermination(120)
    scores, reasons = (sorted_rows(spark.table(name)) for name in ("scores", "reasons"))
    np.testing.assert_allclose(scores["score_"], detector.fitted.score(frame[COLUMNS]), rtol=1e-12)
    np.testing.assert_allclose(reasons[COLUMNS], detector.explain(frame[COLUMNS]).values, rtol=1e-12, atol=1e-12)


def test_incidents_of_each_machine(table, frame, detector):
    found = culpa.spark.incidents(table, detector, time="time", by="machine", gap="10min")
    assert found.columns[:4] == ["machine", "start", "end", "peak"]
    assert dict(found.dtypes)["start"] == dict(table.dtypes)["time"]
    found = found.toPandas()
    for machine, rows in frame.groupby("machine"):
        expected = detector.incidents(rows[[*NAMES, "time"]], time="time", gap="10min")
        mine = found[found["machine"] == machine].sort_values("start")
        assert list(mine["start"]) == [one.start for one in expected]
        assert list(mine["culprit"]) == [one.culprits[0].feature if one.culprits else "" for one in expected]


def test_a_fleet_of_models(spark, table, frame):
    lonely = table.limit(1).replace({"m0": "m9", "m1": "m9", "m2": "m9"}, subset=["machine"])
    models = culpa.spark.fit_many(table.unionByName(lonely), "machine", COLUMNS, time="time").cache()
    lines = models.toPandas().set_index("machine")
    assert lines.loc["m9", "error"] == "at least 2 rows are needed to learn from, got 1."
    scores = culpa.spark.score_many(table.unionByName(lonely), models, "machine")
    assert scores.columns == [*frame.columns, "score_", "limit", "anomaly", "p_value"]
    found = sorted_rows(scores)
    assert found[found["machine"] == "m9"]["score_"].isna().all()
    for machine, rows in frame.groupby("machine"):
        expected = PCADetector().fit(rows[COLUMNS])
        assert lines.loc[machine, "limit"] == pytest.approx(expected.limit_, rel=1e-12)
        mine = found[found["machine"] == machine]
        np.testing.assert_allclose(mine["score_"], expected.fitted.score(rows[COLUMNS]), rtol=1e-12)


def test_calibrated_limits_are_the_librarys(table, frame, detector):
    found = culpa.spark.calibrate(table, detector)
    assert found.limit_kind_ == "conformal"
    assert detector.limit_kind_ == "held-out"
    assert found.limit_ == of_fitted(detector.fitted).calibrate_limit(frame[COLUMNS]).limit_


def test_the_command_line(table, frame, tmp_path):
    rows, model, answer = tmp_path / "rows", tmp_path / "plant.culpa", tmp_path / "answer"
    table.drop("score").write.parquet(str(rows))
    spark = ("--engine", "spark")
    done = run("fit", rows, "-o", model, *spark, "--time", "time", "--id", "machine", "--confidence", 0.95)
    assert "607 rows, 4 features" in done.output
    detector = culpa.load(model)
    expected = PCADetector(confidence=0.95).fit(frame[COLUMNS])
    assert detector.limit_ == pytest.approx(expected.limit_, rel=1e-12)
    run("score", rows, "-m", model, "-o", answer, *spark)
    found = pd.read_parquet(answer).sort_values("time")
    np.testing.assert_allclose(found["score"], expected.fitted.score(frame[COLUMNS]), rtol=1e-9)
    assert "exists already" in run("score", rows, "-m", model, "-o", answer, *spark, code=2).output
    run("explain", rows, "-m", model, "-o", answer, *spark, "--top", 1, "--force")
    assert len(pd.read_parquet(answer)) == int(found["anomaly"].sum()) > 0
    by_machine = ("--time", "time", "--by", "machine", "--min-length", 1)
    run("incidents", rows, "-m", model, "-o", answer, *spark, *by_machine, "--force")
    assert set(pd.read_parquet(answer)["machine"]) == {"m0", "m1", "m2"}
    for more, sentence in (
        (("--delimiter", ";"), "--delimiter is not for --engine spark."),
        (("--fdr", 0.1), "--fdr is not for --engine spark."),
        (("--engine", "dask"), "--engine"),
    ):
        assert sentence in run("score", rows, "-m", model, "-o", answer, *spark, *more, code=2).output
    assert "writes a folder" in run("score", rows, "-m", model, *spark, code=2).output
    assert "does not exist" in run("score", tmp_path / "no", "-m", model, "-o", answer, *spark, code=2).output


def test_flags_and_times_without_a_zone(spark, frame, tmp_path):
    rows, model, answer = tmp_path / "rows", tmp_path / "plant.culpa", tmp_path / "answer"
    table = frame.drop(columns=["score", "machine"]).assign(on=np.arange(len(frame)) % 3 == 0)
    table["time"] = pd.date_range("2024-03-31 01:00", periods=len(table), freq="1min")  # hours that some zones skip
    local = spark.createDataFrame(table.sample(frac=1, random_state=1))
    local.withColumn("time", local["time"].cast("timestamp_ntz")).write.parquet(str(rows))
    numbers = table.drop(columns="time")
    expected = PCADetector().fit(numbers)
    run("fit", rows, "-o", model, "--engine", "spark", "--time", "time")
    detector = culpa.load(model)
    assert list(detector.feature_names_in_) == list(numbers)
    assert detector.limit_ == pytest.approx(expected.limit_, rel=1e-12)
    run("score", rows, "-m", model, "-o", answer, "--engine", "spark")
    found = pd.read_parquet(answer).sort_values("time")
    np.testing.assert_allclose(found["score"], expected.fitted.score(numbers), rtol=1e-9)
    run("explain", rows, "-m", model, "-o", answer, "--engine", "spark", "--all", "--force")
    found = pd.read_parquet(answer).sort_values("time")
    np.testing.assert_allclose(found["on"], expected.explain(numbers).values[:, -1], rtol=1e-9, atol=1e-9)


def test_what_is_refused_or_fails_replaces_nothing(spark, table, detector, tmp_path):
    rows, model, answer = tmp_path / "rows", tmp_path / "plant.culpa", tmp_path / "answer"
    detector.save(model)
    table.select(*(f"`{name}`" for name in COLUMNS)).write.parquet(str(rows / "a"))
    spark.createDataFrame(pd.DataFrame({name: [1e300] for name in COLUMNS})).write.parquet(str(tmp_path / "large"))
    run("score", rows / "a", "-m", model, "-o", answer, "--engine", "spark")
    before = sorted(path.name for path in answer.iterdir())
    for source, target, more, sentence in (
        (rows / "a", rows, (), "one of the inputs"),
        (rows / "a", rows / "a", (), "one of the inputs"),
        (tmp_path / "large", answer, (), "too large"),
    ):
        command = ("score", source, "-m", model, "-o", target, "--engine", "spark", "--force", *more)
        assert sentence in run(*command, code=2).output
    command = ("explain", rows / "a", "-m", model, "-o", answer, "--engine", "spark", "--force")
    assert "--tolerance is not for" in run(*command, "--tolerance", "top3", code=2).output
    assert sorted(path.name for path in answer.iterdir()) == before
    assert not list(tmp_path.glob(".*"))
    run("score", rows / "a", "-m", model, "-o", answer, "--engine", "spark", "--force")
    assert len(pd.read_parquet(answer)) == table.count()


CONNECT = textwrap.dedent("""
    import sys
    import numpy as np
    from pyspark.sql import SparkSession
    import culpa.spark
    from culpa import PCADetector
    from partitions import NAMES, plant

    builder = SparkSession.builder.remote("local[2]")
    for setting in sys.argv[1:]:
        builder = builder.config(*setting.split("="))
    spark = builder.getOrCreate()
    assert "connect" in type(spark).__module__
    frame = plant(300, centre=100.0)
    table = spark.createDataFrame(frame).repartition(4)
    rows = frame[list(NAMES)]
    detector = culpa.spark.fit(table, list(NAMES), order="time")
    expected = PCADetector().fit(rows)
    assert abs(detector.limit_ / expected.limit_ - 1) < 1e-12
    for answer, values in ((culpa.spark.score, lambda: expected.fitted.score(rows)),
                           (culpa.spark.explain, lambda: expected.explain(rows).values)):
        found = answer(table, expected).toPandas().sort_values("time")
        columns = "score_" if answer is culpa.spark.score else list(NAMES)
        np.testing.assert_allclose(found[columns], values(), rtol=1e-12, atol=1e-12)
    models = culpa.spark.fit_many(table, "machine", list(NAMES))
    assert culpa.spark.score_many(table, models, "machine").where("score_ is null").count() == 0
    print("all equal")
    spark.stop()
""")


def test_spark_connect_and_executors_without_a_cache_of_kernels(tmp_path):
    """Nothing can be written to the folders where compiled kernels are kept."""
    (tmp_path / "file").touch()
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([*filter(None, sys.path)]),
        "NUMBA_CACHE_DIR": str(tmp_path / "file" / "below"),
    }
    for name in ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT"):
        environment.pop(name, None)
    settings = [f"{name}={value}" for name, value in SETTINGS.items() if "log" not in name]
    command = [sys.executable, "-W", "ignore", "-c", CONNECT, *settings]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300
    )
    assert done.stdout.strip().endswith("all equal"), done.stderr[-3000:]


def test_without_pyspark_one_sentence_says_what_to_install(monkeypatch, detector):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ImportError, match=r"^culpa.spark needs pyspark: pip install 'culpa\[spark\]'$"):
        culpa.spark.score(None, detector)
