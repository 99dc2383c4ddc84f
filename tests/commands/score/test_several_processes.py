"""``score`` on two processes: as launchers start them, and started by hand where single processes are killed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.commands.score.test_score import parsed, records, write_lines
from tests.commands.test_process import wait_for_lines

TOKUR = [sys.executable, "-m", "tokur_cli"]
SMALL_BATCHES = ["--batch-tokens", 600]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start_two(command, *, machines=1, of_rank_1=(), environment_of_rank_1=None, **options):
    """Start a command as a launcher would; both processes write to pipes of their own."""
    port = free_port()
    processes = []
    for rank in range(2):
        local_rank, local_size = (rank, 2) if machines == 1 else (0, 1)
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(local_size),
            **((environment_of_rank_1 or {}) if rank else {}),
        }  # fmt: skip
        arguments = [*map(str, command), *(map(str, of_rank_1) if rank else ())]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
        processes.append(subprocess.Popen([*TOKUR, *arguments], env=environment, **pipes))
    return processes


def finish(processes, timeout=120):
    """(exit codes, standard outputs, standard errors), by rank."""
    try:
        said = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], [out for out, _ in said], [err.decode() for _, err in said]


def two_cores():
    """Leave each of two processes one thread, as the process has that they are compared with."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def test_a_launcher_s_processes_write_the_bytes_of_one_process_from_a_pipe(run_tokur, tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", records(700))
    run_tokur("score", given, "-m", tiny_folder, "-o", tmp_path / "one.jsonl", *SMALL_BATCHES)
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    with given.open("rb") as pipe:
        done = subprocess.run(
            [*launcher, "-m", "tokur_cli", "score", "-m", str(tiny_folder), *map(str, SMALL_BATCHES)],
            stdin=pipe, capture_output=True, timeout=300, preexec_fn=two_cores, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert re.findall("tokur.*", done.stderr.decode()) == [f"tokur score: loading {tiny_folder}"]
    assert done.stdout == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.slow
def test_when_a_process_is_killed_all_end_and_resuming_gives_the_bytes_of_one_process(run_tokur, tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", [*records(900), b"broken\n", *records(700, seed=1)])
    command = ["score", given, "-m", tiny_folder, "--skip-invalid", *SMALL_BATCHES]
    code, _, _ = run_tokur(*command, "-o", tmp_path / "one.jsonl")
    assert code == 3
    expected = (tmp_path / "one.jsonl").read_bytes()
    output = tmp_path / "two.jsonl"
    lines = 0
    for victim in (1, 0):
        processes = start_two([*command, "-o", output, "--resume"])
        wait_for_lines(output, lines + 50, processes[0])
        processes[victim].kill()
        killed = time.monotonic()
        codes, _, errors = finish(processes)
        assert time.monotonic() - killed < 10
        assert codes[victim] == -signal.SIGKILL
        assert codes[1 - victim] == 1
        assert f"tokur score: process {victim}" in errors[1 - victim]
        assert "ended unexpectedly" in errors[1 - victim]
        assert "Traceback" not in "".join(errors)
        written = output.read_bytes()
        assert lines + 50 <= written.count(b"\n") < expected.count(b"\n")
        assert expected.startswith(written)
        lines = written.count(b"\n")
    codes, _, errors = finish(start_two([*command, "-o", output, "--resume"]))
    assert codes == [3, 3]
    assert errors[0].splitlines()[0].startswith(f"tokur score: {given}:901: is not valid JSON")
    assert errors[0].splitlines()[1:] == ["tokur score: skipped 1 invalid record"]
    assert errors[1] == ""
    assert output.read_bytes() == expected


@pytest.mark.slow
def test_a_bad_record_ends_all_after_those_before_it_with_one_message(run_tokur, tiny_folder, tmp_path):
    good = list(records(200))
    run_tokur("score", write_lines(tmp_path / "good.jsonl", good), "-m", tiny_folder, "-o", tmp_path / "one.jsonl")
    given = write_lines(tmp_path / "in.jsonl", [*good, b'{"question": "q"}\n', *records(100)])
    codes, outputs, errors = finish(start_two(["score", given, "-m", tiny_folder], machines=2))
    assert codes == [1, 1]
    assert errors == [f'tokur score: {given}:201: "response" is missing\n', ""]
    assert outputs[1] == b""
    for line, alone in zip(parsed(outputs[0].decode()), parsed((tmp_path / "one.jsonl").read_text()), strict=True):
        assert line["id"] == alone["id"]
        assert line["tokur"]["scores"] == pytest.approx(alone["tokur"]["scores"], rel=1e-4, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"environment_of_rank_1": {"TOKUR_CACHE": "/dev/null/no"}}, "the cache folder /dev/null/no can't be written"),
        ({"of_rank_1": ["--sigma", "0.2"]}, "has sigma 0.2, but process 0 has 0.1"),
    ],
)
def test_what_another_process_cannot_do_ends_all_with_its_reason(tiny_folder, tmp_path, options, message):
    given = write_lines(tmp_path / "in.jsonl", records(20_000))
    codes, _, errors = finish(start_two(["score", given, "-m", tiny_folder, *SMALL_BATCHES], **options))
    assert codes == [1, 1]
    assert errors[0].startswith(f"tokur score: process 1 on {socket.gethostname()}")
    assert message in errors[0]
    assert (errors[0].count("\n"), errors[1]) == (1, "")


@pytest.mark.slow
def test_ctrl_c_ends_all_with_130_and_whole_records(tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", records(5000))
    output = tmp_path / "out.jsonl"
    processes = start_two(["score", given, "-m", tiny_folder, "-o", output, *SMALL_BATCHES])
    wait_for_lines(output, 3, processes[0])
    for process in reversed(processes):
        process.send_signal(signal.SIGINT)
    codes, _, errors = finish(processes, timeout=20)
    assert codes == [130, 130]
    assert errors == ["tokur score: interrupted\n", ""]
    assert output.read_bytes().endswith(b"}\n")
    assert 3 <= len(parsed(output.read_text())) < 5000


@pytest.mark.slow
def test_a_closed_pipe_ends_all_quietly(tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", records(5000))
    processes = start_two(["score", given, "-m", tiny_folder, *SMALL_BATCHES])
    assert json.loads(processes[0].stdout.readline())["id"] == "q0"
    processes[0].stdout.close()
    processes[0].stdout = None
    codes, _, errors = finish(processes, timeout=20)
    assert codes == [0, 0]
    assert errors == ["", ""]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["score", "in.jsonl", "--no-such-option"], "No such option"),
        (["evaluate", "scored.jsonl"], "tokur evaluate: evaluate runs in one process, but this is one of 2"),
        (["generate", "in.jsonl", "--score"], "tokur generate: generate runs in one process, but this is one of 2"),
    ],
)
def test_what_no_process_can_do_is_said_once(command, message):
    codes, outputs, errors = finish(start_two(command))
    assert codes == [2, 2]
    assert outputs == [b"", b""]
    assert message in errors[0]
    assert errors[1] == ""
