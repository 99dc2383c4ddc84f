"""No output is an input, another output or finished work, by whatever name; and some appear whole."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers import SCORED
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import Replacement, check_files, replacing, writing_whole


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Every kind of name of one file, and one of another file."""
    monkeypatch.chdir(tmp_path)
    Path("data").write_text("{}\n")
    Path("other").write_text("{}\n")
    os.link("data", "hard")
    os.symlink("data", "soft")
    os.symlink(".", "here")
    return ["data", "./data", str(tmp_path / "data"), "hard", "soft", "here/hard"]


def refused(inputs, outputs):
    """Return which output is refused; None where all may be written."""
    try:
        check_files(inputs, outputs)
    except UsageError as error:
        return str(error).split(": ")[0]
    return None


def test_a_file_is_known_by_each_of_its_names(names):
    for output in names:
        for source in names:
            assert refused([source], ["new", output]) == output
        assert refused(["other", "nowhere"], [output]) is None
        assert refused([], ["other", output, "hard"]) == "hard"
    assert refused([], ["data", "other"]) is None


def test_standard_input_is_the_file_that_it_comes_from(names, monkeypatch):
    with open("hard", encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert [refused(["-"], [name]) for name in (*names, "other")] == [*names, None]


def test_standard_output_is_the_file_that_it_goes_to(names, monkeypatch):
    with open("hard", "a", encoding="utf-8") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        for name in names:
            assert refused([name], []).startswith(f"standard output goes to {name}, which is read")
            assert refused([], [name]) == name
            assert refused([], [name, "-"]) == "standard output"
        assert refused(["other"], ["-", "new"]) is None


def test_a_file_that_is_not_there_yet_is_known_by_its_path(names):
    assert refused(["new"], ["here/new"]) == "here/new"
    assert refused([], ["new", "./here/new"]) == "./here/new"
    assert refused(names, ["new"]) is None


def test_a_folder_that_is_read_stands_for_its_files_but_not_for_records_and_new_ones(names):
    Path("model").mkdir()
    for name in ("model/config.json", "model/old.jsonl"):
        Path(name).write_text("{}\n")
    os.symlink("model/config.json", "link")
    assert refused(["here/model"], ["model/config.json"]) == "model/config.json"
    assert refused(["model"], ["link"]) == "link"
    assert refused(["model"], ["model/old.jsonl"]) is None
    assert refused(["model"], ["model/new.json", "model/posterior"]) is None


def test_a_folder_is_not_replaced_with_an_input_in_it(names):
    Path("kept/part").mkdir(parents=True)
    os.link("data", "kept/part/trial")
    assert refused(["kept/part/trial"], ["here/kept"]) == "here/kept"
    assert refused(["data"], ["kept"]) is None, "the file has another name"
    assert refused(["kept"], ["kept"]) == "kept"


def test_devices_and_standard_output_can_be_input_too(names):
    assert refused([os.devnull, "-", "data"], [os.devnull, "-", os.devnull]) is None
    assert refused([], ["-", "data", "-"]) == "standard output"


def tokur(*arguments, cwd, **streams):
    command = [sys.executable, "-m", "tokur_cli", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, text=True, check=False, timeout=120, **{"stderr": subprocess.PIPE, **streams}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [["heatmap", "--html"], ["heatmap", "--svg"], ["evaluate", "--bootstrap", "0", "-o"],
                ["select", "--force", "-o"], ["evaluate", "--force", "--graded"]]
)  # fmt: skip
def test_a_command_does_not_destroy_what_it_reads(options, tmp_path):
    for source, output in (("-", "s.jsonl"), ("s.jsonl", "hard"), ("-", "hard")):
        shutil.copy(SCORED, tmp_path / "s.jsonl")
        (tmp_path / "hard").unlink(missing_ok=True)
        os.link(tmp_path / "s.jsonl", tmp_path / "hard")
        with open(tmp_path / "s.jsonl", "rb") as stdin:
            run = tokur(*options, output, source, cwd=tmp_path, stdin=stdin, stdout=subprocess.PIPE)
        assert (run.returncode, run.stdout) == (2, "")
        assert f"{output}: " in run.stderr
        assert "would be written over" in run.stderr
        assert (tmp_path / "s.jsonl").read_bytes() == SCORED.read_bytes()


@pytest.mark.parametrize("mode", ["ab", "wb", "r+b"])
def test_a_shell_that_leads_standard_output_into_the_input_is_found_out(mode, tmp_path):
    shutil.copy(SCORED, tmp_path / "s.jsonl")
    for source in ("s.jsonl", "-"):
        with open(tmp_path / "s.jsonl", "rb") as stdin, open(tmp_path / "s.jsonl", mode) as stdout:
            run = tokur("heatmap", "-o", "-", source, cwd=tmp_path, stdin=stdin, stdout=stdout)
        assert run.returncode == 2
        assert run.stderr.startswith("tokur heatmap: standard output goes to ")
        assert (tmp_path / "s.jsonl").read_bytes() == (b"" if mode == "wb" else SCORED.read_bytes())


# ---- finished work --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["score", "generate"])
def test_a_pipe_cannot_be_resumed_and_is_not_waited_for(command, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    run = tokur(command, SCORED, "-o", "pipe", "--resume", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (
        2,
        f"tokur {command}: pipe: is not a regular file: --resume cannot continue it\n",
    )


def test_a_file_that_cannot_be_written_is_an_error_before_anything_is_read(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    for name, reason in {
        "no/x": "cannot be written: No such file or directory",
        ".": "is a directory: give a file's name",
        "locked/x": "cannot be written: Permission denied",
    }.items():
        if name == "locked/x" and os.access(tmp_path / "locked", os.W_OK):
            continue  # root may write everywhere
        run = tokur("score", "nowhere", "-o", name, cwd=tmp_path)
        assert (run.returncode, run.stderr) == (1, f"tokur score: {name}: {reason}\n")


def test_a_file_takes_no_folders_place(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/precious").write_text("years of work")
    monkeypatch.chdir(tmp_path / "mine")
    for name in (tmp_path / "mine", Path("")):
        with pytest.raises(OSError, match="directory"), replacing(Path(os.path.realpath(name))) as new:
            new.write_text("a page")
    replacement = Replacement("")
    with pytest.raises(OSError, match="directory"):
        replacement.put()
    replacement.close()
    assert Path("precious").read_text() == "years of work"
    assert sorted(os.listdir(tmp_path)) == ["mine"]


def make(place, text):
    if place.parent.parent.name == "folders":
        place.mkdir()
        place /= "part"
    place.write_text(text or "a part")
    if text is None:
        raise ValueError("after a part")


@pytest.mark.parametrize("kind", ["files", "folders"])
def test_what_is_replaced_is_the_old_or_the_new_but_never_a_part(kind, tmp_path):
    target = tmp_path / kind / "target"
    inside = target / "part" if kind == "folders" else target
    for text in ("first", "second"):
        with replacing(target) as unfinished:
            make(unfinished, text)
            assert not inside.exists() or inside.read_text() == "first"
        assert inside.read_text() == text
    with pytest.raises(ValueError, match="after a part"), replacing(target) as unfinished:
        make(unfinished, None)
    with pytest.raises(FileNotFoundError), replacing(target):
        pass  # nothing was made that could take its place
    assert inside.read_text() == "second"
    assert os.listdir(tmp_path / kind) == ["target"]


@pytest.mark.parametrize("before", [None, "the old one\n"])
def test_a_file_that_is_written_whole_is_the_old_one_until_the_end(before, tmp_path):
    page, other = tmp_path / "page", tmp_path / "link"
    other.symlink_to(page)
    if before is not None:
        page.write_text(before)
        page.chmod(0o600)
    with suppress(KeyboardInterrupt), writing_whole(str(page)) as file:
        file.write("a part")
        file.flush()
        raise KeyboardInterrupt
    assert (page.read_text() if page.exists() else None) == before
    with writing_whole(str(other)) as file:
        file.write("new ½\n")
        file.flush()
        assert (page.read_text() if page.exists() else None) == before
    assert page.read_bytes() == "new ½\n".encode()
    assert other.is_symlink()
    assert before is None or page.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link", "page"]


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
def test_a_page_whose_writing_is_killed_does_not_appear(tmp_path):
    """The process kills itself after each of the first writes to the page."""
    code = """
import os, signal, sys
from tokur_cli.records.outputs import writing_whole
with writing_whole("page.html") as file:
    for number in range(4):
        if number == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        file.write("x" * 100_000)
"""
    (tmp_path / "page.html").write_text("the old one")
    for moment in range(4):
        run = subprocess.run([sys.executable, "-c", code, str(moment)], cwd=tmp_path, check=False)
        assert run.returncode == -signal.SIGKILL
        assert (tmp_path / "page.html").read_text() == "the old one"
