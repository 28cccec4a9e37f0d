"""Finding columns by name, clear errors if they are missing or not numeric, and turning their cells into numbers."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from culpa._core.json_values import as_typed
from culpa._core.types import Floats
from culpa._core.words import split_list
from culpa.io.tables import problems
from culpa.io.tables.numbers import Missing
from culpa.io.tables.table import LARGEST, Column, Source, TableError

_TEXTS = (
    *(types.is_string, types.is_large_string, types.is_string_view),
    *(types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
)
_MOST_GUESSED = 50  # names whose meaning is guessed, which takes long in wide tables
_COMMA_NUMBER = re.compile(r"[+-]?[\d.]*,\d+")


def kind(dtype: pa.DataType) -> str:
    """ "number", "text", "time" or "other"."""
    if types.is_dictionary(dtype) or types.is_run_end_encoded(dtype):
        return kind(dtype.value_type)
    if isinstance(dtype, pa.BaseExtensionType):
        return kind(dtype.storage_type)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_boolean(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_null(dtype):  # nothing but missing cells so far
        return "number"
    if any(is_text(dtype) for is_text in _TEXTS):
        return "text"
    return "time" if types.is_temporal(dtype) else "other"


def find(name: str, names: Sequence[str], table: str) -> str:
    """``name`` if the table has it exactly once, else an error that guesses what was meant."""
    check_each([name], names, table)
    return name


def _odd_one(name: str, names: Sequence[str]) -> str:
    count = list(names).count(name)
    many = f"{count} columns are called {name!r}: rename all but one."
    return many if count else f"there is no column {name!r}{near_miss(name, names)}"


def find_all(names: Sequence[str], known: Sequence[str], table: str, what: str = "columns") -> None:
    """Refuse names that a table lacks or has twice, all of them at once. ``what`` they are, for the message."""
    odd, n_names = _odd(names, known), len({*names})
    if len(odd) < 2:
        check_each(odd, known, table)
        return
    there = {*known}
    guessed = odd[:_MOST_GUESSED]
    strange = [name for name in odd if name not in there and (name not in guessed or not _similar(name, known))]
    if len(strange) > n_names / 2 and len(odd) == n_names and not there & {*odd}:
        raise TableError(f"none of the {n_names} {what} is in {table}{_available(known)}")
    many = [f"{len(strange)} of the {n_names} {what} are missing: {_listed(strange)}{_available(known)}"]
    texts = [_odd_one(name, known) for name in odd if name not in strange]
    texts += many if len(strange) > 1 else [_odd_one(name, known) for name in strange]
    if len(texts) == 1:
        raise TableError(f"{table}: {texts[0]}")
    raise problems.TableProblems(table, [problems.Problem(text.rstrip(".")) for text in texts])


def find_for_model(features: Sequence[str], carried: Sequence[str], known: Sequence[str], table: str) -> None:
    """Refuse features of a model, and columns that label its rows, if a table lacks them."""
    find_all(features, known, table, "columns of the model")
    find_all(carried, known, table)


def check_each(names: Iterable[str], known: Sequence[str], table: str) -> None:
    """Refuse the first name that a table lacks or has twice."""
    for name in _odd(names, known):
        raise TableError(f"{table}: {_odd_one(name, known)}")


def _odd(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Names that are not among the known ones exactly once, found in one pass over wide tables."""
    counts = Counter(known)
    return [name for name in dict.fromkeys(names) if counts[name] != 1]


def near_miss(name: str, names: Sequence[str]) -> str:
    """The end of an error message: a guess what was meant, or else the names that there are."""
    near = _similar(name, names)
    return "; did you mean " + " or ".join(map(repr, near)) + "?" if near else _available(names)


def _similar(name: str, names: Sequence[str]) -> list[str]:
    by_case = [other for other in names if other.strip().casefold() == name.strip().casefold()]
    return by_case or get_close_matches(name, names, n=2)


def _available(names: Sequence[str]) -> str:
    return f"; available: {_listed(names)}." if names else "; there are none."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, list(names)[:8])) + (", ..." if len(names) > 8 else "")


