"""The GPU's kernels, compiled for the processor: the same source, threads one after the other."""

import ctypes
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from culpa._kernels import gpu

COMPILER = shutil.which("g++") or shutil.which("clang++")

_SHIM = """
#include <cmath>
using std::fma;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
struct Index { long long x; };
static Index blockIdx, threadIdx, blockDim, gridDim;
"""
_KERNEL = re.compile(r'extern "C" __global__ void __launch_bounds__\(THREADS[, A-Z_]*\) (\w+)\(([^)]*)\)')


@cache
def library(options):
    code = gpu.source()
    for name, parameters in _KERNEL.findall(code):
        names = ", ".join(re.search(r"\w+$", parameter).group() for parameter in parameters.split(","))
        code += f"""
extern "C" void launch_{name}(long long blocks, {parameters}) {{
  gridDim.x = blocks;
  blockDim.x = THREADS;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < THREADS; threadIdx.x++) {name}({names});
}}
"""
    folder = Path(tempfile.mkdtemp())
    (folder / "kernels.cpp").write_text(_SHIM + code)
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-w", *options.flags]
    subprocess.run([COMPILER, *flags, "-o", folder / "kernels.so", folder / "kernels.cpp"], check=True)
    loaded = ctypes.CDLL(str(folder / "kernels.so"))
    shutil.rmtree(folder)
    return loaded


class OnCpu:
    """A `culpa._kernels.gpu.Device` of NumPy arrays. ``most`` bytes of memory; new arrays start with NaN."""

    def __init__(self, options, n_threads=8, most=1e8):
        self.options, self.n_threads, self.n_threads_of_rows, self.most = options, n_threads, n_threads, most
        self.launched, self.xp = [], self

    def launch(self, kernel, n_threads, *arguments):
        self.launched.append(kernel)
        blocks = -(-n_threads // self.options.THREADS)
        passed = [
            ctypes.c_void_p(argument.ctypes.data)
            if isinstance(argument, np.ndarray)
            else {np.int64: ctypes.c_longlong, np.int32: ctypes.c_int}[type(argument)](int(argument))
            for argument in arguments
        ]
        getattr(library(self.options), f"launch_{kernel}")(ctypes.c_longlong(blocks), *passed)

    def most_bytes(self):
        return self.most

    def empty(self, shape):
        return np.full(shape, np.nan)

    zeros, asarray, sum = staticmethod(np.zeros), staticmethod(np.asarray), staticmethod(np.sum)
