"""Output of commands arrives whole, or the command fails, whatever Python and the system do with streams."""

import io
import os
import subprocess
import sys
import threading
import time

import pytest

from culpa._core.output import write_all

DATA = bytes(range(256)) * 40


class Parts(io.RawIOBase):
    """A raw file that takes up to 100 bytes at a time, and nothing every third time."""

    def __init__(self, descriptor=None, raises=False):
        self.got, self.calls, self.descriptor, self.raises = b"", 0, descriptor, raises

    def writable(self):
        return True

    def fileno(self):
        return super().fileno() if self.descriptor is None else self.descriptor

    def write(self, data):
        self.calls += 1
        if self.calls % 3 == 2 and self.raises:
            self.got += bytes(data[:7])
            raise BlockingIOError(11, "would block", 7)
        if self.calls % 3 == 2:
            return None
        self.got += bytes(data[:100])
        return len(data[:100])


@pytest.mark.parametrize("raises", [False, True])
def test_everything_is_written_part_by_part(raises, monkeypatch):
    monkeypatch.setattr("culpa._core.output._WAIT", 0.0)
    with open(os.devnull, "wb") as ready:
        for descriptor in (None, ready.fileno()):
            file = Parts(descriptor, raises)
            write_all(file, memoryview(DATA))
            assert file.got == DATA


PROGRAM = """
import sys
from culpa._core.output import make_streams_whole

make_streams_whole()
for k in range({lines}):
    sys.stdout.write(f"line {{k}} " + "x" * 90 + "\\n")
sys.stdout.flush()
print("done", file=sys.stderr)
"""
LINES = 5000
WHOLE = "".join(f"line {k} {'x' * 90}\n" for k in range(LINES)).encode()


def start(lines=LINES, unbuffered=False, **streams):
    environment = os.environ | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {})
    return subprocess.Popen([sys.executable, "-c", PROGRAM.format(lines=lines)], env=environment, **streams)


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_pipe_that_does_not_block_gets_everything(unbuffered):
    read, write = os.pipe()
    os.set_blocking(write, False)
    process = start(unbuffered=unbuffered, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    time.sleep(0.5)  # until the pipe is full
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == WHOLE
    assert (process.communicate()[1], process.returncode) == (b"done\n", 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_full_disk_is_an_error_and_messages_are_not(unbuffered):
    with open("/dev/full", "wb") as full:
        process = start(unbuffered=unbuffered, stdout=full, stderr=subprocess.PIPE)
        said = process.communicate()[1].decode()
        assert process.returncode == 1
        assert "OSError: [Errno 28] No space left on device: 'standard output'" in said
        assert "Exception ignored" not in said
        process = start(unbuffered=unbuffered, stdout=subprocess.PIPE, stderr=full)
        assert (process.communicate()[0], process.returncode) == (WHOLE, 0)


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_file_that_may_not_grow(tmp_path, unbuffered):
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    with (tmp_path / "out").open("wb") as file:
        process = start(unbuffered=unbuffered, stdout=file, stderr=subprocess.PIPE, preexec_fn=limit)
        assert "File too large: 'standard output'" in process.communicate()[1].decode()
    assert process.returncode == 1
    assert (tmp_path / "out").read_bytes() == WHOLE[:10_000]


def test_lines_arrive_one_by_one_where_python_is_unbuffered():
    process = start(lines=3, unbuffered=True, stdout=subprocess.PIPE)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout))
    reader.start()
    reader.join(30)
    process.stdout.close()
    assert (process.wait(), len(lines)) == (0, 3)
