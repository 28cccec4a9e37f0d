"""The answers in ``values.npz``: equal arrays are stored once."""

import json
from pathlib import Path

import numpy as np

PATH = Path(__file__).parent / "values.npz"
PRECISION = 1e-10  # of the largest number of an array; other libraries for linear algebra round in other ways


def write(answers):
    """Store the answers by case: arrays by field, or the kind of error."""
    at, pool, index, n = {}, [], {}, 0
    for case, answer in answers.items():
        if isinstance(answer, str):
            index[case] = answer
            continue
        for array in answer.values():
            if array.tobytes() not in at:
                at[array.tobytes()] = [n, array.size]
                pool.append(array.ravel())
                n += array.size
        index[case] = {field: at[array.tobytes()] for field, array in answer.items()}
    text = np.frombuffer(json.dumps(index, separators=(",", ":")).encode(), dtype=np.uint8)
    np.savez_compressed(PATH, numbers=np.concatenate(pool), index=text)


def read():
    """What `write` stored; arrays are flat."""
    with np.load(PATH) as file:
        numbers, index = file["numbers"], json.loads(file["index"].tobytes())
    return {
        case: at if isinstance(at, str) else {field: numbers[i : i + n] for field, (i, n) in at.items()}
        for case, at in index.items()
    }


def difference(found, expected):
    """What differs, in words; empty if nothing does."""
    if isinstance(found, str) or isinstance(expected, str):
        shown = [one if isinstance(one, str) else "an answer" for one in (found, expected)]
        return "" if found == expected else f"{shown[0]} instead of {shown[1]}"
    if found.keys() != expected.keys():
        return f"{sorted(found)} instead of {sorted(expected)}"
    for field, wanted in expected.items():
        array = found[field].ravel()
        if array.shape != wanted.shape or (np.isnan(array) != np.isnan(wanted)).any():
            return f"{field} has another shape, or is missing elsewhere"
        size = [wanted] if field == "expected" else [wanted, expected["score"]]  # blame adds up to the score
        off, scale = np.nan_to_num(np.abs(array - wanted)).max(), np.nanmax(np.abs(np.concatenate(size)))
        if not off <= PRECISION * scale:
            return f"{field} is off by {off / scale:.1e}"
    return ""
