"""Text files: how they are written (encoding, delimiter), and their whole rows, block by block, in UTF-8.

A line break inside a quoted cell does not end a row. A quote that is never closed, or that swallows lines which look like
rows, is an error: otherwise it would make rows disappear. On a pipe, such lines, and lines with bytes that are not in the
encoding, are marked. They are then skipped one by one and do not end the answers.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from culpa.io.tables.numbers import is_number
from culpa.io.tables.table import TableError

# stand for bytes that are not in the encoding, and before lines with an open quote; for private use, so no table has them
UNREADABLE, UNCLOSED = "\U000f0000", "\U000f0022"
_MOST_LINES = 1000  # of one cell
_LONGEST_LINE = 1 << 26
_NUMBER = re.compile(rb'\s*"?[+-]?\d[\d.,]*"?\s*')
WHITESPACE = " "  # as delimiter: any number of blanks and tabs
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


@dataclass
class Lines:
    """The whole rows of a text, read with ``read``; ``width`` is the number of their cells."""

    read: Callable[[int], bytes]
    encoding: str
    delimiter: str
    table: str
    width: int
    size: int = 1 << 22  # bytes read at a time
    whole: bool = True  # whether the text ends where reading ends; if not, an open cell at its end is left out
    live: bool = False  # whether lines that cannot be read are marked, instead of an error

    def __iter__(self) -> Iterator[bytes]:
        """Blocks of whole rows; the last one may lack its line break."""
        done, rest = 0, b""
        for piece in chain(self._decoded(), [None]):
            block, rest = rest + (piece or b""), b""
            if piece is not None:
                cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1
                block, rest = block[:cut], block[cut:]
            block = _without_marks(block)
            block = _cut_at_blanks(block) if self.delimiter == WHITESPACE else block
            block, open_cell = (block, b"") if _is_simple(block, self._mark) else self._closed(block, done)
            done += block.count(b"\n")
            if open_cell and piece is None and self.whole:
                if not self.live:
                    raise _unclosed(self.table, done)
                block, open_cell = block + b"".join(map(_marked, open_cell.splitlines(keepends=True))), b""
            rest = open_cell + rest
            if len(rest) > _LONGEST_LINE:
                raise TableError(f"{self.table}, line {done + 1}: the line is longer than {_LONGEST_LINE:,} bytes.")
            if not is_blank(block):
                yield block

    @property
    def _mark(self) -> bytes:
        return mark_of(self.delimiter)

    def _decoded(self) -> Iterator[bytes]:
        decoder = make_decoder(self.encoding, live=self.live)
        while True:
            chunk = self.read(self.size)
            try:
                piece = decoder(chunk)
            except UnicodeError:
                raise wrong_encoding(self.table, self.encoding) from None
            if piece:
                yield piece
            if not chunk:
                return

    def _closed(self, block: bytes, done: int) -> tuple[bytes, bytes]:
        """The block up to a cell that is still open, and the rest."""
        result: list[bytes] = []
        begun: list[bytes] = []  # lines of a cell that is open
        for number, line in enumerate(block.splitlines(keepends=True), done + 1):
            if begun and (len(begun) >= _MOST_LINES or self._is_row(line, begun[0])):
                if not self.live:
                    raise _unclosed(self.table, number - len(begun) - 1)
                result += map(_marked, begun)
                begun = []
            begun.append(line)
            if not _ends_open(line, self._mark, inside=len(begun) > 1):
                result += begun
                begun = []
        return b"".join(result), b"".join(begun)

    def _is_row(self, line: bytes, opened: bytes) -> bool:
        """Whether a line inside a quoted cell looks like a row of the table.

        It does not if it ends the cell, and the line on which the cell was ``opened`` does not look like a row either.
        """
        ends = re.match(rb'[^"]*(?:""[^"]*)*"(?:%s|\s*\Z)' % re.escape(self._mark), line)
        if ends and len(opened.split(self._mark)) != self.width:
            return False
        cells = line.strip().split(self._mark)
        return len(cells) == self.width > 1 and any(_NUMBER.fullmatch(cell) for cell in cells)


def mark_of(delimiter: str) -> bytes:
    """What separates cells in blocks."""
    return b"\t" if delimiter == WHITESPACE else delimiter.encode()


def is_blank(block: bytes) -> bool:
    """Whether a block has no row. Blanks are cells: of a single column, or between tabs."""
    return not block.strip(b"\r\n")


def rows_of(block: bytes, delimiter: str) -> Iterator[bytes]:
    """The rows of a block one by one, each with all its lines."""
    mark, begun = mark_of(delimiter), b""
    for line in block.splitlines(keepends=True):
        is_open = _ends_open(line, mark, inside=bool(begun))
        begun += line
        if not is_open:
            yield begun
            begun = b""


def _is_simple(block: bytes, mark: bytes) -> bool:
    """Whether every quote opens or closes a cell without line breaks, as the characters beside it show."""
    if b'"' not in block:
        return True
    text = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(text == ord('"'))
    if len(quotes) % 2 or len(mark) > 1:
        return False
    is_break = (text == ord("\n")) | (text == ord("\r"))
    is_end, (first, last) = is_break | (text == mark[0]), quotes.reshape(-1, 2).T
    opens, closes = is_end[first - 1] | (first == 0), is_end[np.minimum(last + 1, len(text) - 1)]
    closes |= last == len(text) - 1
    breaks = np.flatnonzero(is_break)
    return bool((opens & closes & (np.searchsorted(breaks, first) == np.searchsorted(breaks, last))).all())


def _marked(line: bytes) -> bytes:
    """A line in which a quote is opened and not closed, without its quotes."""
    return UNCLOSED.encode() + line.replace(b'"', b"")


def _without_marks(block: bytes) -> bytes:
    """Without byte-order marks at the beginning of lines: programs also write them in the middle of a file.

    Arrow would drop one at the beginning of a block only.
    """
    if block.isascii() or codecs.BOM_UTF8 not in block:
        return block
    return re.sub(rb"(\A|[\r\n])(?:%s)+" % codecs.BOM_UTF8, rb"\1", block)


def _ends_open(line: bytes, mark: bytes, *, inside: bool) -> bool:
    """Whether a line ends inside a quoted cell. A quote opens a cell only at its beginning."""
    return (b'"' in line or inside) and _whole_line(mark, inside).fullmatch(line) is None


@lru_cache
def _whole_line(mark: bytes, inside: bool) -> "re.Pattern[bytes]":
    """What a line is that ends outside of quoted cells."""
    rest = rb"(?:(?!%s).)*+" % re.escape(mark)  # of a cell, up to the next
    closed = rb'(?:[^"]|"")*+"' + rest
    cell = rb'(?:"%s|(?!")%s)' % (closed, rest)
    return re.compile((closed if inside else cell) + rb"(?:%s%s)*+" % (re.escape(mark), cell), re.DOTALL)


def _cut_at_blanks(block: bytes) -> bytes:
    """Blanks between cells as single tabs."""
    return re.sub(rb"[ \t]+(?=\r?\n|\r|\Z)|(?m:^[ \t]+)", b"", re.sub(rb"[ \t]+", b"\t", block))


def cut_line_at_blanks(line: str) -> list[str]:
    r"""The cells of a line between blanks and tabs; other white space, such as vertical tabs, belongs to cells.

    >>> cut_line_at_blanks(" a  b\x0bc\t1\n")
    ['a', 'b\x0bc', '1']
    """
    return re.split(r"[ \t]+", line.strip(" \t\r\n"))


codecs.register_error("culpa.unreadable", lambda error: (UNREADABLE, error.end))  # type: ignore[attr-defined]


def make_decoder(encoding: str, *, live: bool = False) -> Callable[[bytes], bytes]:
    """A function that turns pieces of a text into UTF-8; an empty piece ends it. ``live`` marks unreadable bytes."""
    errors = "culpa.unreadable" if live else "strict"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
        check = codecs.getincrementaldecoder("utf-8")(errors)

        def passed(chunk: bytes) -> bytes:
            if chunk and chunk.isascii() and not check.getstate()[0]:
                return chunk
            text = check.decode(chunk, final=not chunk)
            return text.encode() if live else chunk

        return passed
    return lambda chunk: decoder.decode(chunk, final=not chunk).encode()


def wrong_encoding(table: str, encoding: str) -> TableError:
    """The error of a text that is not encoded as it should be."""
    is_utf8 = encoding.lower().replace("_", "-").startswith("utf-8")
    other = "cp1252, which Windows programs write" if is_utf8 else "utf-8"
    return TableError(
        f"{table}: the text is not encoded in {encoding}. Specify its encoding, for example --encoding {other}."
    )


def _unclosed(table: str, lines_before: int) -> TableError:
    return TableError(
        f'{table}, line {lines_before + 1}: a quote (") is opened and not closed on its line. Remove or close the quote.'
    )


def decode(sample: bytes, encoding: str, table: str, *, complete: bool, live: bool = False) -> str:
    """The beginning of a file as text, cut after its last whole line unless it is the whole file."""
    decoder = make_decoder(encoding, live=live)
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
