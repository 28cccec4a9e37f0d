"""What is affordable: cost in operations, never read off a clock, so that the same model is always treated the same."""

from culpa.games import Game

# Operations that "auto" may spend on being exact: a few seconds on a laptop.
EXACT_BUDGET = 1e10
# Operations that even method="exact" refuses, and the rate used to put a time to them.
_REFUSED = 1e13
_PER_SECOND = 1e9


def exact_operations(game: Game, n_players: int) -> float:
    """Operations of valuing all coalitions for one row."""
    return float(game.operations) * 2.0 ** min(n_players, 1000)


def affordable(game: Game, n_players: int, budget: float = EXACT_BUDGET) -> bool:
    """Whether exact values cost less than ``budget`` operations a row."""
    return exact_operations(game, n_players) <= budget


def check_affordable(game: Game, n_players: int) -> None:
    """Refuse what nobody would wait for."""
    operations = exact_operations(game, n_players)
    if operations > _REFUSED:
        raise ValueError(
            f"method='exact' would value 2^{n_players} coalitions of the {n_players} features, which takes about "
            f"{_duration(operations / _PER_SECOND)}: use method='auto' or 'permutation', or put features into groups."
        )


def _duration(seconds: float) -> str:
    for unit, length in (("years", 3.15e7), ("days", 86400.0), ("hours", 3600.0)):
        if seconds >= length:
            return f"{seconds / length:,.0f} {unit}" if seconds < 1e6 * length else f"{seconds / length:.0e} {unit}"
    return f"{seconds / 60:.0f} minutes"
