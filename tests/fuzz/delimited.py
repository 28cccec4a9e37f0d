"""CSV in the dialects of the world, and CSV that went through an editor, a script or a broken export.

The witness reads with Python's csv module. It knows the dialect, but nothing else that culpa knows.
"""

import csv
import gzip
import io
import re
from dataclasses import dataclass

import numpy as np

from fuzz.case import MISSING, NAMES, NULLS, Case, Reading, Unreadable

MARK = "\ufeff"
DELIMITERS = ",;\t|"
NOTES = ("x", "", "two words", 'say "no"', "a,b;c", "line\nbreak", "cr\r\nlf", "'", "ä°C", '"', "=1+1", "12,5", "#")
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16")


class Unknown(Exception):
    """The witness has no opinion."""


@dataclass
class Dialect:
    delimiter: str
    decimal: str
    thousands: str
    newline: str
    quoting: int
    encoding: str
    packed: bool


def draw(rng):
    dialect = _dialect(rng)
    header, cells = _cells(rng, dialect)
    text = _write(header, cells, dialect, rng)
    tampered = rng.random() < 0.4
    for _ in range(int(rng.choice([1, 1, 2])) if tampered else 0):
        text = _tamper(text, dialect, rng)
    content = text.encode(dialect.encoding, "replace")
    ids = "id" in header
    case = Case("t.csv", content, lambda: None, options=_options(dialect, rng), ids=ids)
    case.witness = lambda: _read(case.content, dialect, header)
    case.witness_of_damage = case.witness if not dialect.packed else lambda: None
    if dialect.packed:
        case.name, case.content = "t.csv.gz", gzip.compress(content, mtime=0)
        case.witness = lambda: _read(content, dialect, header)
    case.may_be_piped = not tampered and not dialect.packed
    return case


def _dialect(rng):
    delimiter = DELIMITERS[rng.integers(4)]
    decimal = "." if delimiter == "," else ".,"[rng.integers(2)]
    other = "." if decimal == "," else ","
    thousands = other if rng.random() < 0.1 and other != delimiter else ""
    return Dialect(
        delimiter,
        decimal,
        thousands,
        ["\n", "\n", "\r\n"][rng.integers(3)],
        [csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC][rng.integers(4)],
        ENCODINGS[rng.integers(len(ENCODINGS))],
        bool(rng.random() < 0.05),
    )


def _options(dialect, rng):
    options = [] if dialect.encoding in ("utf-8", "utf-8-sig") else ["--encoding", dialect.encoding]
    if rng.random() < 0.5:
        options += ["--delimiter", dialect.delimiter, "--decimal", dialect.decimal]
        options += ["--thousands", dialect.thousands] if dialect.thousands else []
    return options


def _cells(rng, dialect):
    """Names, and texts of all cells."""
    n = int(rng.integers(1, 30))
    extra = [name for name in ("id", "note", "when") if rng.random() < 0.35]
    header = rng.permutation([*NAMES, *extra]).tolist()
    digits, size, gaps = int(rng.integers(0, 7)), 10.0 ** rng.integers(-1, 6), rng.choice([0, 0, 0.1])
    rows = []
    for i in range(n):
        numbers = np.round(rng.normal(size=3) * size, digits)
        texts = {name: _spell(x, digits, dialect, rng) for name, x in zip(NAMES, numbers, strict=True)}
        for name in NAMES:
            if rng.random() < gaps:
                texts[name] = MISSING[rng.integers(len(MISSING))]
        note = NOTES[rng.integers(len(NOTES))] if n > 9 else "x"  # a single "12,5" would make it a column of numbers
        texts |= {"id": f"r{i}", "note": note, "when": f"2024-01-01 00:{i % 60:02d}"}
        rows.append([texts[name] for name in header])
    return header, rows


def _spell(x, digits, dialect, rng):
    if rng.random() < 0.05:
        text = f"{x:.9e}"
    elif dialect.thousands:
        text = f"{x:,.{digits}f}".replace(",", "T").replace(".", dialect.decimal).replace("T", dialect.thousands)
        return text
    else:
        text = f"{x:.{digits}f}"
    return text.replace(".", dialect.decimal)


def _write(header, rows, dialect, rng):
    sink = io.StringIO()
    if rng.random() < 0.1:
        sink.write("Export of line 3" + dialect.newline)
    writer = csv.writer(
        sink, delimiter=dialect.delimiter, lineterminator=dialect.newline, quoting=dialect.quoting, strict=True
    )
    writer.writerow(header)
    for row in rows:
        writer.writerow(row)
        if rng.random() < 0.03:
            sink.write(dialect.newline)
    text = sink.getvalue()
    return text.removesuffix(dialect.newline) if rng.random() < 0.2 else text


