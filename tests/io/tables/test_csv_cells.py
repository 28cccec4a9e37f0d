"""Single lines of a pipe: read as pyarrow reads them, or not at all."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from culpa.io.tables.csv_cells import CsvBlock
from culpa.io.tables.numbers import plain_numbers


def by_pyarrow(line, width):
    names = [str(i) for i in range(width)]
    options = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()))
    table = pa_csv.read_csv(
        pa.BufferReader(line), read_options=pa_csv.ReadOptions(column_names=names), convert_options=options
    )
    return np.array([[table.column(name)[0].as_py() for name in names]])


def test_numbers_are_those_of_the_parser():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=200) * 10.0 ** rng.integers(-300, 90, size=200)
    texts = [repr(float(number)) for number in numbers] + ["0", "-0", "007", "1e5", "1E-5", "12.50", "5e-324"]
    line = ",".join(texts).encode() + b"\r\n"
    cells = CsvBlock(line, ",", len(texts)).plain()
    np.testing.assert_array_equal(plain_numbers(cells), by_pyarrow(line, len(texts)))
    commas = [cell.replace(b".", b",") for cell in cells]
    np.testing.assert_array_equal(plain_numbers(commas, ","), plain_numbers(cells))
    assert plain_numbers(cells, ",") is None


@pytest.mark.parametrize("line", [b"1,2,3\n", b"1\n", b'1,"2"\n', b"1,2\n3,4\n", b"1,2\r3,4\n", b"1,a\x0bb\n", b""])
def test_lines_that_need_the_parser(line):
    assert CsvBlock(line, ",", 2).plain() is None


@pytest.mark.parametrize(
    "cell", [b"", b"nan", b"inf", b"1e101", b"-1e400", b"1_000", b"+1", b" 1", b".5", b"1.", b"0x1", b"#N/A"]
)
def test_cells_that_need_the_parser(cell):
    assert plain_numbers([b"1", cell]) is None