def split_names(given: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names given as ``a,b`` or one by one; a name with a comma is quoted, or the whole text is the name of a column."""
    result: list[str] = []
    for text in given:
        result += [text] if text in names else [name for name in split_list(text) if name]
    return list(dict.fromkeys(result))


def split_chains(given: Sequence[str], names: Sequence[str]) -> list[list[str]]:
    """Chains of names given as ``a:b:c``, several separated by commas. A name may contain these signs itself.

    >>> split_chains(["feed:reactor, T1:x", "reactor:product"], ["T1:x"])
    [['feed', 'reactor'], ['T1:x'], ['reactor', 'product']]
    """
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    token = re.compile(rf"\s*({known}{'|' * bool(known)}[^:,]*?)\s*(:|,|$)")
    result: list[list[str]] = []
    for text in given:
        chain: list[str] = []
        for name, mark in token.findall(text):
            chain += [name] if name else []
            if mark != ":" and chain:
                result.append(chain)
                chain = []
    return result


def choose_features(
    columns: Mapping[str, Column],
    table: str,
    wanted: Sequence[str],
    dropped: Sequence[str],
    carried: Sequence[str],
    source: Source | None = None,
) -> list[str]:
    """The columns to learn from: those asked for, or all that are neither dropped nor carried.

    ``source`` is the table itself: if a column does not hold numbers, the error lists everything that is wrong with it.
    """
    names = list(columns)
    find_all((*wanted, *dropped, *carried), names, table)
    left_out = {*dropped, *([] if wanted else carried)}
    features = [name for name in wanted or names if name not in left_out]
    try:
        for name in features:
            check_numeric(name, columns[name], table)
    except TableError as error:
        if source is None:
            raise
        numeric = [name for name in features if columns[name].kind == "number" or columns[name].row is not None]
        wrong = problems.all_problems(source, numeric, problems.wrong_columns(columns, features))
        commas = any(_has_decimal_comma(columns[name]) for name in features)
        found = None if commas else problems.as_long(source, columns) or problems.as_no_table(table, numeric, wrong)
        raise found or (problems.TableProblems(table, wrong) if len(wrong) > 1 else error) from None
    return features


def check_numeric(name: str, column: Column, table: str) -> None:
    """Refuse a column that does not contain numbers, with advice."""
    if column.kind == "number":
        return
    if _has_decimal_comma(column):
        raise TableError(
            f"{table}: column {name!r} contains {column.example!r}. If the comma is the decimal mark, add --decimal ','."
        )
    if column.row is not None:
        raise TableError(
            f"{table}: column {name!r} contains {problems.short(column.example)} in row {column.row}, which is not a "
            f"number. {take_as_missing(column.example)} Otherwise fit without the column (--drop)."
        )
    advice = "turn it into numbers (one 0/1 column per category)" if column.kind == "text" else "turn it into numbers"
    raise TableError(
        f"{table}: column {name!r} contains {problems.holds(column)}. Fit without it (--drop), keep it as a label (--id), "
        f"or {advice}."
    )


def _has_decimal_comma(column: Column) -> bool:
    return column.kind == "text" and _COMMA_NUMBER.fullmatch(str(column.example).strip()) is not None


def take_as_missing(cell: str) -> str:
    """Advice about a cell that is probably not meant as a number."""
    return f"If it means a missing cell, add --missing {shlex.quote(cell)}."


def plain(array: Any) -> Any:
    """An Arrow array without the ways in which types can be packed: dictionaries, runs, extensions, views."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if types.is_dictionary(array.type):
        array = plain(array.dictionary_decode())
    if types.is_run_end_encoded(array.type):
        array = _repeated(array)
    if types.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if types.is_binary_view(array.type) else array


def _repeated(array: Any) -> Any:
    """The cells of runs, whatever their type; pyarrow repeats only some types."""
    import pyarrow.compute as pc

    positions = pa.array(np.arange(len(array.values), dtype=np.int32))
    runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, positions).slice(array.offset, len(array))
    return plain(array.values).take(pc.run_end_decode(runs))


def without_zeros(array: Any) -> Any:
    """Times with a type that is no finer than their cells, so that texts have no fractions that are all zeros."""
    if not (types.is_timestamp(array.type) or types.is_time(array.type)):
        return array
    for unit in ("s", "ms", "us"):
        coarse = {"us": pa.time64}.get(unit, pa.time32)(unit)
        try:
            return array.cast(pa.timestamp(unit, array.type.tz) if types.is_timestamp(array.type) else coarse)
        except pa.ArrowInvalid:
            continue  # there are finer times
    return array


def to_floats(array: Any) -> Floats:
    """The cells of a column of numbers as float64; nulls become NaN."""
    if not isinstance(array, np.ndarray):
        array = plain(array)
        if not types.is_float64(array.type):
            array = array.cast(pa.float64(), safe=False)
        array = array.to_numpy(zero_copy_only=False)
    return np.asarray(array, dtype=np.float64)


def to_matrix(
    arrays: Sequence[Any], names: Sequence[str], table: str, rows: Any, missing: Missing, found: Counter[str]
) -> Floats:
    """Columns as a matrix, stored column by column; an error says where a cell is infinite or too large.

    Numbers that mean missing cells are counted in ``found``.
    """
    result = np.empty((len(rows), len(arrays)), order="F")
    for position, array in enumerate(arrays):
        result[:, position] = to_floats(array)
    blanked = missing.blank(result)
    if (np.abs(result) > LARGEST).any():
        row, column = np.argwhere(np.abs(result) > LARGEST)[0]
        infinite = np.isinf(result[row, column])
        what = "infinity" if infinite else f"{result[row, column]:g}"
        large = "" if infinite else ", which is too large"
        raise TableError(
            f"{table}: column {names[column]!r} contains {what} in row {rows[row]}{large}. "
            f"{take_as_missing(as_typed(result[row, column]))} Otherwise correct the cell."
        )
    found.update(blanked)
    return result
