"""The heatmap command as a process of its own: pipes, terminals, pagers, encodings, start-up, memory."""

import os
import re
import select
import shutil
import signal
import sys
from contextlib import suppress

import pytest

from tests.helpers import SCORED, parsed, write_lines

TOKUR = [sys.executable, "-m", "tokur_cli", "heatmap"]
pty = pytest.importorskip("pty", reason="pseudo-terminals are a thing of Unix")


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "COLORTERM", "LESS", "PAGER")}
    return {**kept, "TERM": "xterm-256color", **changes}


class Terminal:
    """The command on a pseudo-terminal of its own, with what it writes."""

    def __init__(self, *arguments, columns=100, lines=30, **changes):
        self.process, self.master = pty.fork()
        if self.process == 0:  # pragma: no cover - the child
            import fcntl
            import struct
            import termios

            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execve(sys.executable, [*TOKUR, *map(str, arguments)], environment(**changes))
        self.seen = b""

    def read_until(self, pattern):
        while not re.search(pattern, self.seen):
            assert self._read(), self.seen[-2000:]

    def _read(self):
        if not select.select([self.master], [], [], 30)[0]:
            os.kill(self.process, signal.SIGKILL)
            raise AssertionError(f"nothing more comes after {self.seen[-2000:]}")
        try:
            data = os.read(self.master, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            return False
        self.seen += data
        return bool(data)

    def send(self, keys):
        with suppress(OSError):  # the other end may just have been closed
            os.write(self.master, keys)

    def finish(self):
        while self._read():
            pass
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.fixture
def long_file(tmp_path):
    return write_lines(tmp_path / "long.jsonl", [{**parsed(SCORED.read_text())[0], "id": f"q{n}"} for n in range(400)])


@pytest.mark.parametrize(
    ("changes", "colour"),
    [
        ({}, rb"\x1b\[[\d;]*48;5;"),
        ({"TERM": "xterm"}, rb"\x1b\[1;32m .* correct"),
        ({"NO_COLOR": "1"}, rb"\x1b\[1m .* correct"),
    ],
)
def test_heatmap_a_terminal_has_the_colours_it_can_show_and_bars_where_they_cannot_show_the_steps(changes, colour):
    terminal = Terminal(SCORED, PAGER="cat", **changes)
    assert terminal.finish() == 0
    assert re.search(colour, terminal.seen)
    assert "NO_COLOR" not in changes or not re.search(rb"\x1b\[[\d;]*[34][\d;]+m", terminal.seen)
    assert ("▁▁▁".encode() in terminal.seen) == (b";48;" not in terminal.seen)


needs_less = pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")


@needs_less
def test_heatmap_long_output_is_paged_and_quitting_the_pager_is_a_normal_end(long_file):
    terminal = Terminal(long_file)
    terminal.read_until(rb"\n:|\x1b\[K:|:\x1b\[K")
    assert b"q5 " not in terminal.seen
    assert b"48;5;" in terminal.seen, "colours reach the terminal through the pager"
    terminal.send(b"q")
    assert terminal.finish() == 0
    assert b"q399" not in terminal.seen
    assert b"Traceback" not in terminal.seen
