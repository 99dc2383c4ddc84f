"""No output is an input, another output or finished work, by whatever name; and some appear whole."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers import SCORED, TOKUR
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.outputs import check_files, check_target, replacing, writing_whole


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
        check_files(inputs, [(name, False) for name in outputs])
    except UsageError as error:
        return str(error).split(": ")[0]
    return None


def test_check_files_knows_a_file_by_each_of_its_names(names, monkeypatch):
    for output in names:
        assert [refused([source], ["new", output]) for source in names] == [output] * len(names)
        assert refused(["other", "nowhere"], [output]) is None
        assert refused([], ["other", output, "hard"]) == "hard"
    assert refused(["new"], ["here/new"]) == "here/new"
    assert refused([os.devnull, "-", "data"], [os.devnull, "-", os.devnull]) is None
    with open("hard", encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert [refused(["-"], [name]) for name in (*names, "other")] == [*names, None]
    with open("hard", "a", encoding="utf-8") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        assert refused(["soft"], []) == "standard output"
        assert (refused([], ["soft"]), refused([], ["soft", "-"])) == ("soft", "standard output")


def test_check_target_refuses_what_would_be_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("full").write_text("{}\n")
    for path, options, said in (
        ("full", {"force": False}, "give --force to replace it, or another name"),
        ("full", {"force": False, "resume": False}, "give --resume to continue it, --force to replace it"),
        ("new.gz", {"force": False}, "would hold plain text"),
        ("page.html", {"force": False}, "would hold plain text"),
    ):
        with pytest.raises(UsageError, match=said):
            check_target(path, **options)
    check_target("full", force=True)
    check_target("new", force=False, resume=True)


def test_check_files_names_what_is_wrong_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    check_files([], [("new/folder", True)])
    rows = [("no/x", False, "folder"), (".", False, "file"), ("new/", False, "folder"), ("file/x", True, "folder")]
    for name, is_folder, kind in rows:
        with pytest.raises(TokurError, match=f"{name}: cannot be written: .* is no {kind} that may be written"):
            check_files([], [(name, is_folder)])


def test_heatmap_finds_a_shell_that_leads_standard_output_into_the_input(tmp_path):
    shutil.copy(SCORED, tmp_path / "s.jsonl")
    with open(tmp_path / "s.jsonl", "rb") as stdin, open(tmp_path / "s.jsonl", "ab") as stdout:
        command = [*TOKUR, "heatmap", "s.jsonl"]
        run = subprocess.run(command, cwd=tmp_path, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (run.returncode, run.stderr.startswith(b"tokur heatmap: standard output: is also an input")) == (2, True)
    assert (tmp_path / "s.jsonl").read_bytes() == SCORED.read_bytes()


# --- whole or not at all ---


@pytest.mark.parametrize("kind", ["files", "folders"])
def test_replacing_gives_the_old_or_the_new_but_never_a_piece(kind, tmp_path):
    target = tmp_path / kind / ("ü" * 120)
    inside = target / "piece" if kind == "folders" else target

    def make(place, text):
        if kind == "folders":
            place.mkdir()
            place /= "piece"
        place.write_text(text)

    if kind == "folders":
        target.mkdir(parents=True)
    for text in ("first", "second") if kind == "files" else ("second",):
        with replacing(target) as new:
            make(new, text)
            assert not inside.exists() or inside.read_text() == "first"
        assert inside.read_text() == text
    with pytest.raises(ValueError, match="after a piece"), replacing(target) as new:  # noqa: PT012
        make(new, "third")
        raise ValueError("after a piece")
    with pytest.raises(FileNotFoundError), replacing(target):
        pass  # nothing was made that could take its place
    assert inside.read_text() == "second"
    assert os.listdir(tmp_path / kind) == [target.name]
    if kind == "folders":
        for made in (lambda new: new.write_text("a file"), lambda new: make(new, "a folder")):
            with pytest.raises(OSError, match=r"directory|not empty"), replacing(target) as new:
                made(new)
            assert inside.read_text() == "second"


@pytest.mark.parametrize("before", [None, "the old one\n"])
def test_writing_whole_keeps_the_old_file_until_the_end(before, tmp_path):
    page, other = tmp_path / "page", tmp_path / "link"
    other.symlink_to(page)
    if before is not None:
        page.write_text(before)
        page.chmod(0o600)
    with suppress(KeyboardInterrupt), writing_whole(str(page)) as file:
        file.write("a piece")
        raise KeyboardInterrupt
    assert (page.read_text() if page.exists() else None) == before
    with writing_whole(str(other)) as file:
        file.write("new ½\n")
    assert page.read_bytes() == "new ½\n".encode()
    assert other.is_symlink()
    assert before is None or page.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link", "page"]
    with open(tmp_path / "open", "wb", buffering=0) as file:  # whoever opened it goes on writing there
        with writing_whole(f"/dev/fd/{file.fileno()}") as text:
            text.write("page\n")
        file.seek(0, os.SEEK_END)
        file.write(b"more\n")
    assert (tmp_path / "open").read_bytes() == b"page\nmore\n"
