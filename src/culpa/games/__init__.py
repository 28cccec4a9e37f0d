"""What would a coalition of features be worth? Games that coalitions can walk through."""

from culpa.games.base import Coalitions, Game
from culpa.games.conditional import Conditional
from culpa.games.interventional import Interventional
from culpa.games.retraining import Retraining

NAMES = ("conditional", "retraining", "interventional")
RETRAINABLE = ("spe", "mse")  # scores that the retraining game can explain

__all__ = ["NAMES", "RETRAINABLE", "Coalitions", "Conditional", "Game", "Interventional", "Retraining"]
