"""A field of the wrong type anywhere in a scored record is an error of that record, in every command that reads it."""

import copy
import json
import random

import pytest

from tests.helpers import SCORED
from tests.records.reading import changed, paths_in

ODD = [
    None, True, 0, -1, 2.5, 10**400, "", "text", "\ud800", "9" * 50, [], [[]], [None], ["a"], [0], [{}], {}, {"a": 1},
    [0, 1], float("inf"), ...,
]  # fmt: skip
COMMANDS = [
    ["evaluate", "--bootstrap", "0", "--graded", "graded"], ["evaluate", "--bootstrap", "0", "--level", "step"],
    ["select", "--records", "--method", "bon"], ["heatmap"],
    ["score", "--from-logprobs"],
]  # fmt: skip
MUST_BE_TRIED = [("tokur", "run", "seed"), ("tokur", "sample"), ("id",), ("claims",), ("tokur", "tokens", "offsets", 0)]


def whole(record):
    """A scored record with everything that a command may look at."""
    record = copy.deepcopy(record)
    length = len(record["response"])
    offsets = [[start, min(start + 4, length)] for start in range(0, length, 4)]
    quantities = {name: [0.25] * len(offsets) for name in ("eu", "au", "tu", "entropy", "logprob")}
    record["tokur"] |= {
        "tokens": {"offsets": offsets, **quantities},
        "step_by": "auto",
        "steps": [{"start": 0, "end": length, "eu": {"sum": 1.0, "mean": 0.5, "max": 1.0, "top5": 1.0}}],
        "token_ids": [1] * len(offsets),
        "prompt_token_ids": [1, 2],
        "particle": {"ancestors": [0], "rewards": [0.1]},
    }
    record["claims"] = [{"start": 0, "end": 4, "correct": True}]
    return record | {"messages": [{"role": "user", "content": "Q"}], "prompt": "Q", "metadata": {}}


def broken(seed, count):
    """Return records that are wrong in one place each, and where."""
    rng = random.Random(seed)
    records = [whole(json.loads(line)) for line in SCORED.read_text().splitlines()]
    for number in range(count):
        record = rng.choice(records)
        places = [path for path in paths_in(record) if all(key in (0, 1) or isinstance(key, str) for key in path)]
        place = MUST_BE_TRIED[number % 5] if number < 100 else rng.choice(places)
        yield changed(record, place, ODD[number % len(ODD)])


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(command[:3]) for command in COMMANDS])
def test_wrong_types_what_is_wrong_in_a_record_is_said_of_that_record(run_tokur, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps(record) for record in broken(0, 300)]
    (tmp_path / "in").write_text("\n".join(lines) + "\n")
    code, _, err = run_tokur(*command, "--skip-invalid", "in")
    assert "TOKUR_DEBUG" not in err
    assert code == 3 or "answers no question of" in err  # another seed is another run
    assert "in:" in err
