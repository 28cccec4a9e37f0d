"""When a kernel is compiled, and what is kept of it on disk."""

import os
import threading
from pathlib import Path

import pytest

from culpa._kernels.cache import folder_for_numba
from culpa._kernels.contributions import CONTRIBUTIONS
from culpa._kernels.elimination_steps import ELIMINATION
from culpa._kernels.factored_steps import FACTORED
from culpa._kernels.form_values import FORM_VALUES
from culpa._kernels.kernel import Kernel, kernels_in_python

KERNELS = {
    "elimination": ELIMINATION.kernel,
    "factored": FACTORED.kernel,
    "contributions": CONTRIBUTIONS,
    "forms": FORM_VALUES,
}


def new(kernel, worth=1e9):
    """The same kernel, as a new process would see it."""
    return Kernel(kernel.function, worth, kernel.calls)


class TestWhenItPays:
    @pytest.fixture(autouse=True)
    def nothing_on_disk(self, tmp_path, monkeypatch):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def test_not_for_small_jobs(self):
        kernel = new(CONTRIBUTIONS)
        assert not kernel.pays(1e6)
        assert kernel.pays(1e12)

    def test_small_jobs_add_up_once_they_are_noted(self):
        kernel, answers = new(CONTRIBUTIONS), []
        for _ in range(4):
            answers.append(kernel.pays(4e8))
            kernel.note_work_without(4e8)
        assert answers == [False, False, True, True]

    def test_asking_changes_nothing(self):
        kernel = new(CONTRIBUTIONS)
        assert [kernel.pays(4e8) for _ in range(4)] == [False] * 4

    def test_always_once_it_is_ready(self):
        kernel = Kernel(lambda x: 2 * x, worth=1e9)
        assert not kernel.pays(1.0)
        assert kernel(3) == 6
        assert kernel.is_ready
        assert kernel.pays(1.0)
        kernel.forget()
        assert not kernel.pays(1.0)


class TestOnDisk:
    @pytest.mark.parametrize("name", sorted(KERNELS))
    @pytest.mark.parametrize(
        "file",
        [
            "vectors",
            "numba_vectors",
            "layout",
            "tree_kernel",
            "elimination_steps",
            "contributions",
            "form_values",
        ],
    )
    def test_a_kernel_changes_folder_with_every_file_behind_it_and_no_other(self, name, file, monkeypatch):
        files = {
            "elimination": ["vectors", "numba_vectors", "layout", "tree_kernel", "elimination_steps"],
            "factored": ["vectors", "numba_vectors", "layout", "tree_kernel", "factored_steps"],
            "contributions": ["vectors", "numba_vectors", "contributions"],
            "forms": ["vectors", "numba_vectors", "form_values"],
        }
        before = new(KERNELS[name]).on_disk.folders
        read = Path.read_bytes
        monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + (b"#" if path.stem == file else b""))
        after = new(KERNELS[name]).on_disk.folders
        assert (before != after) == (file in files[name])

    def test_one_walk_with_other_steps_is_another_kernel(self):
        assert not set(ELIMINATION.kernel.on_disk.folders) & set(FACTORED.kernel.on_disk.folders)

    def test_a_file_that_numba_thinks_has_changed(self, tmp_path):
        """numba compiles again when the time of a file changes, so the folder must not claim that it can be read."""
        file, names = tmp_path / "doubling.py", {}
        file.write_text("def twice(x):\n    return 2 * x\n")
        exec(compile(file.read_text(), str(file), "exec"), names)
        before = Kernel(names["twice"], worth=0.0).on_disk.folders
        assert Kernel(names["twice"], worth=0.0).on_disk.folders == before
        os.utime(file, (1, 1))
        assert Kernel(names["twice"], worth=0.0).on_disk.folders != before

    def test_a_kernel_on_disk_pays_sooner(self, tmp_path, monkeypatch):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        kernel = new(ELIMINATION.kernel, worth=8e9)
        assert not kernel.pays(2e9)
        kernel.on_disk.mark()
        assert new(ELIMINATION.kernel, worth=8e9).pays(2e9)
        assert not new(FACTORED.kernel, worth=8e9).pays(2e9)

    def test_numba_is_told_a_folder_for_a_moment_only(self, tmp_path):
        from numba import config

        before = config.CACHE_DIR
        with folder_for_numba(tmp_path):
            assert str(tmp_path) == config.CACHE_DIR
        assert before == config.CACHE_DIR


def test_in_python():
    seen = []
    kernel = Kernel(lambda x: seen.append(x), worth=0.0)  # a list of whatever is nothing that numba would compile
    with kernels_in_python():
        kernel("text")
    assert seen == ["text"]
    assert not kernel.is_ready


def test_compiling_does_not_hold_up_the_main_thread(monkeypatch):
    """So that Ctrl-C is answered meanwhile."""
    kernel = new(CONTRIBUTIONS)
    monkeypatch.setattr(kernel, "_prepare", lambda: threading.current_thread)
    monkeypatch.setattr(type(kernel.on_disk), "mark", lambda on_disk: None)
    assert kernel() is not threading.main_thread()
    assert kernel() is threading.main_thread()  # compiled


def test_an_interrupt_is_no_problem_of_the_cache(monkeypatch):
    """Python says so if a compiled function returns a result while an exception waits."""

    def interrupted(*arguments):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise SystemError("returned a result with an exception set") from interrupt

    kernel = new(CONTRIBUTIONS)
    monkeypatch.setattr(kernel, "_compiled", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel(1)
    assert kernel._compiled is interrupted  # and stays as it is
