"""What commands read: which records, which words on standard error, which template; and what a newcomer types."""

import copy
import json
import random
import re
import unicodedata
from datetime import datetime

import pytest

from tests.helpers import SCORED, parsed, records, write_lines
from tests.records.reading import changed, paths_in
from tests.tiny import tiny_model_folder
from tokur_cli.engine.text import chat


def test_records_limit_reads_the_first_records_and_whole_rows(run_tokur, tiny_folder, tmp_path):
    rows = [*records(3), b"broken\n"]
    path = write_lines(tmp_path / "in.jsonl", rows)
    code, out, err = run_tokur("score", path, "-m", tiny_folder, "--limit", 2, "--no-tokens")
    assert (code, [row["id"] for row in parsed(out)]) == (0, ["q0", "q1"]), err
    assert run_tokur("score", path, "-m", tiny_folder, "--limit", 4, "--no-tokens")[0] == 1
    code, out, _ = run_tokur("generate", path, "-m", tiny_folder, "--limit", 1, "--max-new-tokens", 2)
    assert (code, len(parsed(out))) == (0, 1)


def test_records_date_of_a_chat_template_is_settable_and_kept(run_tokur, tiny_folder, tmp_path):
    folder = tiny_model_folder(tmp_path)
    template = folder / "chat_template.jinja"
    template.write_text("{{ strftime_now('%Y-%m-%d') }} {{ messages[0].content }}")
    path = write_lines(tmp_path / "in.jsonl", records(1))
    options = ("score", path, "-m", folder, "--scores", "ll", "--no-tokens")
    usual, other = (json.loads(run_tokur(*options, *date)[1]) for date in ((), ("--set", "date=2025-01-31")))
    assert (other["tokur"]["run"]["prompts"]["date"], other["tokur"]["run"]["draws"]) == ("2025-01-31", 0)
    assert other["tokur"]["scores"] != usual["tokur"]["scores"]
    assert run_tokur(*options, "--set", "date=31.1.")[0] == 2


def test_records_generate_asks_the_question_of_a_row_of_samples_once(run_tokur, tmp_path, tiny_folder):
    rows = [
        {"question": "7*10?", "samples": ["70", "71", "72"], "answer": "#### 70"},
        {"question": "7*11?", "answer": "#### 77"},
    ]
    path = write_lines(tmp_path / "in", rows)
    code, out, err = run_tokur("generate", "-m", tiny_folder, "--max-new-tokens", "3", path)
    assert code == 0, err
    made = [json.loads(line) for line in out.splitlines()]
    assert [(row["question"], row.get("reference"), "samples" in row) for row in made] == [
        ("7*10?", "70", True),
        ("7*11?", "77", False),
    ]


EVIL = "\x1b]52;c;aGk=\x07\x9b31m\u202e\r\x7fX"


def is_harmless(text):
    return not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]


def scored(number, **more):
    labels = {"id": f"q{number}", "question": "?", "response": "4", "correct": number % 2 == 0}
    return {**labels, "tokur": {"scores": {"eu": number / 10}}, **more}


WITH_CODES = {
    "an id": (["select", "--by", "eu"], [{**scored(1), "id": EVIL, "tokur": {}}]),
    "a score's name": (["evaluate"], [scored(n, tokur={"scores": {"eu": n, f"a{EVIL}": 1}}) for n in range(4)]),
    "a seed": (
        ["evaluate"],
        [scored(n, tokur={"scores": {"eu": n}, "run": {"seed": f"{n % 2}{EVIL}"}}) for n in range(4)],
    ),
    "an Inspect error": (
        ["evaluate"],
        [{"id": 1, "epoch": 1, "input": "?", "target": "4", "output": {}, "error": {"message": EVIL}}],
    ),
    "a batch's error": (["evaluate"], [{"id": "b", "custom_id": EVIL, "response": None, "error": {"message": EVIL}}]),
    "a model's name": (["score"], [{"question": "?", "response": "4", "tokur": {"model": f"./no{EVIL}"}}]),
    "a part's type": (["select"], [{"messages": [{"role": "user", "content": [{"type": EVIL}]}], "response": "4"}]),
}


@pytest.mark.parametrize("what", WITH_CODES)
def test_messages_show_what_a_record_holds_without_its_control_codes(run_tokur, tmp_path, what):
    (command, *options), rows = WITH_CODES[what]
    _, _, err = run_tokur(command, write_lines(tmp_path / "in.jsonl", rows), *options)
    assert is_harmless(err)
    assert "⟨U+001B⟩]52;c;aGk=" in err or r"\x1b]52" in err, err


