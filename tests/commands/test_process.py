"""What only a process of its own can show: kills, interrupts, pipes, start-up."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from tests.helpers import finish, parsed, records, start, wait_for_lines, write_lines


@pytest.mark.slow
def test_kills_at_ten_moments_and_resumes_give_the_bytes_of_an_undisturbed_run(tiny_folder, tmp_path):
    rng = random.Random(0)
    given = write_lines(tmp_path / "in.jsonl", [*records(160), b"broken\n", *records(120, seed=1)])
    options = ["-m", tiny_folder, "--batch-tokens", 600, "--skip-invalid"]
    code, _, _ = finish(["score", given, "-o", tmp_path / "undisturbed.jsonl", *options])
    assert code == 3
    expected = (tmp_path / "undisturbed.jsonl").read_bytes()
    assert expected.count(b"\n") == 280
    output = tmp_path / "killed.jsonl"
    sizes = []
    for moment in sorted(rng.sample(range(1, 270), 10)):
        process = start(["score", given, "-o", output, "--resume", *options], stderr=subprocess.DEVNULL)
        wait_for_lines(output, moment, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if rng.random() < 0.5:  # a kill within a write leaves half a line
            with output.open("ab") as file:
                file.write(expected[output.stat().st_size :][: rng.randint(1, 400)].split(b"\n")[0])
        sizes.append(output.stat().st_size)
        assert len(sizes) == 1 or sizes[-1] >= sizes[-2] - 5000, "a resumed run must not start afresh"
    code, _, err = finish(["score", given, "-o", output, "--resume", *options])
    assert code == 3, err
    assert output.read_bytes() == expected


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["--sigma", "0.2"], "sigma 0.1, but this run has sigma 0.2"),
        (["--seed", "3"], "seed 0, but this run has seed 3"),
        (["--sampling", "joint"], 'sampling "stepwise", but this run has sampling "joint"'),
        (["--no-tokens"], "tokens true, but this run has tokens false"),
        (["--scores", "eu"], "this run has scores"),
    ],
)
def test_resuming_with_another_setting_is_refused_and_the_setting_named(
    run_tokur, tiny_folder, tmp_path, change, named
):
    given = write_lines(tmp_path / "in.jsonl", records(5))
    output = tmp_path / "out.jsonl"
    run_tokur("score", given, "-m", tiny_folder, "-o", output)
    whole = output.read_bytes()
    output.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    code, _, err = run_tokur("score", given, "-m", tiny_folder, "-o", output, "--resume", *change)
    assert code == 1
    assert named in err
    assert output.read_bytes() == b"".join(whole.splitlines(keepends=True)[:3])
    assert run_tokur("score", given, "-m", tiny_folder, "-o", output, "--resume")[0] == 0
    assert output.read_bytes() == whole


@pytest.mark.parametrize(
    ("earlier", "added", "both", "other"),
    [
        ("ll", "pe", ["ll", "pe"], ["ll", "self_certainty"]),
        ("pe", "ll,pe", ["pe", "ll"], ["pe", "self_certainty"]),
        ("tu,eu", "ll,eu", ["tu", "eu", "ll"], ["tu", "eu", "au"]),
    ],
)
def test_a_run_that_adds_scores_to_scored_records_is_resumed_to_the_same_bytes(
    run_tokur, tiny_folder, tmp_path, earlier, added, both, other
):
    """Two records were scored in the same way, so that their scores stay; one was in another, and two not at all."""
    given = write_lines(tmp_path / "in.jsonl", records(5))
    scored = {"float32": tmp_path / "same.jsonl", "bfloat16": tmp_path / "other.jsonl"}
    for dtype, path in scored.items():
        assert run_tokur("score", given, "-m", tiny_folder, "--dtype", dtype, "--scores", earlier, "-o", path)[0] == 0
    same, foreign, bare = (path.read_bytes().splitlines(True) for path in (*scored.values(), given))
    mixed, output = write_lines(tmp_path / "mixed.jsonl", [*same[:2], foreign[2], *bare[3:]]), tmp_path / "out.jsonl"
    command = ["score", mixed, "-m", tiny_folder, "--dtype", "float32", "-o", output, "--scores"]
    assert run_tokur(*command, added)[0] == 0
    whole = output.read_bytes()
    assert [list(record["tokur"]["scores"]) for record in parsed(whole.decode())][:2] == [both, both]
    for kept in range(1, 5):
        output.write_bytes(b"".join(whole.splitlines(True)[:kept]))
        code, _, err = run_tokur(*command, added, "--resume")
        assert code == 0, err
        assert output.read_bytes() == whole
    code, _, err = run_tokur(*command, other[-1], "--resume")
    assert code == 1
    assert f"was written with scores {json.dumps(both)}, but this run has scores {json.dumps(other)}: resume" in err
    assert output.read_bytes() == whole


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", records(2000))
    process = start(
        ["score", given, "-m", tiny_folder, "--batch-tokens", 600], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    first = process.stdout.readline()
    process.stdout.close()
    assert json.loads(first)["id"] == "q0"
    assert process.wait(timeout=60) == 0
    assert process.stderr.read().decode() == f"tokur score: loading {tiny_folder}\n"


@pytest.mark.slow
def test_ctrl_c_leaves_whole_records_and_exits_with_130(tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", records(5000))
    output = tmp_path / "out.jsonl"
    process = start(["score", given, "-m", tiny_folder, "-o", output, "--batch-tokens", 600], stderr=subprocess.PIPE)
    wait_for_lines(output, 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    told = f"interrupted: {output} keeps what is done: go on with --resume"
    assert err.decode() == f"tokur score: loading {tiny_folder}\ntokur score: {told}\n"
    assert output.read_bytes().endswith(b"}\n")
    assert len(parsed(output.read_text())) < 5000


@pytest.mark.slow
def test_a_pipe_is_read_without_being_named_and_a_terminal_is_a_usage_error(tiny_folder, tmp_path):
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records(3))
    process = start(["score", "-m", tiny_folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(lines, timeout=60)
    assert (process.returncode, len(parsed(out.decode()))) == (0, 3)
    assert err.decode() == f"tokur score: loading {tiny_folder}\n"
    pty = pytest.importorskip("pty")
    terminal, child = pty.openpty()
    code, out, err = finish(["score", "-m", tiny_folder], stdin=child)
    os.close(child)
    os.close(terminal)
    assert (code, out) == (2, "")
    assert "no input" in err


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["score", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments):
    code = """
import sys
from tokur_cli.app import main
try:
    main()
finally:
    heavy = ("torch", "transformers", "accelerate", "sklearn", "numpy")
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert done.stdout
