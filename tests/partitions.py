"""Plants whose rows are spread over partitions, for tests of engines."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa

NAMES = ("flow", "power", "SI101.PV", "heat")


def plant(n=600, seed=0, centre=1e6):
    """Rows of a plant far from zero, with times, machines and a column that culpa does not know."""
    random = np.random.default_rng(seed)
    loadings = np.random.default_rng(42).normal(size=(2, 4))
    X = random.normal(size=(n, 2)) @ loadings + 0.1 * random.normal(size=(n, 4)) + centre
    frame = pd.DataFrame(X, columns=list(NAMES))
    frame["time"] = pd.date_range("2024-03-05", periods=n, freq="1min")
    frame["machine"] = [f"m{i % 3}" for i in range(n)]
    frame["score"] = [f"label {i}" for i in range(n)]
    return frame


class Partitions:
    """A table in several processes, without the processes: everything that would be sent is pickled."""

    def __init__(self, frame, sizes):
        table = pa.Table.from_pandas(frame, preserve_index=False)
        starts = np.cumsum([0, *sizes])
        self.parts = [table.slice(start, size) for start, size in zip(starts, sizes, strict=False)]
        self.parts.append(table.slice(int(starts[-1])))

    def __call__(self, task):
        task = pickle.loads(pickle.dumps(task))
        parts = [self._table(task, task.part(part.to_batches(max_chunksize=70))) for part in self.parts]
        halves = [pa.concat_tables(half) for half in (parts[::2], parts[1::2]) if half]
        return pa.concat_tables([self._table(task, task.merge(half.to_batches())) for half in halves])

    @staticmethod
    def _table(task, batches):
        return pa.Table.from_batches(list(batches), task.schema)
