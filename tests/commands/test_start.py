"""What happens before a model is loaded: mistakes are said at once, and Ctrl-C ends without a traceback."""

import os
import signal
import subprocess
import sys
import time

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
        (["score", "--sigma", "x"], GOOD, 2, '--sigma has "x"'),
        (["score", "--posterior", "nowhere"], GOOD, 1, "nowhere/posterior.json: there is no such file"),
        (["score", "--device-map", "cda"], GOOD, 2, "unknown device map 'cda'"),
        (["score", "--few-shot", "nowhere"], GOOD, 1, "nowhere: there is no such file"),
        (["score"], b'{"response": "2"}\n', 1, "<stdin>:1: "),
        (["generate", "--score", "--scores", "lll"], GOOD, 2, "unknown score"),
        (["generate"], b'{"id": "a"}\n', 1, "<stdin>:1: "),
    ],
)  # fmt: skip
def test_start_a_mistake_is_told_before_torch_is_imported(arguments, given, code, said):
    ended, out, err, seconds = run(arguments, given)
    assert (ended, out) == (code, b"")
    assert said in err
    assert err.count("\n") == 1
    assert seconds < SECONDS


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


@pytest.mark.parametrize("milliseconds", [0, 20, 100, 300])
def test_start_ctrl_c_while_tokur_starts_ends_it_without_a_traceback(milliseconds, tiny_folder, tmp_path):
    given = tmp_path / "in.jsonl"
    given.write_bytes(GOOD)
    ended = interrupt(milliseconds, ["score", given, "-m", tiny_folder])
    assert interrupted_quietly(*ended, tiny_folder), ended
