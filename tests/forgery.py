"""Model files that have been tampered with."""

import json

from safetensors import safe_open
from safetensors.numpy import save as to_bytes

from culpa.io.model_container import checksum


def forge(path, change=lambda arrays, header: None, text=None):
    """A file with a valid checksum and whatever content the test wants."""
    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["culpa"])
    change(arrays, header)
    text = json.dumps(header) if text is None else text
    path.write_bytes(to_bytes(arrays, {"culpa": text, "sha256": checksum(arrays, text)}))
    return path


def set_parameter(**fields):
    return lambda arrays, header: header["parameters"].update(fields)
