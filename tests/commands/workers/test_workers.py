"""``score`` with workers of real Ray, as a user runs it: the bytes of one process, whatever is killed."""

import json
import os
import random
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

from tests.helpers import finish, parsed, records, start, wait_for_lines, write_lines
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.windows import ScoreStream
from tokur_cli.commands.session.work import none_written
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record

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


def said(err):
    """The lines on standard error, but for the first, which says what is loaded."""
    assert err.startswith("tokur score: loading ")
    return err.splitlines()[1:]


@pytest.mark.slow
def test_two_workers_write_the_bytes_of_one_process_from_a_pipe_and_say_nothing(
    run_tokur, tiny_folder, tmp_path, temporary
):
    given = write_lines(tmp_path / "in.jsonl", records(300))
    run_tokur("score", given, "-m", tiny_folder, "-o", tmp_path / "one.jsonl", *SMALL_BATCHES)
    with given.open("rb") as pipe:
        code, out, err = finish(["score", "-m", tiny_folder, "--workers", 2, *SMALL_BATCHES], stdin=pipe)
    assert (code, said(err)) == (0, [])
    assert out == (tmp_path / "one.jsonl").read_text()
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_workers_killed_at_four_moments_leave_the_bytes_of_one_process(run_tokur, tiny_folder, tmp_path, temporary):
    rng = random.Random(0)
    given = write_lines(tmp_path / "in.jsonl", records(2400))
    run_tokur("score", given, "-m", tiny_folder, "-o", tmp_path / "one.jsonl", *SMALL_BATCHES)
    process = start(
        ["score", given, "-m", tiny_folder, "--workers", 2, *SMALL_BATCHES, "-o", tmp_path / "two.jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    kills = 0
    for number in range(4):
        moment = 300 * number + rng.randint(1, 100)  # apart by more than a window, so that none is hit three times
        wait_for_lines(tmp_path / "two.jsonl", moment, process)
        while process.poll() is None and not (workers := workers_of(process)):
            time.sleep(0.01)
        rng.choice(workers).kill()
        kills += 1
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, kills) == (0, b"", 4), err
    assert set(said(err.decode())) == {
        f"tokur score: a worker on {os.uname().nodename} died; another one takes its place and repeats its work"
    }
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.slow
def test_a_killed_run_leaves_no_process_and_resuming_it_gives_the_bytes_of_one(
    run_tokur, tiny_folder, tmp_path, temporary
):
    given = write_lines(tmp_path / "in.jsonl", [*records(400), b"broken\n", *records(300, seed=1)])
    command = ["score", given, "-m", tiny_folder, "--skip-invalid", *SMALL_BATCHES]
    assert run_tokur(*command, "-o", tmp_path / "one.jsonl")[0] == 3
    output = tmp_path / "two.jsonl"
    process = start([*command, "-o", output, "--workers", 2], stderr=subprocess.DEVNULL)
    wait_for_lines(output, 50, process)
    process.kill()
    process.wait()
    written = output.read_bytes()
    assert 50 <= written.count(b"\n") < 700
    code, _, err = finish([*command, "-o", output, "--workers", 2, "--resume"])
    assert code == 3
    bad, count = said(err)
    assert bad.startswith(f"tokur score: {given}:401: is not valid JSON")
    assert count == "tokur score: skipped 1 invalid record"
    assert output.read_bytes() == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "own_session", "code", "last"),
    [  # the test in a terminal has the fourth
        (signal.SIGINT, True, 130, ["tokur score: interrupted: {output} keeps what is done: go on with --resume"]),
        (signal.SIGTERM, False, 143, []),
        (signal.SIGTERM, True, 143, []),
    ],
)
def test_signals_end_all_with_whole_records(tiny_folder, tmp_path, temporary, number, own_session, code, last):
    given = write_lines(tmp_path / "in.jsonl", records(20_000))
    output = tmp_path / "out.jsonl"
    arguments = ["score", given, "-m", tiny_folder, "-o", output, "--workers", 2, *SMALL_BATCHES]
    process = start(arguments, stderr=subprocess.PIPE, start_new_session=own_session)
    wait_for_lines(output, 3, process)
    if own_session:  # as a terminal's Ctrl-C and "timeout" do
        [raylet] = [child for child in psutil.Process(process.pid).children() if child.name() == "raylet"]
        apart = os.getpgid(raylet.pid) != process.pid
        assert apart or sys.platform != "linux", "the signal would end Ray, and Ray us, before we have tidied up"
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, said(err.decode())) == (code, [line.format(output=output) for line in last])
    assert output.read_bytes().endswith(b"}\n")
    assert 3 <= len(parsed(output.read_text())) < 20_000
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_a_closed_pipe_ends_all_quietly_though_the_input_is_open(tiny_folder, tmp_path, temporary):
    given = write_lines(tmp_path / "in.jsonl", records(5000))
    command = ["score", "-m", tiny_folder, "--workers", 2, *SMALL_BATCHES]
    process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(given.read_bytes()[:50_000])  # what a pipe holds: it may write before it has read them all
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == "q0"
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert said(process.stderr.read().decode()) == []


def test_records_that_no_worker_outlives_are_errors_by_line(capsys):
    class Dying:
        device = "cpu"

        def map(self, tasks, lost):
            return ((task, lost(task)) for task in tasks)

    given = [Record.parse(b'{"response": "a"}', "in.jsonl", 1), RecordError("is bad", "in.jsonl", 2)]
    invalid = InvalidRecords("score", skip=True)
    written = ScoreStream(Dying(), ScoringOptions(), Progress("score"), invalid).lines(given, none_written)
    assert (list(written), invalid.count) == ([], 2)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("tokur score: in.jsonl:1: 3 workers died while they scored it")
    assert second == "tokur score: in.jsonl:2: is bad"


def test_without_ray_one_line_names_the_extra(run_tokur, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", records(1)), "--workers", 2)
    assert (code, out) == (2, "")
    assert err == "tokur score: several workers, or a cluster, need Ray: pip install 'tokur[ray]'\n"


def test_a_cluster_that_is_not_there_is_refused_at_once_with_one_line(run_tokur, tiny_folder, monkeypatch, tmp_path):
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