def _tamper(text, dialect, rng):
    lines = text.split("\n")
    at, line = int(rng.integers(len(text) + 1)), int(rng.integers(len(lines)))
    where = text.find(dialect.delimiter, at)
    how = int(rng.integers(12))
    if how == 0:
        return text[:at] + '"' + text[at:]
    if how == 1:
        return text[:at] + text[at + 1 :]
    if how == 2:
        odd = ["\x00", "\x0b", MARK, ";", ",", "'", '"', "\r", "\n", " ", "\x1b", "\x85", "\u2028", "-", "e", "5"]
        return text[:at] + odd[rng.integers(len(odd))] + text[at:]
    if how == 3 and where >= 0:
        return text[:where] + text[where + 1 :]
    if how == 4 and where >= 0:
        return text[:where] + dialect.delimiter + text[where:]
    if how == 5:
        return text[:at]
    if how == 6:
        return "\n".join([*lines[: line + 1], lines[0], *lines[line + 1 :]])
    if how == 7:
        return "\n".join([*lines[:line], *lines[line + 1 :]])
    if how == 8:
        return MARK * int(rng.integers(1, 3)) + text
    if how == 9 and where >= 0:  # a cell that begins with a quote
        return text[: where + 1] + '"' + text[where + 1 :]
    if how == 10:
        return "\n".join(
            [*lines[:line], lines[line].replace(dialect.delimiter, ";,"[rng.integers(2)]), *lines[line + 1 :]]
        )
    return "\n".join([*lines[:line], "  ", *lines[line:]])


def _read(content, dialect, header):
    """The rows of a file, or `Unreadable` where nobody can know what they are; ``None`` if culpa may know better."""
    try:
        text = content.decode("utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding)
    except UnicodeError:
        raise Unreadable("the encoding is wrong") from None
    text = re.sub(rf"(\A|[\r\n]){MARK}+", r"\1", text)  # the manual says that lines may begin with them
    try:
        return _read_text(text, dialect, header)
    except Unreadable:
        lines = [re.split(r"[ \t]+", line.strip(" \t")) for line in re.split(r"\r\n|\r|\n", text) if line.strip()]
        aligned = "\t" in text and '"' not in text and len(set(map(len, lines))) == 1 and set(NAMES) <= set(lines[0])
        if not aligned:
            raise
    return _reading(lines[0], lines[1:], dialect)  # several tabs in a row line up cells. culpa says so


def _read_text(text, dialect, header):
    # damage may have replaced all delimiters of a short file
    for delimiter in dict.fromkeys([dialect.delimiter, *DELIMITERS]):
        records, heads = _records(text, delimiter, header)
        start = next((i for i, head in enumerate(heads) if set(NAMES) <= set(head)), None)
        if start is not None:
            break
    else:
        raise Unreadable("no header")
    names, rows = heads[start], records[start + 1 :]
    while not names[-1]:  # delimiters after the last name
        names = names[:-1]
    return _reading(names, rows, dialect)


def _reading(names, rows, dialect):
    columns = [names.index(name) for name in NAMES]
    while rows and [" ".join(rows[0][j].split()) for j in columns if j < len(rows[0])] == list(NAMES):
        rows = rows[1:]  # header rows that say the same
    X, ids = [], []
    for record in rows:
        while len(record) > len(names) and not record[-1].strip():  # delimiters after the last cell
            record = record[:-1]
        if len(record) != len(names):
            raise Unreadable(f"a row of {len(record)} cells")
        try:
            X.append([_number(record[names.index(name)], dialect) for name in NAMES])
        except Unknown:
            return None
        ids.append(record[names.index("id")] if "id" in names else None)
    return Reading(np.array(X, dtype=float).reshape(-1, 3), ids if "id" in names else None)


def _records(text, delimiter, header):
    """All rows that are not blank, and what they would say as headers."""
    try:
        records = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise Unreadable(str(error)) from None
    records = [record for record in records if any(cell.strip() for cell in record) or len(record) == len(header) > 1]
    return records, [[" ".join(cell.split()) for cell in record] for record in records]  # names have no line breaks


def _number(cell, dialect):
    if cell in NULLS or not cell.strip():
        return np.nan
    text = cell.strip(MARK + " \t\r\n")
    if dialect.thousands:
        if re.search(rf"{re.escape(dialect.thousands)}(?!\d{{3}}(\D|$))", text):
            raise Unknown  # a damaged number, in which the separator looks like a decimal mark
        text = text.replace(dialect.thousands, "")
    # culpa says so if it reads apostrophes, blanks or commas as separators, and asks if large numbers have none
    text = re.sub(r"(?<=\d)[' ](?=\d{3}(\D|$))", "", text)
    if dialect.decimal == "." and re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", text):
        text = text.replace(",", "")
    if dialect.decimal != "." and "." in text:
        raise Unreadable(f"not a number: {cell!r}")
    try:
        return float(text.replace(dialect.decimal, "."))
    except ValueError:
        raise Unreadable(f"not a number: {cell!r}") from None
