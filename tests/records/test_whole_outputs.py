"""Outputs that cannot be continued appear when they are complete; what a kill left, the next run removes."""

import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.helpers import SCORED
from tests.records.test_outputs import tokur
from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import replacing, writing_whole
from tokur_cli.records.record import Record
from tokur_cli.records.writer import open_output

RECORD = Record.parse(b'{"a":1}', None, None)
COMMANDS = {
    "select": ["select", "--by", "eu_mean", "-o"],
    "grouped": ["select", "--grouped", "--by", "eu_mean", "-o"],
    "evaluate": ["evaluate", "--bootstrap", "0", "--graded"],
    "heatmap": ["heatmap", "--limit", "1", "-o"],
}
KILLED = """
import os, signal, sys
from tokur_cli.app import main
from tokur_cli.records import writer

moment = int(sys.argv[1])

class Killing(writer.RecordWriter):
    written = 0
    def write_line(self, line):
        if self.written == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        super().write_line(line)
        Killing.written += 1

writer.RecordWriter = Killing
sys.argv = ["tokur", *sys.argv[2:]]
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_killed_run_leaves_the_old_file_and_the_next_run_removes_what_it_left(command, tmp_path):
    for before, force in ((None, ()), ("mine\n", ("--force",))):
        out = tmp_path / "out"
        if before is not None:
            out.write_text(before)
        run = subprocess.run(
            [sys.executable, "-c", KILLED, "2", *command, "out", SCORED, *force], cwd=tmp_path, check=False
        )
        assert run.returncode == -signal.SIGKILL
        assert (out.read_text() if out.exists() else None) == before
        assert len(os.listdir(tmp_path)) == 1 + (before is not None)
    assert tokur(*command, "out", SCORED, "--force", cwd=tmp_path).returncode == 0
    assert os.listdir(tmp_path) == ["out"]
    assert len(out.read_text().splitlines()) > 2


@pytest.mark.parametrize("before", [None, b"old\n"])
def test_a_whole_output_is_the_old_file_until_the_end(before, tmp_path):
    out, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to(out)
    if before is not None:
        out.write_bytes(before)
        out.chmod(0o640)
    with open_output(str(link), force=True, whole=True) as writer:
        writer.write(RECORD)
        assert (out.read_bytes() if out.exists() else None) == before
    assert out.read_bytes() == b'{"a":1}\n'
    assert link.is_symlink()
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(out.stat().st_mode) == (0o640 if before else stat.S_IMODE(plain.stat().st_mode))
    with suppress(KeyboardInterrupt), open_output(str(out), force=True, whole=True) as writer:
        writer.write(RECORD)
        writer.write(RECORD)
        raise KeyboardInterrupt
    assert out.read_bytes() == b'{"a":1}\n'
    assert sorted(os.listdir(tmp_path)) == ["link", "out", "plain"]


def test_a_file_by_the_name_of_a_descriptor_is_written_in_place(tmp_path):
    """Whoever opened it goes on writing there."""
    with open(tmp_path / "out", "wb", buffering=0) as file:
        name = f"/dev/fd/{file.fileno()}"
        with open_output(name, whole=True) as writer:
            writer.write(RECORD)
        file.seek(0, os.SEEK_END)
        file.write(b"more\n")
    assert (tmp_path / "out").read_bytes() == b'{"a":1}\nmore\n'
    with open(tmp_path / "page", "wb", buffering=0) as file:
        with writing_whole(f"/dev/fd/{file.fileno()}") as page:
            page.write("page\n")
        file.seek(0, os.SEEK_END)
        file.write(b"more\n")
    assert (tmp_path / "page").read_bytes() == b"page\nmore\n"


def test_a_full_disk_and_a_place_that_cannot_be_written_are_errors_with_the_name(tmp_path):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (  # noqa: PT012
        pytest.raises(TokurError, match="out: cannot be written: File too large"),
        open_output(str(tmp_path / "out"), whole=True) as writer,
    ):
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
        try:
            for _ in range(9):
                writer.write(RECORD)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []
    with pytest.raises(TokurError, match=r"no/out: cannot be written: No such file or directory"):
        open_output(str(tmp_path / "no" / "out"), whole=True)
    with pytest.raises(TokurError, match="Is a directory"):
        open_output(str(tmp_path), whole=True)


@pytest.mark.parametrize("length", [100, 230, 255])
def test_names_may_be_as_long_as_the_file_system_takes_them(length, tmp_path):
    name = "ü" * (length // 2 - 5) + "[*]?"
    with open_output(str(tmp_path / name), whole=True) as writer:
        writer.write(RECORD)
    with writing_whole(str(tmp_path / name)) as file:
        file.write("page")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
def test_a_kill_while_a_folder_is_replaced_loses_neither_and_its_remains_are_removed(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from tokur_cli.records.outputs import replacing
moment = sys.argv[1]
place = Path.replace
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL) if moment == "placing" else place(*_)
with replacing(Path("folder")) as new:
    new.mkdir()
    (new / "part").write_text("new")
    if moment == "making":
        os.kill(os.getpid(), signal.SIGKILL)
"""
    for moment in ("making", "placing"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / "part").write_text("old")
        run = subprocess.run([sys.executable, "-c", code, moment], cwd=tmp_path, check=False)
        assert run.returncode == -signal.SIGKILL
        with pytest.raises(ValueError, match="no new one"), replacing(tmp_path / "folder"):
            raise ValueError("no new one")
        assert (tmp_path / "folder" / "part").read_text() == "old"
        assert os.listdir(tmp_path) == ["folder"]
