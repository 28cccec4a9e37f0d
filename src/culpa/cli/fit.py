"""`culpa fit`: learn what normal rows look like."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culpa.cli import common

if TYPE_CHECKING:
    from culpa.detector import PCADetector
    from culpa.io.tables import Source


def fit(
    table: common.Table,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Model file to write, such as plant.culpa.", show_default=False)
    ],
    columns: common.Columns = None,
    drop: common.Drop = None,
    id: common.Id = None,
    components: common.Components = "0.95",
    statistic: Annotated[str, typer.Option(help="Score: spe, mse, t2, mahalanobis or combined.")] = "spe",
    confidence: common.Confidence = 0.99,
    limit: Annotated[
        str, typer.Option(help="Limit: auto, jackson-mudholkar, box, imhof, f, empirical or conformal.")
    ] = "auto",
    holdout: Annotated[
        float, typer.Option(help="Share of the rows, the last ones, held out for --limit conformal.")
    ] = 0.2,
    trim: Annotated[
        float, typer.Option(help="Share of the rows that may be abnormal: the worst are left out of the fit.")
    ] = 0.0,
    noise: Annotated[float, typer.Option(help="Factor on the model's noise variance.")] = 1.0,
    shrinkage: Annotated[float, typer.Option(help="Share by which correlations are drawn towards 0.")] = 0.0,
    game: Annotated[
        str, typer.Option(help="Game to explain by: conditional, retraining, interventional.")
    ] = "conditional",
    ranking: Annotated[
        str, typer.Option(help="Whom to list first: shapley, leave-one-out, fault-odds ...")
    ] = "shapley",
    scale: common.Scale = True,
    lags: Annotated[
        int, typer.Option(min=0, help="Judge each row together with this many rows before it (dynamic PCA).")
    ] = 0,
    complete_only: Annotated[
        bool,
        typer.Option("--complete-only", help="Leave out rows with missing cells; else they are learned from, too."),
    ] = False,
    compile: Annotated[
        bool, typer.Option("--compile", help="Store a compiled explainer, so that explaining starts at full speed.")
    ] = False,
    unit: Annotated[
        list[str] | None, typer.Option(help="Unit of a column, as 'name=unit'; may be repeated.", show_default=False)
    ] = None,
    input_format: common.InputFormat = None,
    delimiter: common.Delimiter = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = "utf-8",
    missing: common.Missing = None,
    strict: common.Strict = False,
    sparse: common.Sparse = False,
    force: common.Force = False,
    quiet: common.Quiet = False,
) -> None:
    """Learn what normal rows look like, and write a model file.

    The table may be larger than memory: it is read once, in batches.

    \b
    culpa fit normal.csv -o plant.culpa
    culpa fit normal.parquet -o plant.culpa --id time --drop operator,shift
    culpa fit messwerte.csv -o anlage.culpa --delimiter ';' --decimal ','
    """
    with common.guarded():
        from culpa._core.files import check_free
        from culpa.detector import PCADetector

        check_free(output, force=force)
        source = common.source_from(table, input_format, delimiter, decimal, encoding, missing, strict, sparse)
        features = common.features_of(source, columns, drop, id)
        parameters: dict[str, Any] = {
            "scale": scale,
            "statistic": statistic,
            "confidence": confidence,
            "limit": limit,
            "holdout": holdout,
            "trim": trim,
            "noise": noise,
            "shrinkage": shrinkage,
            "game": game,
            "ranking": ranking,
            "lags": lags,
        }
        detector = PCADetector(components_of(components), **parameters)
        _learn(detector, source, features, complete_only=complete_only, compile=compile, quiet=quiet)
        detector.units_ = _units(unit or [], features)
        detector.save(output)
        if not quiet:
            common.say(_summary(detector, source, output))


def _learn(
    detector: "PCADetector", source: "Source", features: list[str], *, complete_only: bool, compile: bool, quiet: bool
) -> None:
    from culpa.jobs import fit as learn

    with common.progress_bar(source, quiet=quiet) as (rows_done, note):
        learn(
            detector, source, features, complete_only=complete_only, progress=rows_done, report=common.warn, note=note
        )
        if compile:
            note("compiling the explainer")
            detector.explainer().compile()


def components_of(text: str) -> int | float:
    """A number of components, or a share of variance."""
    try:
        return float(text) if "." in text or "e" in text.lower() else int(text)
    except ValueError:
        raise ValueError(f"--components must be a number such as 3 or 0.95, got {text!r}.") from None


def _units(given: list[str], features: list[str]) -> dict[str, str]:
    units = {}
    for text in given:
        name, sign, unit = text.rpartition("=")
        if not sign or name not in features:
            raise ValueError(f"--unit must be 'name=unit' with the name of a column in use, got {text!r}.")
        units[name] = unit
    return units


def _summary(detector: "PCADetector", source: "Source", output: Path) -> str:
    model = detector.model_
    skipped = f", {common.count(source.skipped, 'line')} skipped" if source.skipped else ""
    abnormal = getattr(detector, "abnormal_training_rows_", None)
    odd = "" if abnormal is None else f"; {_oddity(abnormal)}"
    past = f" with {common.count(detector.lags, 'lag')}" if detector.lags else ""
    return (
        f"{model.n_samples_:,} rows{skipped}, {detector.n_features_in_} features{past}, "
        f"{common.count(model.n_components_, 'component')} {'explains' if model.n_components_ == 1 else 'explain'} "
        f"{model.explained_variance_ratio_.sum():.1%}; "
        f"{detector.statistic} limit {detector.limit_:.4g}{odd}; wrote {output}"
    )


def _oddity(abnormal: Any) -> str:
    """How many training rows look abnormal, and which one most."""
    from culpa.monitoring.trimming import GROSS

    trimmed = int(abnormal["trimmed"].sum())  # which does not make them abnormal
    others = abnormal[~abnormal["trimmed"]]
    told = f"{common.count(trimmed, 'row')} trimmed, " if trimmed else ""
    told += (
        f"{common.count(len(others), 'other' if trimmed else 'training row')} look{'s' * (len(others) == 1)} abnormal"
    )
    if not len(others):
        return told
    row, times = others["row"].iloc[0], others["times_limit"].iloc[0]
    told += f", the worst (row {row}) at {times:,.{1 if times < 10 else 0}f} times its limit"
    return f"{told}: look at it before you trust the model" if times > GROSS else told
