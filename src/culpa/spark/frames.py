"""Spark DataFrames as culpa sees them: which columns are numbers, and what Arrow types are in Spark."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from culpa._core.optional import require
from culpa.io.tables.columns import find_all

DataFrame = Any  # of classic Spark or of Spark Connect, which are different classes


def require_pyspark() -> None:
    """Raise an error that says how to install PySpark."""
    require("pyspark", "culpa.spark", "spark")


def feature_names(df: DataFrame, columns: Sequence[str] | None, *others: str | None) -> tuple[str, ...]:
    """The columns to learn from: those asked for, or all columns of numbers and flags except for ``others``."""
    if columns is None:
        return tuple(f.name for f in df.schema if _is_number(f.dataType) and f.name not in others)
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    check_features(df, names)
    return names


def check_features(df: DataFrame, names: Sequence[str]) -> None:
    """Refuse columns that the DataFrame does not have, or that hold no numbers, before anything runs."""
    find_all(names, df.columns, "the DataFrame")
    for name in names:
        kind = df.schema[name].dataType
        if not _is_number(kind):
            raise ValueError(
                f"column {name!r} contains {kind.simpleString()}, not numbers. Leave it out with columns=, or cast it."
            )


def _is_number(kind: Any) -> bool:
    """Whether culpa reads cells of this type as numbers. Flags are 0 and 1, as in every other table."""
    from pyspark.sql.types import BooleanType, NumericType

    return isinstance(kind, NumericType | BooleanType)


def key_names(df: DataFrame, by: str | Sequence[str] | None) -> list[str]:
    """The columns that tell machines apart."""
    keys = [] if by is None else [by] if isinstance(by, str) else list(by)
    find_all(keys, df.columns, "the DataFrame")
    return keys


def stand_in_schema(df: DataFrame, features: Iterable[str]) -> pa.Schema:
    """Arrow schema with the columns of a DataFrame, in which only features have a type that matters."""
    numbers = set(features)
    return pa.schema({name: pa.float64() if name in numbers else pa.string() for name in df.columns})


def column(name: str) -> Any:
    """A column of any name, such as FI101.PV, in which Spark would take the dot for a field of a column FI101."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def map_arrow(df: DataFrame, task: Callable[[Iterable[Any]], Iterable[Any]], struct: Any) -> DataFrame:
    """``df.mapInArrow(task, struct)`` for columns of any name."""
    positions = [f"c{k}" for k in range(len(df.columns))]
    return df.toDF(*positions).mapInArrow(partial(_with_names, task, tuple(df.columns)), struct)


def _with_names(
    task: Callable[[Iterable[Any]], Iterable[Any]], names: tuple[str, ...], batches: Iterable[Any]
) -> Iterable[Any]:
    return task(batch.rename_columns(list(names)) for batch in batches)


def struct_of(kept: Iterable[Any], added: Iterable[pa.Field]) -> Any:
    """Spark's schema of an answer: fields of the DataFrame, and new ones."""
    from pyspark.sql.types import StructField, StructType

    return StructType([*kept, *(StructField(field.name, _spark_type(field.type)) for field in added)])


def _spark_type(kind: pa.DataType) -> Any:
    from pyspark.sql import types

    if pa.types.is_list(kind):
        return types.ArrayType(_spark_type(kind.value_type), containsNull=True)
    known = {
        pa.float64(): types.DoubleType,
        pa.int64(): types.LongType,
        pa.int32(): types.IntegerType,
        pa.bool_(): types.BooleanType,
        pa.string(): types.StringType,
        pa.binary(): types.BinaryType,
    }
    return known[kind]()


def with_reason(action: Any) -> Any:
    """Run a job; if culpa refused rows in a process, raise its sentence and not the traces of two languages."""
    from pyspark.errors import PythonException

    try:
        return action()
    except PythonException as error:
        lines = [line for line in str(error).splitlines() if line.startswith(("ValueError: ", "culpa.", "TypeError: "))]
        if not lines:
            raise
        raise ValueError(lines[-1].partition(": ")[2]) from None
