"""Files that appear under their name only when they are complete.

A file is written under a random hidden name that ends in ``.part``, and renamed at the end. Creation is exclusive, so
two writers never share a part, and a planted link is never followed. The writer holds a lock on its part. The system
releases the lock when the process ends, however it ends, so a part without a lock belongs to nobody and can be removed.

A file that replaces another keeps its permissions, and nobody else can read it before that. If the output is a link, its
target is replaced, and the part lies next to the target.
"""

import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from culpa._core.unfinished import removed_at_end

try:
    import fcntl
except ImportError:  # Windows; parts of killed processes stay there
    fcntl = None  # type: ignore[assignment]

_RANDOM = 8  # bytes in the name of a part
_LONGEST_NAME = 150  # bytes of the name of the file in the name of its part; names have at most 255


@contextmanager
def write_whole(path: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name when the block ends well, and vanishes otherwise.

    Replacing an existing file needs ``force``. A killed process leaves at most a hidden file that ends in ``.part``,
    which the next call for the same path removes.
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
    remove_stale_parts(path)
    with _new_part(path) as (part, file):
        yield file
        file.flush()
        if force:
            _keep_permissions(file, path)
        os.fsync(file.fileno())
        if fcntl is None:
            file.close()  # Windows does not rename open files; elsewhere, closing would give up the lock
        _give_name(part, path, force=force)


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


def remove_stale_parts(path: Path) -> None:
    """Remove what killed writers of ``path`` have left. Parts whose writers live are locked, and stay."""
    if fcntl is None:
        return
    start, end = _affixes(path)
    for name in os.listdir(path.parent):
        middle = name[len(start) : -len(end)]
        if name.startswith(start) and name.endswith(end) and len(middle) == 2 * _RANDOM and middle.isalnum():
            with suppress(OSError):  # it belongs to somebody else, or has gone in the meantime
                _remove_if_stale(path.with_name(name))


def _affixes(path: Path) -> tuple[str, str]:
    shortened = path.name.encode(errors="surrogateescape")[:_LONGEST_NAME].decode(errors="ignore")
    return f".{shortened}.", ".part"


@contextmanager
def _new_part(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A new hidden file next to ``path``, open and locked."""
    start, end = _affixes(path)
    opener = _open_for_owner if path.exists() else None
    while True:
        part = path.with_name(start + secrets.token_hex(_RANDOM) + end)
        # noted before it exists, because Ctrl-C may come between any two instructions
        with removed_at_end(part), open(part, "xb", opener=opener) as file:
            if _is_locked_in_time(part, file):
                yield part, file
                return


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


def _is_locked_in_time(part: Path, file: IO[bytes]) -> bool:
    """Lock a new part. Another process may have removed it before the lock was there."""
    if fcntl is None:
        return True
    with suppress(OSError):  # a file system without locks, on which nobody removes parts
        fcntl.flock(file, fcntl.LOCK_EX)
    return part.exists()


def _remove_if_stale(part: Path) -> None:
    descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error if its writer lives
            part.unlink()
    finally:
        os.close(descriptor)


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
