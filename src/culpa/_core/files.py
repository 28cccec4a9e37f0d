"""Files that appear under their name only when they are complete."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from culpa._core.unfinished import removed_at_end


@contextmanager
def write_whole(path: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name when the block ends well, and vanishes otherwise.

    Replacing an existing file needs ``force``. A killed process leaves at most a hidden file that ends in ``.part``.
    """
    check_free(path, force=force)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # a device or a named pipe cannot be replaced
        with path.open("wb") as file:
            yield file
        return
    part = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    with removed_at_end(part):
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)


def check_free(path: Path, *, force: bool = False) -> None:
    """Raise an error before any work is done if the file cannot be written, or exists and may not be replaced."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file.")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {str(path.parent)!r} does not exist.")
    if path.is_file() and not force:
        raise ValueError(f"{path} already exists. Choose another name, or replace it with --force.")
