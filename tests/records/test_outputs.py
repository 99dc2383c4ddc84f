"""No output is one of the inputs, by whatever name, none is written over another, and some appear whole."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tokur_cli.records.outputs import overwritten, replacing, written_twice

SCORED = Path(__file__).parent.parent / "data" / "scored.jsonl"


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


def test_a_file_is_known_by_each_of_its_names(names):
    for output in names:
        for source in names:
            assert overwritten(["other", output], [None, "-", source]) == output
        assert overwritten([output], ["other", "nowhere"]) is None
        assert written_twice([output, "other", "hard"]) == output
    assert written_twice(["data", "other"]) is None


def test_standard_input_is_the_file_that_it_comes_from(names, monkeypatch):
    with open("hard", encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert [overwritten([name], ["-"]) for name in (*names, "other")] == [*names, None]


def test_a_file_that_is_not_there_yet_is_known_by_its_path(names):
    assert overwritten(["here/new"], ["new"]) == "here/new"
    assert written_twice(["new", "./here/new"]) == "new"
    assert overwritten(["new"], names) is None


def test_devices_and_standard_output_can_be_input_too(names):
    assert overwritten([os.devnull, "-", None], [os.devnull, "-", "data"]) is None
    assert written_twice(["-", "data", "-"]) == "-"


@pytest.mark.parametrize(
    "options", [["heatmap", "--html"], ["heatmap", "--svg"], ["evaluate", "--bootstrap", "0", "-o"]]
)
def test_a_command_does_not_destroy_what_it_reads(options, tmp_path):
    for source, output in (("-", "s.jsonl"), ("s.jsonl", "hard"), ("-", "hard")):
        shutil.copy(SCORED, tmp_path / "s.jsonl")
        (tmp_path / "hard").unlink(missing_ok=True)
        os.link(tmp_path / "s.jsonl", tmp_path / "hard")
        command = [sys.executable, "-m", "tokur_cli", *options, output, source]
        with open(tmp_path / "s.jsonl", "rb") as stdin:
            run = subprocess.run(command, cwd=tmp_path, stdin=stdin, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout) == (2, "")
        assert f"{output}: " in run.stderr
        assert "would be written over" in run.stderr
        assert (tmp_path / "s.jsonl").read_bytes() == SCORED.read_bytes()


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
