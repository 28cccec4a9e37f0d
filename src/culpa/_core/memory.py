"""How much memory a step needs, and how much there is: large steps say so before they take it, or are refused.

What is available is read from ``/proc/meminfo`` and the limits of control groups (containers). On systems without these
files, nothing is refused.
"""

from pathlib import Path

from culpa._core.warning import warn

_LITTLE = 1 << 26  # bytes that nobody needs to ask for
_LARGE = 1 << 31  # bytes from which on the need is stated in a warning
_MEMINFO = Path("/proc/meminfo")
_CGROUPS = (  # limit, use and its parts: of control groups, version 2, and of version 1
    tuple(Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory.current", "memory.stat")),
    tuple(
        Path("/sys/fs/cgroup/memory", name)
        for name in ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
    ),
)


class NotEnoughMemoryError(ValueError, MemoryError):
    """A step that needs more memory than there is, refused before it began."""


class MemoryWarning(UserWarning):
    """A step that needs much memory."""


def claim(n_bytes: float, what: str, remedy: str) -> None:
    """State that ``what`` needs so much memory if that is much, and refuse it if there is less."""
    if n_bytes < _LITTLE:
        return
    left = available()
    if left is not None and n_bytes > left:
        raise NotEnoughMemoryError(
            f"{what} needs about {in_words(n_bytes)} of memory, and {in_words(left)} are free. {remedy}"
        )
    if n_bytes >= _LARGE:
        warn(f"{what} needs about {in_words(n_bytes)} of memory.", MemoryWarning)


def claim_fit(n_rows: float, n_columns: int, *, thin: bool) -> None:
    """`claim` what a fit needs: ``thin`` if it makes no square matrix. The numbers of copies are measured."""
    table, square = n_rows * n_columns, n_columns**2
    need = 28.0 * table if thin else 12.0 * table + 25.0 * square
    remedy = "Use fewer columns or rows." if thin else "Use fewer columns."
    claim(8 * need, f"fitting {n_rows:,.0f} rows x {n_columns:,} columns", remedy)


def claim_moments(n_columns: int) -> None:
    """`claim` what a fit needs that has the moments of the rows, but not the rows."""
    claim(8 * 25.0 * n_columns**2, f"fitting {n_columns:,} columns", "Use fewer columns.")


def claim_explanation(n_rows: int, n_columns: int, bytes_per_row: float, n_together: int) -> None:
    """`claim` what explaining rows needs: the answer, and the work on some rows at a time."""
    what = f"explaining {n_rows:,} rows x {n_columns:,} columns"
    work = 8 * 9.0 * min(n_rows, n_together) * n_columns
    claim(n_rows * bytes_per_row + work, what, "Explain fewer rows at a time.")


def claim_sample(n_samples: int, n_columns: int) -> None:
    """`claim` what samples of many players need."""
    what = f"sampling {n_samples:,} times {n_columns:,} players"
    claim(8.0 * 3 * n_samples * n_columns, what, "Raise the tolerance, or put columns into groups.")


def claim_square(n_features: int, what: str, copies: int = 2) -> None:
    """`claim` what a matrix with a number for every two features needs, with the copies on the way to it."""
    claim(8.0 * copies * n_features**2, f"{what} of {n_features:,} features", "Use fewer columns.")


def available() -> float | None:
    """Bytes that can be taken without swapping, as far as the system tells."""
    free = [bytes for bytes in (_of_machine(), *(_of_group(*files) for files in _CGROUPS)) if bytes is not None]
    return min(free, default=None)


def in_words(n_bytes: float) -> str:
    """A number of bytes.

    >>> in_words(3.2e9), in_words(45_000_000)
    ('3.2 GB', '45 MB')
    """
    return f"{n_bytes / 1e9:,.{1 if n_bytes < 1e11 else 0}f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def _of_machine() -> float | None:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _of_group(limit: Path, use: Path, parts: Path) -> float | None:
    try:
        left = float(limit.read_text()) - float(use.read_text())  # "max" is no number: there is no limit
    except (OSError, ValueError):
        return None
    return left + _file_cache(parts)


def _file_cache(parts: Path) -> float:
    """Bytes of files that were read, which the system gives up when memory is needed."""
    try:
        found = dict(line.split() for line in parts.read_text().splitlines())
        return float(found.get("total_inactive_file", found.get("inactive_file", 0)))
    except (OSError, ValueError):
        return 0.0
