"""The heatmap command as a process of its own: pipes, terminals, pagers, encodings, start-up, memory."""

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.commands.heatmap.test_heatmap import REAL, scored, shown
from tests.helpers import write_lines

TOKUR = [sys.executable, "-m", "tokur_cli", "heatmap"]
pty = pytest.importorskip("pty", reason="pseudo-terminals are a thing of Unix")


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "COLORTERM", "LESS", "PAGER")}
    return {**kept, "TERM": "xterm-256color", **changes}


def shell(line, **changes):
    """Run a pipeline in bash; returns (exit codes of its parts, standard output, standard error)."""
    script = f'{line}\necho "codes ${{PIPESTATUS[@]}}" >&2'
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, env=environment(**changes), timeout=60, stdin=subprocess.DEVNULL
    )
    err, _, codes = done.stderr.decode().rpartition("codes ")
    return [int(code) for code in codes.split()], done.stdout, err


def command(*arguments):
    return shlex.join([*TOKUR, *map(str, arguments)])


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

    def is_open(self):
        """Read what comes within half a second, and whether more can come."""
        while select.select([self.master], [], [], 0.5)[0]:
            if not self._read():
                return False
        return True

    def finish(self):
        while self._read():
            pass
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.fixture
def long_file(tmp_path):
    return write_lines(tmp_path / "long.jsonl", [scored(number, text="yes or no? " * 20) for number in range(400)])


def test_head_has_enough_after_one_line_and_nothing_is_said(long_file):
    codes, out, err = shell(f"{command(long_file)} | head -1")
    assert codes == [0, 0]
    assert out.decode().startswith("eu  epistemic uncertainty, nats  shared colour scale: ")
    assert err == ""


def test_records_go_on_as_they_come():
    lines = REAL.read_bytes().splitlines(keepends=True)
    process = subprocess.Popen(
        [*TOKUR, "-o", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(lines[0])
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == json.loads(lines[0])
    process.stdin.write(lines[1])
    process.stdin.close()
    assert json.loads(process.stdout.readline()) == json.loads(lines[1])
    assert len(shown(process.stderr.read().decode())) == 2
    assert process.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("changes", "colour"),
    [
        ({}, rb"\x1b\[[\d;]*48;5;"),
        ({"COLORTERM": "truecolor"}, rb"\x1b\[[\d;]*48;2;"),
        ({"TERM": "xterm"}, rb"\x1b\[1;32m .* correct"),
        ({"NO_COLOR": "1"}, None),
        ({"TERM": "dumb"}, None),
    ],
)
def test_a_terminal_has_the_colours_it_can_show_and_bars_where_they_cannot_show_the_steps(changes, colour):
    terminal = Terminal(REAL, PAGER="cat", **changes)
    assert terminal.finish() == 0
    if colour:
        assert re.search(colour, terminal.seen)
    else:
        assert b"\x1b" not in terminal.seen
    assert ("▁▁▁".encode() in terminal.seen) == (b";48;" not in terminal.seen)


needs_less = pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")


@needs_less
def test_long_output_is_paged_and_quitting_the_pager_is_a_normal_end(long_file):
    terminal = Terminal(long_file)
    terminal.read_until(rb"\n:|\x1b\[K:|:\x1b\[K")
    assert b"q5 " not in terminal.seen
    assert b"48;5;" in terminal.seen, "colours reach the terminal through the pager"
    terminal.send(b"q")
    assert terminal.finish() == 0
    assert b"q399" not in terminal.seen
    assert b"Traceback" not in terminal.seen


@pytest.mark.slow
def test_another_pager_can_be_named(long_file):
    terminal = Terminal(long_file, PAGER="head -2")
    assert terminal.finish() == 0
    assert terminal.seen.count(b"\n") == 2
    for pager in ("cat", ""):
        terminal = Terminal(REAL, PAGER=pager)
        assert terminal.finish() == 0
        assert b"word-004" in terminal.seen


def test_ctrl_c_while_reading_exits_with_130_and_leaves_no_half_page(tmp_path):
    process = subprocess.Popen(
        [*TOKUR, "-", "--html", tmp_path / "page.html"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(REAL.read_bytes() * 4)  # more than a pipe holds, so that some is read
    process.stdin.flush()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert process.stderr.read() == b"tokur heatmap: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_heatmap_imports_nothing_heavy_and_starts_fast(tmp_path):
    code = """
import sys, runpy
sys.argv = ["tokur", "heatmap", *sys.argv[1:]]
try:
    runpy.run_module("tokur_cli", run_name="__main__")
finally:
    heavy = ("torch", "transformers", "accelerate", "sklearn", "numpy", "matplotlib")
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""

    def timed(*arguments):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", *arguments], capture_output=True, text=True, check=True)
        return time.perf_counter() - started, done.stderr

    seconds, of_libraries = [], []
    for options in ([], ["--html", tmp_path / "p.html"], ["--svg", tmp_path / "p.svg"], ["--compare"]):
        took, imported = timed(code, REAL, *options)
        assert imported == "[]\n"
        seconds.append(took)
        of_libraries.append(timed("import typer, pydantic, rich.console")[0])
    assert min(seconds) < 7 * min(of_libraries)
