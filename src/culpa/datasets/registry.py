"""Where the paper's data come from, and how to recognise the right files.

The home pages of the data sets no longer serve the files, so each one comes from a public repository at a fixed commit.
``sha256`` is the checksum of that file. ``numbers`` is the checksum of the numbers in it (see
`culpa.datasets.files.fingerprint`), which also recognises the same data in another file format.
"""

import json
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Source:
    """One data set: its file, its checksums, its shape, and the names that the file may have in a folder."""

    name: str
    repository: str
    commit: str
    path: str
    sha256: str
    numbers: str
    shape: tuple[int, int]
    home: str
    local_names: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Name of the original file."""
        return self.path.rsplit("/", 1)[-1]

    def url(self, base: str) -> str:
        """Address of the original file on a server of raw repository files."""
        return f"{base}/{self.repository}/{self.commit}/{self.path}"


def _load() -> dict[str, Source]:
    listed = json.loads(files("culpa.datasets").joinpath("registry.json").read_text(encoding="utf-8"))
    lists = ("shape", "local_names")
    return {each["name"]: Source(**each | {name: tuple(each[name]) for name in lists}) for each in listed}


ODDS = _load()
CARS04 = ODDS.pop("cars04")
