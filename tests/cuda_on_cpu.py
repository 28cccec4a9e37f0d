"""The GPU's kernels, compiled for the processor: the same source, threads one after the other."""

import ctypes
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from culpa._kernels.cuda import device as gpu

COMPILER = shutil.which("g++") or shutil.which("clang++")

# few players and threads everywhere, so that small jobs take every path
SMALL = gpu.Options(
    BOTTOM=4,
    IN_REGISTERS=2,
    THREADS=4,
    TABLE_IN_REGISTERS=2,
    ROWS_BOTTOM=5,
    STAGE=4,
    ROWS_IN_REGISTERS=2,
    ROWS_SUMS=1,
    ROWS=2,
    ROWS_THREADS=8,
    SIDE=2,
)

_SHIM = """
#include <cmath>
#include <pthread.h>
#include <thread>
#include <vector>
using std::fma;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
struct Index { long long x; };
static thread_local Index blockIdx, threadIdx;
static Index blockDim, gridDim;
alignas(16) static char shared_room[1 << 20];
static pthread_barrier_t barrier;
static void __syncthreads() { pthread_barrier_wait(&barrier); }
"""
_KERNEL = re.compile(r'extern "C" __global__ void __launch_bounds__\([\w, ]*\) (\w+)\(([^)]*)\)')
_TOGETHER = {"walk_rows"}  # threads of a block wait for each other
_ONE_BY_ONE = """
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) CALL;
"""
_SIDE_BY_SIDE = """
  pthread_barrier_init(&barrier, nullptr, threads);
  std::vector<std::thread> running;
  for (long long t = 0; t < threads; t++) running.emplace_back([=] {
    threadIdx.x = t;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
      CALL;
      __syncthreads();
    }
  });
  for (auto &thread : running) thread.join();
  pthread_barrier_destroy(&barrier);
"""


@cache
def library(program, options):
    code = gpu.source(program)
    for name, parameters in _KERNEL.findall(code):
        names = ", ".join(re.search(r"\w+$", parameter).group() for parameter in parameters.split(","))
        run = (_SIDE_BY_SIDE if name in _TOGETHER else _ONE_BY_ONE).replace("CALL", f"{name}({names})")
        code += f"""
extern "C" void launch_{name}(long long blocks, long long threads, {parameters}) {{
  gridDim.x = blocks;
  blockDim.x = threads;{run}}}
"""
    folder = Path(tempfile.mkdtemp())
    (folder / "kernels.cpp").write_text(_SHIM + code)
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-pthread", *options.flags]
    subprocess.run([COMPILER, *flags, "-o", folder / "kernels.so", folder / "kernels.cpp"], check=True)
    loaded = ctypes.CDLL(str(folder / "kernels.so"))
    shutil.rmtree(folder)
    return loaded


class OnCpu:
    """A `culpa._kernels.cuda.device.Device` of NumPy arrays. ``most`` bytes of memory; new arrays start with NaN.

    ``options`` are for all programs. Without them, programs are compiled as for a GPU.
    """

    def __init__(self, options=None, n_threads=8, most=1e8):
        self.options, self.n_threads, self.n_blocks, self.most = options, n_threads, max(1, n_threads // 4), most
        self.shared_bytes, self.launched, self.xp = 1 << 18, [], self

    def program(self, name):
        return ProgramOnCpu(self, name)

    def most_bytes(self):
        return self.most

    def empty(self, shape):
        return np.full(shape, np.nan)

    zeros, asarray, sum, matmul = map(staticmethod, (np.zeros, np.asarray, np.sum, np.matmul))


class ProgramOnCpu:
    """A `culpa._kernels.cuda.device.Program`."""

    def __init__(self, device, name):
        self.device, self.name, self.n_threads = device, name, device.n_threads
        shipped = gpu.OPTIONS[name]
        self.options = device.options._replace(OWN=shipped.OWN) if device.options else shipped

    def launch(self, kernel, n_threads, *arguments, block=None, shared=0):
        assert shared <= self.device.shared_bytes
        self.device.launched.append(kernel)
        threads = block or self.options.THREADS
        blocks = -(-n_threads // threads)
        passed = [_passed(argument) for argument in arguments]
        getattr(library(self.name, self.options), f"launch_{kernel}")(
            ctypes.c_longlong(blocks), ctypes.c_longlong(threads), *passed
        )


def _passed(argument):
    if argument is None or isinstance(argument, np.ndarray):
        return ctypes.c_void_p(None if argument is None else argument.ctypes.data)
    types = {np.int64: ctypes.c_longlong, np.int32: ctypes.c_int, np.float64: ctypes.c_double}
    return types[type(argument)](argument.item())
