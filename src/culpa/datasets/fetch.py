"""Find a data file: in a folder, among earlier downloads, or on the network."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from culpa.datasets.dataset import DataFileError
from culpa.datasets.registry import Source

BASE_URL = "https://raw.githubusercontent.com"
FOLDER_VARIABLE = "CULPA_DATA"

Folder = str | os.PathLike[str]


def find(source: Source, data: Folder | None = None) -> Path:
    """Path of the file of a data set; it is only downloaded if no folder has it."""
    searched = []
    for folder in _folders(data):
        for name in source.local_names:
            if (folder / name).is_file():
                return folder / name
        searched.append(folder)
    return download(source, searched)


def download(source: Source, searched: Sequence[Path] = ()) -> Path:
    """Path of the original file in the cache, downloaded if necessary; its sha256 is always checked."""
    pooch = _pooch(searched, source)
    url = source.url(BASE_URL)
    try:
        path = pooch.retrieve(
            url, known_hash=f"sha256:{source.sha256}", fname=source.file_name, path=pooch.os_cache("culpa")
        )
    except (OSError, ValueError) as error:  # no network, no such file, no place to write; wrong checksum
        raise DataFileError(
            f"{_not_found(searched, source)}cannot download {source.file_name} from {url} ({_reason(error, source)}): "
            f"without a network, {_by_hand(source)}."
        ) from error
    return Path(path)


def _folders(data: Folder | None) -> Iterator[Path]:
    for folder, origin in ((data, "--data"), (os.environ.get(FOLDER_VARIABLE) or None, FOLDER_VARIABLE)):
        if folder is None:
            continue
        if not Path(folder).is_dir():
            raise DataFileError(f"the data folder {os.fspath(folder)!r} does not exist: correct {origin}.")
        yield Path(folder)


def _pooch(searched: Sequence[Path], source: Source) -> Any:
    try:
        import pooch
    except ImportError:
        raise DataFileError(
            f"{_not_found(searched, source)}downloading {source.file_name} needs pooch: "
            f"pip install 'culpa[reproduce]', or {_by_hand(source)}."
        ) from None
    return pooch


def _not_found(searched: Sequence[Path], source: Source) -> str:
    places = " or ".join(str(folder) for folder in searched)
    return f"{source.local_names[0]} is not in {places}, and " if places else ""


def _by_hand(source: Source) -> str:
    return f"put {' or '.join(source.local_names[:2])} into a folder and pass it with --data or {FOLDER_VARIABLE}"


def _reason(error: Exception, source: Source) -> str:
    if isinstance(error, OSError):
        return " ".join(str(error).split())[:200]
    return f"the download does not have the expected sha256 {source.sha256[:12]}... and was deleted"
