"""How a CSV file is written: its encoding and its delimiter."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence

from culpa.io.tables.lines import WHITESPACE, cut_line_at_blanks, make_decoder, wrong_encoding
from culpa.io.tables.table import TableError

_COMPRESSED = {  # the first bytes, the program that decompresses them, and the ending of files that culpa reads
    b"\x1f\x8b\x08": ("gzip -d", ".gz"),
    b"\x28\xb5\x2f\xfd": ("zstd -d", ".zst"),
    b"\x04\x22\x4d\x18": ("lz4 -d", ".lz4"),
    b"\xfd7zXZ\0": ("xz -d", ""),
    **{b"BZh%d1AY&SY" % level: ("bzip2 -d", ".bz2") for level in range(1, 10)},
}
_MARKS = {  # at the beginning of a text, by encoding; the first that fits counts
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
DELIMITERS = (",", ";", "\t", "|")


def decode(sample: bytes, encoding: str, table: str, *, complete: bool) -> str:
    """The beginning of a file as text, cut after its last whole line unless it is the whole file."""
    decoder = make_decoder(encoding)
    _refuse_other_bytes(sample, encoding, table)
    try:
        text = (decoder(sample) + (decoder(b"") if complete else b"")).decode(
            "utf-8", "strict" if complete else "ignore"
        )
    except UnicodeError:
        raise wrong_encoding(table, encoding) from None
    text = re.sub(r"(\A|[\r\n])\ufeff+", r"\1", text)  # as in `Lines`
    if not complete and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    return text


def _refuse_other_bytes(sample: bytes, encoding: str, table: str) -> None:
    """Say what bytes are that begin like compressed data, or like a text in another encoding with two bytes or more."""
    for start, (program, ending) in _COMPRESSED.items():
        if sample.startswith(start):
            advice = f"or name the file like table.csv{ending}" if ending else "and pass the result"
            raise TableError(
                f"{table} is compressed. Decompress it with {program}"
                f"{', for example in a pipe before culpa' if table == 'standard input' else f', {advice}'}."
            )
    if not encoding.lower().replace("_", "-").startswith("utf-8"):
        return
    zeros = sample[:2000].count(b"\0")
    found = next((name for mark, name in _MARKS.items() if sample.startswith(mark)), None)
    if found is None and zeros > len(sample[:2000]) / 4:
        found = "utf-16-be" if sample.startswith(b"\0") else "utf-16-le"
    if found is not None:
        raise TableError(f"{table}: the text is not encoded in {encoding}, but in {found}. Add --encoding {found}.")


def lines_of(text: str) -> list[str]:
    r"""The lines of a text with their ends; unlike `str.splitlines`, vertical tabs and form feeds end no line.

    >>> lines_of("a\x0bb\r\nc\rd")
    ['a\x0bb\r\n', 'c\r', 'd']
    """
    return list(io.StringIO(text, newline=""))


def detect_delimiter(text: str) -> str:
    """The delimiter that cuts the most lines into the same number of cells.

    >>> detect_delimiter("a;b\\n1,5;2,5\\n")
    ';'
    """
    lines = [line for line in lines_of(text)[:200] if line.strip()]
    best, best_rank = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        try:
            counts = [len(cells) for cells in csv.reader(lines, delimiter=delimiter)]
        except csv.Error:
            continue
        width, lines_of_width = Counter(counts).most_common(1)[0] if counts else (1, 0)
        first = next((count for count in counts if count > 1), 1)  # titles above the header have one cell
        if width < 2 or first != width:
            continue
        rank = (lines_of_width / len(lines), width)
        if rank > best_rank:
            best, best_rank = delimiter, rank
    return best if best_rank[1] or not _is_blank_separated(lines) else WHITESPACE


def _is_blank_separated(lines: Sequence[str]) -> bool:
    """Whether lines have the same number of texts between blanks, and numbers among them."""
    rows = [cut_line_at_blanks(line) for line in lines]
    widths = {len(row) for row in rows}
    return len(widths) == 1 and max(widths) > 1 and any(is_number(cell, ".") for cell in rows[-1])


def is_number(cell: str, decimal: str) -> bool:
    """Whether a cell reads as a number.

    >>> [is_number(cell, ",") for cell in ("1,5", "-2e3", "1.5", "Bad Input")]
    [True, True, False, False]
    """
    other = "_" in cell or not cell.strip().isascii()  # float() accepts more than files mean, such as '１２'
    if other or (decimal != "." and "." in cell):
        return False
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return False
    return True
