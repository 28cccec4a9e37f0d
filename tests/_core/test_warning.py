"""Warnings are given in one place, and nobody touches the filters of the process."""

import re
import threading
import warnings
from pathlib import Path

import pytest

import culpa
from culpa._core.threads import in_own_thread, in_threads
from culpa._core.warning import EmptyRowsWarning, warn, warnings_told_to, without_warnings

SOURCE = Path(culpa.__file__).parent
TEXTS = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def test_no_module_filters_warnings():
    calls = re.compile(r"\b(catch_warnings|simplefilter|filterwarnings|resetwarnings)\(")
    assert [name for name, text in TEXTS.items() if calls.search(text)] == []


def test_one_module_gives_warnings():
    assert {name for name, text in TEXTS.items() if re.search(r"\bwarnings\.warn\(", text)} == {"_core/warning.py"}


def give(kind=UserWarning):
    warn("odd", kind)


def test_a_warning_points_at_the_caller():
    with pytest.warns(UserWarning, match="^odd$") as given:
        give()
    assert [each.filename for each in given] == [__file__]


def test_unwanted_warnings_are_those_of_the_kind_and_of_the_call():
    with without_warnings(EmptyRowsWarning):
        give(EmptyRowsWarning)
        with without_warnings(RuntimeWarning):
            give(EmptyRowsWarning)
            give(RuntimeWarning)
            with pytest.warns(UserWarning, match="odd"):
                give()
        with pytest.warns(RuntimeWarning, match="odd"):
            give(RuntimeWarning)
    with pytest.warns(EmptyRowsWarning, match="odd"):
        give(EmptyRowsWarning)


def test_threads_that_work_for_a_call_know_what_it_wants():
    start = threading.Barrier(2)

    def work(_):
        start.wait(30)
        give(EmptyRowsWarning)

    with without_warnings(EmptyRowsWarning):
        in_threads(work, range(2), 2)
        in_own_thread(give, EmptyRowsWarning)


def test_other_threads_do_not():
    with without_warnings(UserWarning), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        thread = threading.Thread(target=give)
        thread.start()
        thread.join()
    assert [str(each.message) for each in heard] == ["odd"]


def test_a_listener_hears_all_but_unwanted_ones():
    heard = []
    with warnings_told_to(heard.append):
        give()
        with without_warnings(RuntimeWarning):
            give(RuntimeWarning)
        give(RuntimeWarning)
    assert heard == ["odd", "odd"]
