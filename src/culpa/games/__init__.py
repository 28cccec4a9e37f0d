"""What would a coalition of features be worth? Games that coalitions can walk through."""

from culpa._core.choices import GAME_NAMES, ScoreName
from culpa.games.conditional import Conditional
from culpa.games.form import ConditionalForm
from culpa.games.game import Coalitions, Game
from culpa.games.given import Given
from culpa.games.interventional import Interventional
from culpa.games.minimal import Minimal
from culpa.games.mixture import ConditionalMixture
from culpa.games.retraining import Retraining
from culpa.games.simulated import Simulated

RETRAINABLE: tuple[ScoreName, ...] = ("spe", "mse")  # scores that the retraining game can explain

__all__ = [
    "GAME_NAMES",
    "RETRAINABLE",
    "Coalitions",
    "Conditional",
    "ConditionalForm",
    "ConditionalMixture",
    "Game",
    "Given",
    "Interventional",
    "Minimal",
    "Retraining",
    "Simulated",
]
