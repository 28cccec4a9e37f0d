"""Compiled kernels on disk.

numba's own cache (``cache=True``) does the work. Two things that it does not do are added here, by documented means:

- numba looks only at the file that defines a function to see whether it has changed, not at the files of the functions
  that it calls. So every kernel gets a cache folder of its own, whose name is a fingerprint of all the files behind it. A
  kernel that has changed in any of them looks into another folder.
- Small jobs want to know whether a kernel can be read from disk, without importing numba to find out. So a marker
  file is left in the folder once numba has filled it.

Folders are below ``NUMBA_CACHE_DIR`` if that is set, else in ``__pycache__`` beside this file, else in the user's cache
folder. They can be deleted at any time. If none can be used, because the disk is full, files are damaged or folders are
read-only, kernels are compiled without a cache, and a warning says so once.
"""

import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Self

from culpa._core.locks import Lock
from culpa._core.warning import warn

_HERE = Path(__file__).parent
_MARKER = "compiled"
_setting = Lock()
_warned = threading.Event()


class CompiledOnDisk(NamedTuple):
    """The cache folder of one kernel. ``folders`` are the places where it may be, the preferred one first."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], calls: tuple[Callable[..., Any], ...]) -> Self:
        """Where a kernel is kept that calls these functions."""
        name = f"{function.__name__}-{_fingerprint(function, calls)}"
        return cls(tuple(root / name for root in _roots()))

    def is_marked(self) -> bool:
        """Whether numba can read the kernel instead of compiling it."""
        return any((folder / _MARKER).exists() and _is_writable(folder) for folder in self.folders)

    def create(self) -> Path | None:
        """The first folder that can be written to, or ``None`` if there is none."""
        for folder in self.folders:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError:
                continue
            if _is_writable(folder):
                return folder
        return None

    def mark(self) -> None:
        """Note that numba has filled the folder."""
        folder = self.create()
        if folder is not None:
            with suppress(OSError):  # if the disk is full, the next process compiles again
                (folder / _MARKER).touch()

    def discard(self) -> None:
        """Remove what is damaged or incomplete, so that the next process starts anew."""
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def warn_uncached(reason: str) -> None:
    """Say once per process that kernels are compiled without a cache."""
    if not _warned.is_set():
        _warned.set()
        warn(
            f"compiled kernels are not kept on disk: {reason}. Every process compiles them again, which takes seconds. "
            "Set NUMBA_CACHE_DIR to a folder that culpa can write to.",
        )


@contextmanager
def folder_for_numba(folder: Path) -> Iterator[None]:
    """numba keeps functions that are decorated meanwhile in this folder; ``NUMBA_CACHE_DIR`` in numba's documentation."""
    from numba import config

    settings: Any = config  # a module whose attributes are set when it is loaded
    with _setting:
        before = settings.CACHE_DIR
        settings.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            settings.CACHE_DIR = before


def _fingerprint(function: Callable[..., Any], calls: tuple[Callable[..., Any], ...]) -> str:
    """Changes with every file behind a kernel, with the functions it calls, and with Python and numba.

    Times of files count too, because numba compiles again when they change.
    """
    names = [called.__qualname__ for called in calls]
    files = {Path(called.__code__.co_filename) for called in (function, *calls)}
    files |= {_HERE / "vectors.py", _HERE / "numba_vectors.py"}
    digest = hashlib.sha256(repr((sys.version, version("numba"), names)).encode())
    for file in sorted(files):
        if file.exists():  # not so for a function typed into a console
            digest.update(repr((str(file), file.stat().st_mtime_ns)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    """numba uses no folder that it cannot write to, not even for reading."""
    return os.access(folder, os.W_OK | os.X_OK)


def _roots() -> Iterator[Path]:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield Path(chosen) / "culpa"
        return
    yield _HERE / "__pycache__" / "kernels"
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        yield (Path(cache) if cache else Path.home() / ".cache") / "culpa" / "kernels"
    except RuntimeError:  # the user has no home folder
        return
