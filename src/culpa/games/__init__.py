"""What would a coalition of features be worth? Games that coalitions can walk through."""

from culpa.games.base import Coalitions, Game
from culpa.games.conditional import Conditional
from culpa.games.interventional import Interventional
from culpa.games.retraining import Retraining

NAMES = ("conditional", "retraining", "interventional")

__all__ = ["NAMES", "Coalitions", "Conditional", "Game", "Interventional", "Retraining"]
