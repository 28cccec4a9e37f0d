"""Damage to the bytes of a file, as disks, networks and editors do it."""

WORDS = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\0\x40")


def flip(data, at, rng):
    data[at] ^= 1 << int(rng.integers(8))


def overwrite(data, at, rng):
    data[at] = int(rng.integers(256))


def overwrite_word(data, at, rng):
    data[at : at + 4] = WORDS[rng.integers(len(WORDS))]


def delete(data, at, rng):
    del data[at : at + int(rng.integers(1, 64))]


def insert(data, at, rng):
    data[at:at] = rng.bytes(int(rng.integers(1, 16)))


def repeat(data, at, rng):
    data[at:at] = data[at : at + int(rng.integers(1, 64))]


def cut(data, at, rng):
    del data[at:]


KINDS = (flip, overwrite, overwrite_word, delete, insert, repeat, cut)


def damaged(content, rng):
    """A copy with one to four injuries, half of them near the end, where binary formats keep their index."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if data:
            reach = len(data) if rng.random() < 0.5 else min(len(data), 1500)
            KINDS[rng.integers(len(KINDS))](data, len(data) - 1 - int(rng.integers(reach)), rng)
    return bytes(data)
