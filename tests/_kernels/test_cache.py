"""A cache of kernels that cannot be read or written costs time, and nothing else: values stay, one warning says so."""

import errno
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

from culpa._kernels import cache
from culpa._kernels.kernel import Kernel


def twice(x):
    return 2 * x


def thrice(x):
    return 3 * x


def closure():
    """A kernel that is made as those of trees are: a closure that calls another one."""

    def add(a, b):
        return a + b

    def sum_of_two(x):
        return add(x, x)

    return Kernel(sum_of_two, worth=0.0, calls=(add,))


@pytest.fixture(autouse=True)
def new_process(tmp_path, monkeypatch):
    """Nothing compiled and nothing said."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_warned", threading.Event())


def call(function=twice):
    """Call the kernel of a function as a new process would."""
    kernel = Kernel(function, worth=0.0)
    return kernel, kernel(np.ones(3)).tolist()


def files(tmp_path, ending):
    return [file for file in tmp_path.rglob(f"*.{ending}") if file.is_file()]


class TestDamagedFiles:
    @pytest.mark.parametrize("ending", ["nbi", "nbc"])
    @pytest.mark.parametrize(
        "damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"\xff" * 99]
    )
    def test_falls_back_and_starts_anew(self, ending, damage, tmp_path):
        call()
        (file,) = files(tmp_path, ending)
        file.write_bytes(damage(file.read_bytes()))
        with pytest.warns(UserWarning, match=rf"not kept on disk: {tmp_path}.* cannot be used") as said:
            kernel, values = call()
        assert values == [2.0, 2.0, 2.0]
        assert len(said) == 1
        assert not kernel.on_disk.is_marked()
        assert call()[1] == [2.0, 2.0, 2.0]  # warnings are errors here
        assert kernel.on_disk.is_marked()

    def test_a_folder_in_place_of_a_file(self, tmp_path):
        call()
        (file,) = files(tmp_path, "nbi")
        file.unlink()
        file.mkdir()
        with pytest.warns(UserWarning, match="IsADirectoryError"):
            assert call()[1] == [2.0, 2.0, 2.0]
        assert call()[1] == [2.0, 2.0, 2.0]


class TestNowhereToWrite:
    def test_a_full_disk(self, monkeypatch):
        from numba.core.caching import IndexDataCacheFile

        def save(self, key, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(IndexDataCacheFile, "save", save)
        with pytest.warns(UserWarning, match="No space left on device") as said:
            kernel, values = call()
        assert values == [2.0, 2.0, 2.0]
        assert call(thrice)[1] == [3.0, 3.0, 3.0]  # said once, not once per kernel
        assert len(said) == 1
        assert kernel(np.ones((2, 2))).sum() == 8  # a type that has not been compiled yet
        assert not kernel.on_disk.is_marked()

    def test_the_disk_fills_up_between_two_types(self, monkeypatch):
        from numba.core.caching import IndexDataCacheFile

        kernel, _ = call()

        def save(self, key, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(IndexDataCacheFile, "save", save)
        with pytest.warns(UserWarning, match="No space left on device"):
            assert kernel(np.ones((2, 2))).sum() == 8

    def test_folders_that_are_read_only(self, monkeypatch):
        monkeypatch.delenv("NUMBA_CACHE_DIR")
        monkeypatch.setattr(cache, "_is_writable", lambda folder: False)  # permissions do not bind root
        with pytest.warns(UserWarning, match="kernels and .* cannot be written to"):
            assert call()[1] == [2.0, 2.0, 2.0]

    def test_a_home_that_is_a_file(self, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
        with pytest.warns(UserWarning, match="cannot be written to"):
            kernel, values = call()
        assert values == [2.0, 2.0, 2.0]
        assert kernel.on_disk.create() is None
        assert not kernel.on_disk.is_marked()

    def test_files_that_may_not_grow(self, tmp_path):
        """The system itself refuses to write: numba's files are larger than a kilobyte."""
        program = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
import numpy as np
from culpa._kernels.kernel import Kernel
from test_cache import twice
print(Kernel(twice, worth=0.0)(np.ones(3)).tolist())
"""
        # -B: otherwise Python would leave modules cut off after a kilobyte behind
        command = [sys.executable, "-B", "-c", f"import sys; sys.path.insert(0, {__file__!r}[:-13])\n{program}"]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        assert result.stdout == "[2.0, 2.0, 2.0]\n"
        assert result.stderr.count("UserWarning: compiled kernels are not kept on disk") == 1


def test_an_error_of_the_kernel_is_no_matter_of_the_cache():
    call()
    kernel = Kernel(twice, worth=0.0)
    with warnings.catch_warnings(record=True) as said, pytest.raises(Exception, match="non-precise type"):
        kernel(object())
    assert not said
    assert kernel.on_disk.is_marked()


def test_processes_that_compile_at_once_and_one_that_reads(tmp_path):
    """Fails if numba ever stops to honour the folder that it is given, or to keep closures."""
    program = """
import numba.core.event as event
import numpy as np
from test_cache import closure
kernel = closure()
with event.install_recorder("numba:compile") as recorder:
    print(kernel(np.ones(3)).tolist(), len(recorder.buffer) > 0)
assert kernel.on_disk.is_marked()
"""
    command = [sys.executable, "-W", "error", "-c", f"import sys; sys.path.insert(0, {__file__!r}[:-13])\n{program}"]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {process.communicate()[0].split("]")[0] for process in several} == {"[2.0, 2.0, 2.0"}
    for _ in range(2):  # of two that write at once, one may undo what the other has listed: the next compiles once more
        last = subprocess.run(command, capture_output=True, text=True, check=True)
    assert last.stdout == "[2.0, 2.0, 2.0] False\n"
    assert len(files(tmp_path, "nbi")) == 1
