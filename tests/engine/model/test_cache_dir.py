"""The cache folder, and placing a finished folder in it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tiny import tiny_model
from tokur_cli.engine.model.cache_dir import cache_folder, place_folder
from tokur_cli.records.errors import TokurError
from tokur_cli.records.unfinished import ABANDONED_AFTER_SECONDS


def write_weights(folder: Path) -> None:
    (folder / "weights").write_text("w")


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_tokur_cache_goes_before_xdg_which_goes_before_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("TOKUR_CACHE", "")
    assert cache_folder() == tmp_path / "xdg" / "tokur"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / "home" / ".cache" / "tokur"
    assert cache_folder().is_dir()


def test_a_cache_that_cannot_be_made_is_named_with_the_way_out(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOKUR_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(TokurError, match=r"cache folder .*file/cache can't be written .*set TOKUR_CACHE"):
        cache_folder()


def test_a_folder_is_built_once(tmp_path):
    target = tmp_path / "deep" / "model"
    assert place_folder(target, write_weights) == target
    assert place_folder(target, lambda folder: pytest.fail("built again")) == target
    assert names(target) == ["weights"]
    assert names(target.parent) == ["model"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has permissions")
def test_whoever_may_read_the_cache_may_read_its_models(tmp_path):
    """transformers writes weights that only their owner may read."""
    model = place_folder(tmp_path / "model", lambda folder: tiny_model("llama").save_pretrained(folder))
    (tmp_path / "ours").touch()
    assert (model / "model.safetensors").stat().st_mode == (tmp_path / "ours").stat().st_mode


def test_a_failed_build_leaves_nothing(tmp_path):
    def fail(folder: Path) -> None:
        write_weights(folder)
        raise ValueError("no such weights")

    with pytest.raises(ValueError, match="no such weights"):
        place_folder(tmp_path / "model", fail)
    assert names(tmp_path) == []


def test_what_a_kill_left_is_not_taken_for_complete(tmp_path):
    seen: list[Path] = []

    class Killed(BaseException):
        pass

    def killed(folder: Path) -> None:
        write_weights(folder)
        seen.append(folder)
        os.rename(folder, tmp_path / "elsewhere")  # so that the clean-up, which a kill would skip, finds nothing
        raise Killed

    with pytest.raises(Killed):
        place_folder(tmp_path / "model", killed)
    os.rename(tmp_path / "elsewhere", seen[0])
    assert not (tmp_path / "model").exists()
    assert names(place_folder(tmp_path / "model", write_weights)) == ["weights"]


def leave(place: Path, age: float, held: bool) -> subprocess.Popen[str]:
    """Start a build in another process; kill it in the middle unless it is `held`, and make what it left that old."""
    build = f"""
from pathlib import Path
from tokur_cli.engine.model.cache_dir import place_folder
def build(folder):
    print(folder, flush=True)
    input()
place_folder(Path({str(place)!r}), build)
"""
    process = subprocess.Popen([sys.executable, "-c", build], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    folder = process.stdout.readline().strip()
    if not held:
        process.kill()
        process.wait()
    os.utime(folder, (time.time() - age,) * 2)
    return process


def test_what_kills_left_is_removed_and_who_is_at_work_is_spared(tmp_path):
    at_work = leave(tmp_path / "model", ABANDONED_AFTER_SECONDS + 60, held=True)
    leave(tmp_path / "model", 0, held=False)
    assert len(names(tmp_path)) == 2
    place_folder(tmp_path / "model", write_weights)
    assert len(names(tmp_path)) == 2
    at_work.communicate("\n")
    assert at_work.returncode == 0
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["weights"]


def test_processes_that_begin_and_sweep_at_once_do_not_disturb_each_other(tmp_path):
    """Each of them makes, locks, sweeps and gives up 300 folders under the same name."""
    build = f"""
from pathlib import Path
from tokur_cli.engine.model.cache_dir import place_folder
def build(folder):
    (folder / "weights").write_text("w")
    assert (folder / "weights").read_text() == "w"
    raise KeyError
for _ in range(300):
    try:
        place_folder(Path({str(tmp_path / "model")!r}), build)
    except KeyError:
        pass
"""
    processes = [subprocess.Popen([sys.executable, "-c", build]) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert names(tmp_path) == []


def test_of_two_builders_the_first_wins(tmp_path):
    def slower(folder: Path) -> None:
        place_folder(tmp_path / "model", lambda winner: (winner / "first").touch())
        (folder / "second").touch()

    assert names(place_folder(tmp_path / "model", slower)) == ["first"]
    assert names(tmp_path) == ["model"]
