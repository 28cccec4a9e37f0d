"""Files that are being written, so that a process that has to end at once can remove them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_unfinished: set[Path] = set()


@contextmanager
def removed_at_end(part: Path) -> Iterator[None]:
    """Remove a temporary file when the block ends, or when `remove_unfinished` is called before."""
    _unfinished.add(part)
    try:
        yield
    finally:
        part.unlink(missing_ok=True)
        _unfinished.discard(part)


def remove_unfinished() -> None:
    """Remove all temporary files that are being written."""
    for part in list(_unfinished):
        with suppress(OSError):
            part.unlink()
