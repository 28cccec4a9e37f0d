"""Outputs are whole or absent, whoever else writes, plants links or is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import culpa
from culpa import PCADetector
from culpa._core import files
from culpa._core.files import remove_unfinished, write_whole


def hidden(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def test_threads_write_one_name(tmp_path):
    """Writers of the same process, and with the same process id as those of two containers."""
    path, errors = tmp_path / "out", []
    together = threading.Barrier(4, timeout=30)

    def write(sign):
        try:
            for _ in range(10):
                together.wait()
                with write_whole(path, force=True) as file:
                    for _ in range(50):
                        file.write(sign * 100)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=write, args=(sign,)) for sign in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    content = path.read_bytes()
    assert content in {sign * 5000 for sign in (b"a", b"b", b"c", b"d")}
    assert not hidden(tmp_path)


def test_threads_save_models_under_one_name(tmp_path):
    detectors = [PCADetector(1).fit(np.random.default_rng(d).normal(size=(30, d))) for d in (2, 3, 4, 5)]
    threads = [
        threading.Thread(target=lambda one=one: [one.save(tmp_path / "m") for _ in range(5)]) for one in detectors
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = culpa.load(tmp_path / "m")
    assert loaded.limit_ in [one.limit_ for one in detectors]
    assert not hidden(tmp_path)


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "out"
    victim.write_bytes(b"precious")
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0" * 2 * n)  # so that the name can be foreseen
    (tmp_path / f".out.{'0' * 16}.part").symlink_to(victim)
    with pytest.raises(FileExistsError), write_whole(path) as file:
        file.write(b"new")
    assert victim.read_bytes() == b"precious"
    assert not path.exists()


def test_the_target_of_a_link_is_replaced(tmp_path):
    target, path = tmp_path / "folder" / "target", tmp_path / "out"
    target.parent.mkdir()
    target.write_bytes(b"old")
    (tmp_path / "link").symlink_to(target)
    path.symlink_to("link")
    with pytest.raises(ValueError, match="already exists"), write_whole(path):
        pass
    with write_whole(path, force=True) as file:
        file.write(b"new")
        assert hidden(target.parent)
        assert target.read_bytes() == b"old"
    assert (target.read_bytes(), path.is_symlink(), target.is_symlink()) == (b"new", True, False)
    assert not hidden(tmp_path)
    assert not hidden(target.parent)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_a_file_that_the_shell_appends_to(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old ")
    with path.open("ab") as opened, write_whole(Path(f"/dev/fd/{opened.fileno()}"), force=True) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old new"
    assert not hidden(tmp_path)


def test_a_planted_link_next_to_the_target_of_a_link_is_not_followed(tmp_path, monkeypatch):
    victim, target, path = tmp_path / "victim", tmp_path / "target", tmp_path / "out"
    victim.write_bytes(b"precious")
    target.write_bytes(b"old")
    path.symlink_to(target)
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0" * 2 * n)
    (tmp_path / f".target.{'0' * 16}.part").symlink_to(victim)
    with pytest.raises(FileExistsError), write_whole(path, force=True) as file:
        file.write(b"new")
    assert (victim.read_bytes(), target.read_bytes()) == (b"precious", b"old")


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("target", ["absent", "out"])  # itself
def test_a_link_to_nothing_is_refused(tmp_path, force, target):
    path = tmp_path / "out"
    path.symlink_to(tmp_path / target)
    with pytest.raises(ValueError, match="a link to a file that does not exist"), write_whole(path, force=force):
        pass
    assert path.is_symlink()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_a_replaced_file_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(mode)
    with write_whole(path, force=True) as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
        file.write(b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", mode)


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    for force in (False, True):
        with write_whole(tmp_path / f"out {force}", force=force) as file:
            file.write(b"new")
        assert (tmp_path / f"out {force}").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_replaced_file_keeps_its_owner_and_group(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    os.chown(path, 12345, 54321)
    path.chmod(0o640)
    with write_whole(path, force=True) as file:
        file.write(b"new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (12345, 54321, 0o640)

    def refuse(*arguments):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    with write_whole(path, force=True) as file:
        file.write(b"newer")
    assert path.stat().st_mode & 0o777 == 0o600  # the group is another one


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_in_the_meantime_is_not_replaced(tmp_path, monkeypatch, links):
    def no_links(*names):
        raise PermissionError

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "out"
    with write_whole(path) as file:
        file.write(b"first")
    assert path.read_bytes() == b"first"
    path.unlink()
    with pytest.raises(ValueError, match="already exists"), write_whole(path) as file:
        path.write_bytes(b"of another writer")
    assert path.read_bytes() == b"of another writer"
    assert not hidden(tmp_path)


WRITER = """
import sys, time
from pathlib import Path
from culpa._core.files import write_whole
with write_whole(Path(sys.argv[1]), force=True) as file:
    file.write(b"half"); file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def writer(path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


def test_parts_of_killed_writers_are_removed_after_a_day(tmp_path):
    path = tmp_path / "out.csv"
    with writer(path) as killed:
        killed.kill()
    (stale,) = hidden(tmp_path)
    yesterday = time.time() - 100_000
    others = [tmp_path / name for name in (".out.csv.part", ".out.csv.x.part", f".out.csv.{'.' * 16}.part")]
    others += [tmp_path / f".other.csv.{'0' * 16}.part"]
    for other in others:
        other.touch()
        os.utime(other, (yesterday, yesterday))
    for age in (0, 100_000):
        assert stale.exists()
        os.utime(stale, (time.time() - age,) * 2)
        with write_whole(path, force=True) as file:
            file.write(b"whole")
        assert path.read_bytes() == b"whole"
    assert set(hidden(tmp_path)) == set(others)


def test_stale_parts_that_are_links_or_pipes_stay(tmp_path):
    victim, old = tmp_path / "victim", (time.time() - 100_000,) * 2
    victim.write_bytes(b"precious")
    link, pipe = (tmp_path / f".out.{sign * 16}.part" for sign in "ab")
    link.symlink_to(victim)
    os.mkfifo(pipe)
    os.utime(link, old, follow_symlinks=False)
    os.utime(pipe, old)
    with write_whole(tmp_path / "out") as file:
        file.write(b"whole")
    assert set(hidden(tmp_path)) == {link, pipe}
    assert victim.read_bytes() == b"precious"


def test_names_of_any_length(tmp_path):
    for name in ("ä" * 127, "x" * 255, "\udcff", "a"):
        path = tmp_path / name
        with write_whole(path) as file:
            file.write(b"1")
        assert path.read_bytes() == b"1"
    assert not hidden(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_clean_up(tmp_path, number):
    program = f"from culpa._core.interrupts import run_interruptible\nrun_interruptible(lambda: exec({WRITER!r}))"
    with subprocess.Popen([sys.executable, "-c", program, tmp_path / "out"], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(number)
        began = time.monotonic()
    assert process.returncode == 128 + number
    assert time.monotonic() - began < 10
    assert list(tmp_path.iterdir()) == []


def interrupted_at(instruction, run):
    """Whether ``run`` was interrupted at an instruction of Python, counted from 1; false if it has fewer."""
    n = 0

    def trace(frame, event, argument):
        nonlocal n
        frame.f_trace_opcodes = True
        n += event == "opcode"
        if n == instruction:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that Python closes by itself
def test_an_interrupt_at_any_instruction_leaves_nothing_behind(tmp_path):
    path, instruction = tmp_path / "out", 1

    def write():
        with write_whole(path, force=True) as file:
            file.write(b"new")

    path.write_bytes(b"old")
    while interrupted_at(instruction, write):
        remove_unfinished()  # as commands do
        assert [each.name for each in tmp_path.iterdir()] == ["out"], instruction
        assert path.read_bytes() in (b"old", b"new")
        instruction += 1
    assert instruction > 100
    assert path.read_bytes() == b"new"
