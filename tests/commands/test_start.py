"""What happens before a model is loaded: mistakes are said at once, and Ctrl-C ends without a traceback."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GOOD = b'{"id": "a", "question": "1 + 1?", "response": "2"}\n'
SECONDS = 10.0
"""Generous: a mistake is told within half a second, and importing torch and transformers alone takes three."""

# Importing one of them is the failure itself, wherever it is caught
RUN = """
import sys
class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "accelerate", "sklearn", "sentence_transformers"):
            print(f"imported {name}", file=sys.stderr, flush=True)
            raise SystemExit(99)
sys.meta_path.insert(0, Refusal())
from tokur_cli.__main__ import main
main()
"""
CTRL_C = """
import os, signal
from tokur_cli.__main__ import main
set_action = signal.signal
def tell(*arguments):
    set_action(*arguments)
    signal.signal = set_action
    os.write(1, b".")
signal.signal = tell
main()
"""


def run(arguments, given=GOOD):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, arguments)], input=given, capture_output=True, check=False
    )
    return done.returncode, done.stdout, done.stderr.decode(), time.monotonic() - began


@pytest.mark.parametrize(
    ("arguments", "given", "code", "said"),
    [
        (["score", "nowhere.jsonl"], GOOD, 1, "nowhere.jsonl: there is no such file"),
        (["score", "--scores", "lll"], GOOD, 2, "unknown score"),
        (["score", "--format", "opnai"], GOOD, 2, "--format opnai: there is no such format"),
        (["score", "--sigma", "x"], GOOD, 2, '--sigma has "x"'),
        (["score", "--sigma", "Auto"], GOOD, 2, '--sigma has "Auto"; it must be a number from 0, or auto'),
        (["score", "--posterior", "nowhere"], GOOD, 1, "nowhere/posterior.json: there is no such file"),
        (["score", "--requests", "nowhere"], GOOD, 2, "<stdin> is in the format tokur, which has its own prompts"),
        (["score", "--layers", "two"], GOOD, 2, 'layers "two" is not a slice'),
        (["score", "--device-map", "cda"], GOOD, 2, "unknown device map 'cda'"),
        (["score", "--set", "attempt_temperature=0"], GOOD, 2, "--set attempt_temperature must be above 0"),
        (["score", "--set", "attempt_temperature=-1"], GOOD, 2, "--set attempt_temperature must be above 0"),
        (["score", "--template", "nowhere"], GOOD, 2, "--template nowhere"),
        (["score", "--few-shot", "nowhere"], GOOD, 1, "nowhere: there is no such file"),
        (["score"], b"{\n", 1, "<stdin>:1: "),
        (["score"], b'{"question": "1 + 1?"}\n', 1, '<stdin>:1: "response" is missing'),
        (["score"], b'{"response": "2"}\n', 1, "<stdin>:1: "),
        (["generate", "nowhere.jsonl"], GOOD, 1, "nowhere.jsonl: there is no such file"),
        (["generate", "-n", "2"], GOOD, 2, "needs --temperature above 0"),
        (["generate", "--device-map", "cuda:x"], GOOD, 2, "unknown device map 'cuda:x'"),
        (["generate", "--score", "--scores", "lll"], GOOD, 2, "unknown score"),
        (["generate"], b'{"id": "a"}\n', 1, "<stdin>:1: "),
        (["perturb", "--calibrate", "nowhere.jsonl"], GOOD, 1, "nowhere.jsonl: there is no such file"),
        (["perturb", "--sweep", "x", "-"], GOOD, 2, '--sweep has "x"'),
        (["perturb", "--calibrate", "-"], b'{"question": "1 + 1?"}\n', 1, '<stdin>:1: "response" is missing'),
        (["perturb", "--calibrate", "-"], b"", 1, "the input has no response to try strengths on"),
        (["perturb", "-o", str(Path(__file__).parent)], GOOD, 2, "holds something other than a posterior"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_before_torch_is_imported(arguments, given, code, said):
    ended, out, err, seconds = run(arguments, given)
    assert (ended, out) == (code, b"")
    assert said in err
    assert err.count("\n") == 1
    assert seconds < SECONDS


@pytest.mark.parametrize("given", [b"", b"\n\n", b"[]\n"])
@pytest.mark.parametrize("command", [["score"], ["generate"], ["generate", "--score"], ["select"]])
def test_an_input_without_records_gives_an_output_without_records_and_needs_no_model(command, given, tmp_path):
    output = tmp_path / "out.jsonl"
    assert run([*command, "-o", output], given)[:3] == (0, b"", f"tokur {command[0]}: <stdin>: holds no records\n")
    assert output.read_bytes() == b""


@pytest.mark.parametrize("command", ["score", "generate"])
def test_an_input_of_bad_records_alone_needs_no_model(command):
    code, out, err, _ = run([command, "--skip-invalid"], b"{\n[1]\n")
    assert (code, out) == (3, b"")
    assert [line.partition(": ")[2].partition(":")[0] for line in err.splitlines()[:2]] == ["<stdin>", "<stdin>"]
    assert err.endswith(f"tokur {command}: skipped 2 invalid records: none was left\n")


def test_the_first_good_record_names_the_model_where_bad_ones_are_skipped(run_tokur, tiny_folder, tmp_path):
    given = tmp_path / "in.jsonl"
    good = {**json.loads(GOOD), "tokur": {"model": str(tiny_folder)}}
    given.write_bytes(b"broken\n" + json.dumps(good).encode())
    code, out, _ = run_tokur("score", given, "--skip-invalid")
    assert (code, json.loads(out)["tokur"]["run"]["model"]) == (3, str(tiny_folder))


def test_the_model_is_named_before_it_is_loaded(tiny_folder):
    code, out, err, _ = run(["score", "-m", tiny_folder])
    assert (code, out, err) == (99, b"", f"tokur score: loading {tiny_folder}\nimported accelerate\n")


@pytest.mark.parametrize("command", ["score", "generate"])
def test_nothing_that_reads_answers_is_imported_before_a_model_is(command, tiny_folder):
    """It would take a tenth of a second, and most runs of these commands have no use for it."""
    program = RUN.replace("\nmain()", "\ntry:\n    main()\nfinally:\n    print(*sys.modules)")
    words = [sys.executable, "-c", program, command, "-m", str(tiny_folder)]
    done = subprocess.run(words, input=GOOD, capture_output=True, check=False)
    assert done.returncode == 99, "torch or the like would be imported"
    modules = done.stdout.decode().split()
    assert f"tokur_cli.commands.{command}.command" in modules
    assert [name for name in modules if name == "tokur_cli.answers.sentences"] == []


def interrupt(milliseconds, arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", CTRL_C, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout.read(1) == b"."
    time.sleep(milliseconds / 1000)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err.decode()


def interrupted_quietly(code, err, name):
    """Whether a run ended by itself, or by Ctrl-C (which shells tell as 130, also where no command had begun yet)."""
    lines = [line for line in err.splitlines() if line != f"tokur score: loading {name}"]
    return (code, lines) in [(0, []), (-signal.SIGINT, []), (130, []), (130, ["tokur score: interrupted"])]


@pytest.mark.parametrize("milliseconds", [0, 5, 10, 20, 40, 60, 80, 100, 140, 200, 300])
def test_ctrl_c_while_tokur_starts_ends_it_without_a_traceback(milliseconds, tiny_folder, tmp_path):
    given = tmp_path / "in.jsonl"
    given.write_bytes(GOOD)
    ended = interrupt(milliseconds, ["score", given, "-m", tiny_folder])
    assert interrupted_quietly(*ended, tiny_folder), ended


FINALIZER = """
import signal, time
from tokur_cli.commands.shared.errors import reporting
class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.SIG_DFL)
with reporting("score"):
    Dying()
    time.sleep(20)
"""


def test_ctrl_c_in_a_finalizer_is_not_lost():
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", FINALIZER], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"tokur score: interrupted\n")
    assert time.monotonic() - began < SECONDS


@pytest.mark.slow
def test_ctrl_c_at_fifteen_moments_ends_without_a_traceback(tiny_folder, tmp_path):
    given = tmp_path / "in.jsonl"
    given.write_bytes(GOOD)
    for milliseconds in random.Random(0).sample(range(4000), 15):
        ended = interrupt(milliseconds, ["score", given, "-m", tiny_folder])
        assert interrupted_quietly(*ended, tiny_folder), (milliseconds, ended)
