"""Files that appear under their name only when they are complete.

A file is written under a random hidden name that ends in ``.part``, and renamed at the end. Creation is exclusive, so
two writers never share a part, and a planted link is never followed. Whoever ends a process at once removes its parts.
What a killed process has left is removed by the next call for the same path, after a day.

A file that replaces another keeps its permissions, and nobody else can read it before that. If the output is a link, its
target is replaced, and the part lies next to the target.
"""

import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_LONGEST_NAME = 150  # bytes of the name of the file in the name of its part; names have at most 255
_STALE = 86_400.0  # seconds after which nobody writes to a part any more
_unfinished: set[Path] = set()  # parts that are being written


@contextmanager
def write_whole(path: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name when the block ends well, and vanishes otherwise.

    Replacing an existing file needs ``force``.
    """
    check_free(path, force=force)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # a device or a named pipe cannot be replaced
        with path.open("wb") as device:
            yield device
        return
    if path.is_symlink():
        if path.absolute().is_relative_to("/dev") or path.absolute().is_relative_to("/proc"):
            with path.open("ab") as stream:  # a file that the shell has opened, as /dev/stdout, perhaps to append to it
                yield stream
            return
        path = Path(os.path.realpath(path))
    start = f".{path.name.encode(errors='surrogateescape')[:_LONGEST_NAME].decode(errors='ignore')}."
    _remove_stale(path.parent, start)
    part = path.with_name(f"{start}{secrets.token_hex(8)}.part")
    # noted before it exists, because Ctrl-C may come between any two instructions
    with _removed_at_end(part), open(part, "xb", opener=_open_for_owner if path.exists() else None) as file:
        yield file
        file.flush()
        if force:
            _keep_permissions(file, path)
        os.fsync(file.fileno())
        file.close()  # Windows does not rename open files
        _give_name(part, path, force=force)


@contextmanager
def _removed_at_end(part: Path) -> Iterator[None]:
    _unfinished.add(part)
    try:
        yield
    finally:
        part.unlink(missing_ok=True)
        _unfinished.discard(part)


def remove_unfinished() -> None:
    """Remove all parts that are being written, because the process has to end at once."""
    for part in list(_unfinished):
        with suppress(OSError):
            part.unlink()


def _remove_stale(folder: Path, start: str) -> None:
    """Remove what killed writers have left."""
    for name in os.listdir(folder):
        if name.startswith(start) and re.fullmatch(r"[0-9a-f]{16}\.part", name[len(start) :]):
            with suppress(OSError):  # it belongs to somebody else, or has gone in the meantime
                found = os.lstat(folder / name)
                if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > _STALE:
                    os.unlink(folder / name)


def check_output(path: Path | None, inputs: Iterable[Path | None], *, force: bool = False) -> None:
    """`check_free`, and an error if the output is one of the inputs, under whatever name: not even ``force`` replaces it.

    ``None`` is standard output or standard input, which may be files that the shell has opened.
    """
    target = _identity(sys.stdout if path is None else path)
    for each in inputs:
        source = _identity(sys.stdin if each is None else each)
        if target is not None and source is not None and os.path.samestat(target, source):
            where = "standard output" if path is None else str(path)
            what = "standard input" if each is None else str(each)
            same = "one of the inputs" if where == what else f"the same file as {what}, an input"
            raise ValueError(f"{where} is {same}. Choose another output.")
    if path is not None:
        check_free(path, force=force)


def _identity(file: Any) -> os.stat_result | None:
    """Which file or folder a path or a stream is; ``None`` for those that do not exist, and for pipes and devices."""
    with suppress(OSError, ValueError, AttributeError):  # streams may be closed, or no files
        found = os.stat(file) if isinstance(file, Path) else os.fstat(file.fileno())
        return found if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) else None
    return None


def check_free(path: Path, *, force: bool = False) -> None:
    """Raise an error before any work is done if the file cannot be written, or exists and may not be replaced."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file.")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {str(path.parent)!r} does not exist.")
    if path.is_symlink() and not path.exists():
        raise ValueError(f"{path} is a link to a file that does not exist. Remove the link, or choose another name.")
    if path.is_file() and not force:
        raise _taken(path)


def _open_for_owner(part: str, flags: int) -> int:
    """Create a part that only its owner can read, until it has the permissions of the file that it replaces."""
    return os.open(part, flags, 0o600)


def _keep_permissions(file: IO[bytes], path: Path) -> None:
    """Give a part the owner, the group and the permissions of the file that it replaces, as far as the system allows it."""
    if not hasattr(os, "fchmod") or not path.exists():
        return
    old, new = path.stat(), os.fstat(file.fileno())
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        with suppress(OSError):  # only root may give files away
            if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
                os.fchown(file.fileno(), owner, group)
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if os.fstat(file.fileno()).st_gid != old.st_gid:  # another group gets what everybody has
        mode = mode & ~0o070 | (mode & 0o007) << 3
    with suppress(OSError):  # a file system without permissions
        os.fchmod(file.fileno(), mode)


def _give_name(part: Path, path: Path, *, force: bool) -> None:
    """Rename a finished part. Without ``force``, a file that appeared in the meantime is not replaced."""
    if force:
        part.replace(path)
        return
    try:
        os.link(part, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # a file system without hard links
        check_free(path)
        part.replace(path)


def _taken(path: Path) -> ValueError:
    return ValueError(f"{path} already exists. Choose another name, or replace it with --force.")
