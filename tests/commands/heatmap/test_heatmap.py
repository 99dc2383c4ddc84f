"""The heatmap command in this process: what is chosen, scaled, painted, passed on and refused."""

import json
import os
import re
import select
import shutil
import signal
import sys
import xml.etree.ElementTree as ET
from contextlib import suppress

import numpy as np
import pytest

from tests.helpers import SCORED, TOKUR, page_data, parsed, write_lines
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES
from tokur_cli.views.heatmap.style import BACKGROUNDS


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch):
    for name in ("COLUMNS", "COLORTERM", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def real():
    return [json.loads(line) for line in SCORED.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("columns", ["80", "0"])
def test_heatmap_the_scale_is_that_of_the_whole_input_whatever_is_shown(run_tokur, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    everything = np.concatenate([record["tokur"]["tokens"]["eu"] for record in real()])
    end = np.quantile(everything, 0.99, method="lower")
    choices = [], ["--id", "word-004"], ["--only", "correct"], ["--limit", 1, "--by", "EU"], ["--compare"]
    legends = [re.split("── |Lena has 8 books", run_tokur("heatmap", SCORED, *choice)[1])[0] for choice in choices]
    assert len(set(legends)) == 1
    assert f"of {len(everything)} tokens" in " ".join(legends[0].split())
    assert float(re.search(r"([\d.]+) uncertain", legends[0])[1]) == pytest.approx(end, rel=0.006)
    assert float(re.search(r"▁(\S+)", legends[0])[1]) == pytest.approx(everything.min(), abs=1e-3)


def test_heatmap_a_page_switches_between_all_quantities_with_the_asked_ones_first(run_tokur, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = run_tokur("heatmap", SCORED, "--score", "tu,logprob", "--html", page)
    assert (code, out, err) == (0, "", "")
    head, *lines = page_data(page.read_text(encoding="utf-8"))
    names = [quantity["name"] for quantity in head["quantities"]]
    assert names == ["tu", "logprob", *[name for name in QUANTITIES if name not in {"tu", "logprob", *ON_DEMAND}]]
    assert [line["title"].split(" ")[0] for line in lines[::2]] == [record["id"] for record in real()]
    assert "Heat map of scored.jsonl" in page.read_text(encoding="utf-8")


def test_heatmap_a_figure_is_well_formed_and_holds_the_chosen_text(run_tokur, tmp_path):
    figure = tmp_path / "figure.svg"
    code, out, err = run_tokur("heatmap", SCORED, "--compare", "--limit", 1, "--svg", figure)
    assert (code, out, err) == (0, "", "")
    svg = figure.read_text(encoding="utf-8")
    text = "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")
    assert "✓ correct" in text
    assert "✗ incorrect" in text
    assert set(re.findall('fill="(#[0-9a-f]{6})"', svg)) >= set(BACKGROUNDS["light"][1:4])
    assert svg.count("http") == 1, "the name of SVG: nothing is loaded"


def test_heatmap_step_with_a_null_token_has_no_sum_as_in_steps(run_tokur, tmp_path):
    text = "So 2 + 2 = 4. Then 5."
    tokens = {"offsets": [[0, 13], [13, 18], [18, 21]], "eu": [0.5, None, 0.25]}
    record = {"id": "q", "response": text, "tokur": {"tokens": tokens, "scores": {}}}
    path = write_lines(tmp_path / "null.jsonl", [record])
    _, out, _ = run_tokur("heatmap", path)
    assert re.search(r"▶ 1 +1 +0\.50+ +0\.50+ ", out)
    assert re.search(r" 2 +2 +· +· +Then 5\.", out)
    run_tokur("heatmap", path, "--html", tmp_path / "page.html")
    sums = page_data((tmp_path / "page.html").read_text(encoding="utf-8"))[2]["sums"][0]
    assert sums[1] == "–"


def test_heatmap_a_page_has_no_value_that_is_too_large_for_it(run_tokur, tmp_path):
    tokens = {"offsets": [[0, 1], [1, 2]], "eu": [1e308, 0.5]}
    path = write_lines(tmp_path / "in.jsonl", [{"id": "q", "response": "ab", "tokur": {"tokens": tokens}}])
    code, _, err = run_tokur("heatmap", path, "--html", tmp_path / "page.html")
    assert (code, page_data((tmp_path / "page.html").read_text(encoding="utf-8"))[2]["values"][0][0]) == (0, None), err


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
            os.execve(sys.executable, [*TOKUR, "heatmap", *map(str, arguments)], environment(**changes))
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


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_heatmap_long_output_is_paged_and_quitting_the_pager_is_a_normal_end(long_file):
    terminal = Terminal(long_file)
    terminal.read_until(rb"\n:|\x1b\[K:|:\x1b\[K|press h")
    assert b"q5 " not in terminal.seen
    assert b"48;5;" in terminal.seen, "colours reach the terminal through the pager"
    terminal.send(b"q")
    assert terminal.finish() == 0
    assert b"q399" not in terminal.seen
    assert b"Traceback" not in terminal.seen