RESPONSE = {"id": "1", "question": "6 times 7?", "response": "42", "reference": "42"}


def test_commands_a_question_is_asked_without_a_file(run_tokur, tiny_folder, tmp_path):
    options = ("-m", tiny_folder, "--max-new-tokens", 4, "--score", "--sigma", "0.1")
    code, out, err = run_tokur("generate", "--question", "What is 7 × 8?", *options)
    assert (code, err) == (0, "")
    path = write_lines(tmp_path / "in.jsonl", [{"question": "What is 7 × 8?"}])
    assert parsed(out) == parsed(run_tokur("generate", path, *options)[1])
    assert run_tokur("heatmap", write_lines(tmp_path / "scored.jsonl", [json.loads(out)]))[0] == 0
    assert (
        run_tokur("generate", "--question", "What is 7 × 8?", *options, "-n", 2, "--temperature", 1)[1].count("\n") == 2
    )


def test_commands_a_log_is_told_each_minute_how_far_a_run_is(run_tokur, tiny_folder, tmp_path, monkeypatch):
    path = write_lines(tmp_path / "in.jsonl", [RESPONSE] * 300)
    command = ("score", path, "-m", tiny_folder, "--scores", "ll")
    assert run_tokur(*command)[2] == "", "not within the first"
    monkeypatch.setattr("tokur_cli.commands.shared.progress._LINE_SECONDS", 0.01)
    code, out, err = run_tokur(*command)
    assert (code, out.count("\n")) == (0, 300)
    lines = [
        re.fullmatch(r"tokur score: (\d+) of 300 records, ([\d,]+ tokens/s, )?.* so far(, about .* left)?", line)
        for line in err.splitlines()
        if "records" in line
    ]
    assert len(lines) > 1
    assert all(lines)
    done = [int(line[1]) for line in lines]
    assert done == sorted(done)
    assert all(line[3] for line in lines if line[1] != "0"), "what is left is known once something is done"


QUESTIONS = [{"id": str(n), "question": f"{n}+1?", "level": "3" if n == 2 else n, "response": "4"} for n in range(4)]
FAILING = {
    "{{ question }} {{ level + 1 }}": "TypeError: can only concatenate str",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ question }}{% if level == '3' %}{{ f() }}{% endif %}": "RecursionError",
}


def ids(out):
    return [record["id"] for record in parsed(out)]


@pytest.mark.parametrize("template", FAILING)
@pytest.mark.parametrize("command", ["score", "generate"])
def test_template_a_template_that_fails_is_an_error_of_its_record(run_tokur, tiny_folder, tmp_path, command, template):
    (tmp_path / "t.jinja").write_text(template)
    given = write_lines(tmp_path / "q.jsonl", QUESTIONS)
    options = ["-m", tiny_folder, "--template", tmp_path / "t.jinja"]
    options += ["--max-new-tokens", 4] if command == "generate" else []
    code, out, err = run_tokur(command, given, *options)
    assert (code, ids(out)) == (1, ["0", "1"])
    assert f"tokur {command}: {given}:3: the template cannot be filled: " in err
    assert FAILING[template] in err
    code, out, err = run_tokur(command, given, *options, "--skip-invalid")
    assert (code, ids(out)) == (3, ["0", "1", "3"])
    assert f"tokur {command}: {given}:3: the template cannot be filled: " in err


def test_template_date_is_one_for_score_and_generate_and_resume_compares_it(tmp_path, monkeypatch, run_tokur):
    folder = tiny_model_folder(tmp_path)
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}\n" + template)
    given = write_lines(tmp_path / "q.jsonl", QUESTIONS[:1])
    texts = []
    for command, options in (("score", []), ("generate", ["--max-new-tokens", 2])):
        arguments = [command, given, "-m", folder, "-o", tmp_path / f"{command}.jsonl", *options]
        assert run_tokur(*arguments)[0] == 0
        record = parsed((tmp_path / f"{command}.jsonl").read_text())[0]
        texts.append(record)
        monkeypatch.setattr(chat, "DATE", datetime(2024, 7, 27))
        code, _, err = run_tokur(*arguments, "--resume")
        assert (code, "date" in err) == (1, True), err
        monkeypatch.undo()
    assert texts[0]["tokur"]["run"]["prompts"]["date"] == "2024-07-26"


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
