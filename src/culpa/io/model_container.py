"""The container of a model file: safetensors with a JSON header and a checksum over header and arrays.

``FORMAT`` is the version of the format. It increases when files change in a way that older versions of culpa would
misread. docs/model-files.md states what is promised about it.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.version import __version__
from culpa.io.model_checks import Arrays, ModelFileError, is_count

FORMAT = 1
_LARGEST_HEADER = 1 << 24  # bytes
_LARGEST_FILE = 1 << 33  # bytes: about 30,000 features
_LENGTH = 8  # bytes at the beginning that tell the length of the header


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


def unpack(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and header of a model file that is complete and undamaged, of a format that this version reads."""
    from safetensors import SafetensorError, safe_open

    _check_size(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if set(metadata) != {"culpa", "sha256"}:
                raise ModelFileError("this is a safetensors file of another program, not a culpa model file.")
            arrays = {name: _array(file, name) for name in file.keys()}  # noqa: SIM118 - it is not a dict
    except SafetensorError:
        raise ModelFileError("this is not a culpa model file, or it is damaged.") from None
    header = _parse(metadata["culpa"])
    if metadata["sha256"] != checksum(arrays, metadata["culpa"]):
        raise ModelFileError("the checksum does not match, so the file is damaged. Save the model again.")
    return arrays, header


def _check_size(path: Path) -> None:
    """Refuse what cannot be a model file before any of it is read; a pipe or a device might never end."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # opening a pipe would wait for its writer
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError("this is a folder, a pipe or a device, not a model file.")
        if status.st_size > _LARGEST_FILE:
            raise ModelFileError(f"the file has {status.st_size:,} bytes, more than any model file.")
        if status.st_size <= _LENGTH or int.from_bytes(os.read(descriptor, _LENGTH), "little") > _LARGEST_HEADER:
            raise ModelFileError("this is not a culpa model file.")
    finally:
        os.close(descriptor)


def _array(file: Any, name: str) -> NDArray[Any]:
    expected = "I64" if name == "forms.sizes" else "F64"
    if file.get_slice(name).get_dtype() != expected:
        raise ModelFileError(f"array {name!r} does not contain {expected} numbers.")
    return np.array(file.get_tensor(name))


def _parse(text: str) -> dict[str, Any]:
    """The header, with its version checked first: a newer format may differ in everything else."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError("the header is not JSON, so the file is damaged.") from None
    if not isinstance(header, dict) or not is_count(header.get("format")):
        raise ModelFileError("the header has no format version, so this is not a culpa model file.")
    if header["format"] != FORMAT:
        wrote = header.get("culpa")
        by = f" (culpa {wrote[:20]})" if isinstance(wrote, str) and wrote.isprintable() else ""
        raise ModelFileError(
            f"the file has format {header['format']}{by}, but culpa {__version__} reads format {FORMAT}. "
            "Use the version of culpa that wrote it, or a newer one."
        )
    return header
