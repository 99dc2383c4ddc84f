"""Commands with workers of real Ray, as a user runs it: the bytes of one process, whatever is killed."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from tests.helpers import questions, records, start, wait_for_lines, write_lines

SMALL_BATCHES = ["--batch-tokens", 600]


@pytest.fixture
def temporary(monkeypatch):
    """A folder for temporary files, whose name is short enough for Ray; at the end no process that has it is left."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    deadline = time.monotonic() + 10
    while (left := ours(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    shutil.rmtree(folder)
    assert left == []


def ours(folder):
    """The processes that have the folder for temporary files, but for this one and what it renders templates with."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpid() not in (process.pid, process.ppid()) and process.environ().get("TMPDIR") == str(folder):
                found.append(process.cmdline())
        except psutil.Error:
            continue
    return found


def workers_of(process):
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if child.cmdline()[0].startswith("ray::Worker.process")]
    except (psutil.Error, IndexError):
        return []


@pytest.mark.slow
def test_workers_one_of_which_is_killed_generate_and_score_the_bytes_of_one_process(
    run_tokur, tiny_folder, tmp_path, temporary
):
    rows = [{**row, "id": None} if row["level"] % 7 == 0 else row for row in questions(48)]
    asked = write_lines(tmp_path / "in.jsonl", [*rows[:16], b"broken\n", *rows[16:]])
    command = ["generate", asked, "-m", tiny_folder, "-n", 3, "--temperature", 1, "--max-new-tokens", 20]
    command += ["--score", "--dtype", "float32", "--skip-invalid", "-o"]
    assert run_tokur(*command, tmp_path / "one.jsonl")[0] == 3
    process = start([*command, tmp_path / "two.jsonl", "--workers", 2], stderr=subprocess.PIPE)
    while process.poll() is None and not (workers := workers_of(process)):
        time.sleep(0.01)
    workers[0].kill()
    _, err = process.communicate(timeout=300)
    died = f"tokur generate: a worker on {os.uname().nodename} died; another one takes its place and repeats its work\n"
    assert (process.returncode, died in err.decode(), err.count(b"\n")) == (3, True, 4), err
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.slow
def test_workers_interrupted_in_a_terminal_end_with_whole_records(run_tokur, tiny_folder, tmp_path, temporary):
    few, output = write_lines(tmp_path / "few.jsonl", records(50)), tmp_path / "out.jsonl"
    _, one, _ = run_tokur("score", few, "-m", tiny_folder, *SMALL_BATCHES)
    given = write_lines(tmp_path / "in.jsonl", records(20_000))
    arguments = ["score", given, "-m", tiny_folder, "-o", output, "--workers", 2, *SMALL_BATCHES]
    process = start(arguments, stderr=subprocess.PIPE, start_new_session=True)
    wait_for_lines(output, 3, process)
    [raylet] = [child for child in psutil.Process(process.pid).children() if child.name() == "raylet"]
    apart = os.getpgid(raylet.pid) != process.pid
    assert apart or sys.platform != "linux", "the signal would end Ray, and Ray us, before we have tidied up"
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    last = f"tokur score: interrupted: {output} keeps what is done: go on with --resume"
    assert (process.returncode, err.decode()) == (130, f"tokur score: loading {tiny_folder}\n{last}\n")
    assert output.read_bytes().endswith(b"}\n")
    found = output.read_text().splitlines()
    assert 3 <= len(found) < 20_000
    assert found[:50] == one.splitlines()[: len(found[:50])]
    assert list(temporary.iterdir()) == []


def test_workers_without_their_cluster_are_refused_at_once_with_one_line(run_tokur, tiny_folder, monkeypatch, tmp_path):
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", address := f"127.0.0.1:{taken.getsockname()[1]}")
        given = write_lines(tmp_path / "in.jsonl", records(1))
        code, out, err = run_tokur("score", given, "-m", tiny_folder, "--workers", 2)
    assert (code, out) == (1, "")
    reason = "Connection refused"
    assert (
        err.splitlines()[-1]
        == f"tokur score: the cluster at {address} can't be reached ({reason}): does Ray run there?"
    )
