"""The container of a model file: safetensors with a JSON header and a checksum over header and arrays.

``FORMAT`` is the version of the format. It increases when files change in a way that older versions of culpa would
misread. docs/model-files.md states what is promised about it.
"""

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.version import __version__

FORMAT = 2
Arrays = dict[str, NDArray[Any]]
_TYPES = {"F64": np.float64, "I64": np.int64}  # of the arrays that a file may have
_COUNTS = ("forms.sizes",)  # arrays of whole numbers
_LARGEST_HEADER = 1 << 24  # bytes
_LARGEST_FILE = 1 << 33  # bytes: about 30,000 features
_LENGTH = 8  # bytes at the beginning that tell the length of the header


class ModelFileError(ValueError):
    """A file that is not a model file, is damaged, or was written by a version with another format."""


def pack(arrays: Arrays, header: Mapping[str, Any]) -> bytes:
    """The content of a model file."""
    from safetensors.numpy import save

    text = json.dumps(header, ensure_ascii=True, sort_keys=True)
    return save(arrays, {"culpa": text, "sha256": checksum(arrays, text)})


def checksum(arrays: Mapping[str, NDArray[Any]], header: str) -> str:
    """SHA-256 over the header and every array's name, type, shape and bytes."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def unpack(content: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and header of a model file that is complete and undamaged, of the format that this version reads."""
    from safetensors import SafetensorError, deserialize

    try:
        parts = deserialize(content)  # type: ignore[no-untyped-call]
        length = int.from_bytes(content[:_LENGTH], "little")
        metadata = json.loads(content[_LENGTH : _LENGTH + length]).get("__metadata__", {})
    except (SafetensorError, ValueError):
        raise ModelFileError("this is not a culpa model file, or it is damaged.") from None
    if set(metadata) != {"culpa", "sha256"}:
        raise ModelFileError("this is a safetensors file of another program, not a culpa model file.")
    arrays = {name: _array(name, part) for name, part in parts}
    header = _parse(metadata["culpa"])
    if metadata["sha256"] != checksum(arrays, metadata["culpa"]):
        raise ModelFileError("the checksum does not match, so the file is damaged. Save the model again.")
    return arrays, header


def read(path: Path) -> bytes:
    """The content of a file. What cannot be a model file is refused first; a pipe or a device might never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError("this is a folder, a pipe or a device, not a model file.")
    if status.st_size > _LARGEST_FILE:
        raise ModelFileError(f"the file has {status.st_size:,} bytes, more than any model file.")
    with path.open("rb") as file:
        start = file.read(_LENGTH)
        if status.st_size <= _LENGTH or int.from_bytes(start, "little") > _LARGEST_HEADER:
            raise ModelFileError("this is not a culpa model file.")
        return start + file.read()


def _array(name: str, part: Mapping[str, Any]) -> NDArray[Any]:
    expected = "I64" if name in _COUNTS else "F64"
    if part["dtype"] != expected:
        raise ModelFileError(f"array {name!r} does not contain {expected} numbers.")
    return np.frombuffer(part["data"], _TYPES[expected]).reshape(part["shape"]).copy()


def _parse(text: str) -> dict[str, Any]:
    """The header, with its version checked first: another format may differ in everything else."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError("the header is not JSON, so the file is damaged.") from None
    version = header.get("format") if isinstance(header, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ModelFileError("the header has no format version, so this is not a culpa model file.")
    if version != FORMAT:
        wrote = header.get("culpa")
        by = f" (culpa {wrote[:20]})" if isinstance(wrote, str) and wrote.isprintable() else ""
        advice = "Fit the model again, or use" if version < FORMAT else "Use"
        raise ModelFileError(
            f"the file has format {version}{by}, but culpa {__version__} reads format {FORMAT}. {advice} the version of "
            f"culpa that wrote it{', or a newer one' * (version > FORMAT)}."
        )
    return dict(header)
