"""Groups of columns that are blamed together, such as the sensors and valves of one subsystem."""

from collections.abc import Mapping, Sequence
from typing import Any

from culpa._core.parameters import DETECTOR
from culpa._core.validation import feature_positions

Groups = Mapping[str, Sequence[str | int]]


def complete_groups(groups: Groups, names: Sequence[str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Groups by position; features in no group become players of their own, in the order of the columns."""
    owner: dict[int, str] = {}
    for group, members in groups.items():
        if not len(members):
            raise ValueError(f"group {group!r} is empty: give it at least one feature or leave it out.")
        for i in feature_positions(members, names, f"group {group!r}"):
            if i in owner:
                raise ValueError(
                    f"feature {names[i]!r} is in the groups {owner[i]!r} and {group!r}: groups must not overlap."
                    if owner[i] != group
                    else f"feature {names[i]!r} is in the group {group!r} twice: name it once."
                )
            owner[i] = group
    players: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        if i not in owner and name in groups:
            raise ValueError(f"group {name!r} has the name of a feature that is not in the group. Choose another name.")
        players.setdefault(owner.get(i, name), []).append(i)
    return tuple((name, tuple(members)) for name, members in players.items())


def named_groups(groups: Groups | None, inputs: Sequence[str], blamed: Sequence[str]) -> dict[str, list[str]]:
    """Checked groups by name, where columns were given by name or by position among all columns of the table.

    ``blamed`` are the columns that can be blamed: all of them, or those that are not given.
    """
    if not groups:
        return {}
    result: dict[str, list[str]] = {}
    for group, members in groups.items():
        names = [inputs[i] for i in feature_positions(members, inputs, f"group {group!r}")]
        for name in names:
            if name not in blamed:
                raise ValueError(
                    f"column {name!r} is given and in the group {group!r}: given columns are never blamed, so leave it out "
                    "of the group."
                )
        result[group] = names
    complete_groups(result, blamed)
    return result


def without_given(groups: Mapping[str, Sequence[str]], given: Sequence[str]) -> dict[str, list[str]]:
    """The groups less the features that are given."""
    left = {group: [name for name in members if name not in given] for group, members in groups.items()}
    return {group: members for group, members in left.items() if members}


def plain_groups(groups: Any) -> dict[str, list[str | int]] | None:
    """Groups of whatever kind of lists as a dict of lists, which can be compared and stored."""
    DETECTOR["groups"].check(groups)
    if groups is None:
        return None
    return {
        name: [members] if isinstance(members, str) else [one if isinstance(one, str) else int(one) for one in members]
        for name, members in groups.items()
    }
