"""Where the paper's data come from, and how to recognise the right files.

The home pages of the data sets no longer serve the files, so each one comes from a public repository at a fixed commit.
``sha256`` is the checksum of that file. ``numbers`` is the checksum of the numbers in it (see
`culpa.datasets.files.fingerprint`), which also recognises the same data in another file format.
"""

from dataclasses import dataclass


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


CARS04 = Source(
    "cars04",
    "sivakartheek/GridComputing_LinearRegression",
    "451aed6f91cac18eb985e2ac3c31a1ec6315568d",
    "04cars.dat.txt",
    "01dfc32e54970718578442d67d839a71ba77e46f689cfb89d7d72ea878fad049",
    "7988531d76b459683ba10d0f83f10d590492ef6f27ee07272d41a06c34298ad9",
    (428, 11),
    "http://jse.amstat.org/datasets/04cars.txt",
    ("cars04.csv", "04cars.dat.txt", "04cars.dat"),
)

_PYOD = ("yzhao062/pyod", "34f7996effac700a5166d882d5e94c6e6078fae3", "notebooks/data")
_ADBENCH = ("Minqi824/ADBench", "b8ce0ec9323fa2e69de4d9de10bb511b49403013", "datasets")


def _odds(
    name: str, origin: tuple[str, str, str], shape: tuple[int, int], page: str, sha256: str, numbers: str
) -> Source:
    repository, commit, folder = origin
    home = f"https://odds.cs.stonybrook.edu/{page}/"
    local = tuple(f"{place}{name}.{kind}" for place in ("odds/", "") for kind in ("npz", "mat"))
    return Source(name, repository, commit, f"{folder}/{name}.mat", sha256, numbers, shape, home, local)


_TABLE = (
    (
        "cardio",
        _PYOD,
        (1831, 21),
        "cardiotocogrpahy-dataset",
        "5e568b6a73711012c481fa6cc984ab9c68e9a4fa44d6aeb3b43efa381c3f695b",
        "bfa5c5a339bf0d34bb1d0e1f0da6d80caffcce4a65fad50972bc986019d4e740",
    ),
    (
        "cover",
        _ADBENCH,
        (286048, 10),
        "forestcovercovertype-dataset",
        "39acf6da4d31f08c2c28dc047249d8cd8ccd9d6fc299d9b5a08874ac92290c98",
        "26034c44b5b3388b3c2b389bc9d33abc713fa5f2b77d2116f2bdc73f95b7faa1",
    ),
    (
        "ionosphere",
        _PYOD,
        (351, 33),
        "ionosphere-dataset",
        "8ac5dfa6f47db4acdfe10615489b7f7dd015d79d5b381ce641e72baca3cfefb0",
        "8f5fc5069e6b47fe34b4d9be843f4ac4bbc03c5dbf50a033d16aa8dd892a7d8c",
    ),
    (
        "mammography",
        _ADBENCH,
        (11183, 6),
        "mammography-dataset",
        "271ebb568314a856666d3504b4882e21b0ea6e1ba9e648ad256d572a36df597e",
        "8660fe33f23e1a6f8e1e1956787403a52b7183c3ca071bbe9579939ad87f3ab3",
    ),
    (
        "musk",
        _PYOD,
        (3062, 166),
        "musk-dataset",
        "50bbf414caceb66cfe6f6b1eb7c1ff7c6eb1e6d87173f7bb597ba55cd3dc5493",
        "e0f0989c02a739795445d6d25715fd0e5952f0bade0b9d92bd967fe4907c328f",
    ),
    (
        "satimage-2",
        _PYOD,
        (5803, 36),
        "satimage-2-dataset",
        "95c37a07cea2cb201f6900d14f521510e10b6b2f0074c06ac46d3157440ec67b",
        "6489b75983c48812d448c65021f44eeece54bc017993eedbdb2b8e194c5b0ffd",
    ),
    (
        "shuttle",
        _PYOD,
        (49097, 9),
        "shuttle-dataset",
        "b6e396c92354d5dcf5036901e36dc58e2913f2d1a5e138c35a2bedf9c69db899",
        "2993782d44e631e0565eb7ab5766bb4306764d9345af6916e3e42ea4486d359c",
    ),
    (
        "vowels",
        _PYOD,
        (1456, 12),
        "japanese-vowels-data",
        "51d5397bad1ceeda22b7cd44fd58125c5d603c9c2edb53aa59933330e259ac7b",
        "efe8160d9a404fe7d7ebc44187584aa43079aa9496d5e82fc676bc3fe4456279",
    ),
    (
        "wbc",
        _PYOD,
        (378, 30),
        "wbc",
        "afe6b26953cc196b9a480318c903e0edef22529c2f61bd02082438c6e70630a7",
        "4040e763d0b9ae4540e1d88417bbabb381a8a37fbef6a55071799afe087c7972",
    ),
    (
        "wine",
        _ADBENCH,
        (129, 13),
        "wine-dataset",
        "d1b7cc643379e14397ee25bc1125ba08e4c929f2ec44d8782b1340d7045d4cf7",
        "6dea9e73000cb5af1d05c20530170a26c4f231125a0774d3dd44f88565dff34f",
    ),
)

ODDS = {line[0]: _odds(*line) for line in _TABLE}
