"""How abnormal is a row, and how abnormal may a normal row be? Scores and their limits."""

from culpa._core.choices import SCORE_NAMES
from culpa.scores.by_name import named_score, score_by_name
from culpa.scores.function import FunctionScore
from culpa.scores.held_out import HeldOutScores, discoveries
from culpa.scores.limits import Limits, control_limit
from culpa.scores.mixture import MixtureScore
from culpa.scores.quadratic import (
    QuadraticForm,
    QuadraticScore,
    combined,
    mahalanobis,
    mse,
    of_features,
    reconstruction_error,
    spe,
    t2,
)
from culpa.scores.score import GameSettings, Score, ScoredRows

__all__ = [
    "SCORE_NAMES",
    "FunctionScore",
    "GameSettings",
    "HeldOutScores",
    "Limits",
    "MixtureScore",
    "QuadraticForm",
    "QuadraticScore",
    "Score",
    "ScoredRows",
    "combined",
    "control_limit",
    "discoveries",
    "mahalanobis",
    "mse",
    "named_score",
    "of_features",
    "reconstruction_error",
    "score_by_name",
    "spe",
    "t2",
]
