"""What holds for all commands: resuming, bad lines, empty inputs, closed pipes, interrupts, and what is imported."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.helpers import SCORED, parsed, records, start, wait_for_lines, write_lines
from tests.tiny import tiny_model

A, B, C, D, E = ({**record, "response": f"It is {n}."} for n, record in enumerate(records(5)))
LOGPROBS = {"content": [{"token": "It is ", "logprob": -0.5}, {"token": "7.", "logprob": -1.0}]}
STEPS = ["--set", "step_end=a", "--set", "step_end=e", "--set", "step_tokens=4"]
SAMPLED = ["generate", "-n", "3", "--temperature", "1", "--max-new-tokens", "6", "--dtype", "float32"]
SCORE = ["score", "--dtype", "float32"]
RESUMED = {
    "score": ([*SCORE, "--steps", "--alternatives", "2"], ["--sigma", "0.2"], "sigma 0.1, but this run has sigma 0.2"),
    "score-few": ([*SCORE, "--no-tokens", "--scores", "ll"], ["--scores", "pe"], 'this run has scores ["pe"]'),
    "score-logged": (["score", "--from-logprobs"], ["--no-tokens"], "tokens true, but this run has tokens false"),
    "generate": (SAMPLED, ["--top-p", "0.5"], "top_p 1.0, but this run has top_p 0.5"),
    "generate-score": ([*SAMPLED, "--score"], ["--seed", "1"], "seed 0, but this run has seed 1"),
    "generate-guide": ([*SAMPLED, *STEPS, "--guide", "eu"], ["--guide-over", "sum"], "guide_over"),
    "generate-stop-at": ([*SAMPLED, "-n", "6", "--stop-at", "0.6"], ["--seed", "1"], "seed 0"),
}
OF_MODELS = {"score": [*SCORE, "--scores", "eu", "--no-tokens"], "generate": SAMPLED}


@pytest.fixture
def model(tiny_folder, tmp_path):
    return shutil.copytree(tiny_folder, tmp_path / "model")


def made(data, command):
    """Return what two runs share: the bytes of scores, and of responses all but what hangs on their batches."""
    if command[0] == "score":
        return data
    return [(record["id"], record["tokur"]["sample"], record["response"]) for record in parsed(data.decode())]


@pytest.mark.usefixtures("opinionated")
@pytest.mark.parametrize("name", RESUMED)
def test_resume_after_a_kill_at_any_byte_gives_the_undisturbed_file(run_tokur, tiny_folder, tmp_path, name):
    command, change, said = RESUMED[name]
    rows = [{**row, "logprobs": LOGPROBS, "response": "It is 7."} for row in (A, B, C, D, E)]
    given, output = write_lines(tmp_path / "in", [*rows[:2], b"broken\n", *rows[2:]]), tmp_path / "out"
    command = [*command, given, "--skip-invalid", "-o", output]
    command += [] if "--from-logprobs" in command else ["-m", tiny_folder]
    assert run_tokur(*command)[0] == 3
    whole = output.read_bytes()
    for share in (0, 0.3, 0.77, 1):
        output.write_bytes(whole[: int(share * len(whole))])
        code, _, err = run_tokur(*command, "--resume")
        assert (code, made(output.read_bytes(), command)) == (3, made(whole, command)), err
    whole = output.read_bytes()
    code, _, err = run_tokur(*command, "--resume", *change)
    assert (code, said in err) == (1, True), err
    assert output.read_bytes() == whole


TAKEN = {
    "a broken line is mended": ([A, B, b"broken\n", D], [A, B, C, D, E], ":3: is missing in"),
    "the first run had a part": ([B, D], [A, B, C, D], ":1: is missing in"),
    "swapped": ([A, B, C], [B, A, C], "resume with the same input"),
    "another question": ([A, B, C], [{**A, "question": "another?"}, B, C], "resume with the same input"),
    "nothing": ([A, B, C], [], "resume with the same input"),
}


@pytest.mark.parametrize("command", OF_MODELS.values(), ids=OF_MODELS)
@pytest.mark.parametrize(("first", "then", "said"), TAKEN.values(), ids=TAKEN)
def test_resume_of_another_input_is_refused(run_tokur, tiny_folder, tmp_path, command, first, then, said):
    command = [*command, "-m", tiny_folder, "-o", tmp_path / "out", "--skip-invalid", tmp_path / "in"]
    write_lines(tmp_path / "in", first)
    run_tokur(*command)
    before = (tmp_path / "out").read_bytes()
    write_lines(tmp_path / "in", then)
    code, _, err = run_tokur(*command, "--resume")
    assert (code, said in err) == (1, True), err
    assert (tmp_path / "out").read_bytes() == before


def edit_template(model):
    (model.parent / "template").write_text("Now {{ question }}!")


def edit_examples(model):
    write_lines(model.parent / "examples", [{"question": "1 + 1?", "response": "3"}])


def edit_chat_template(model):
    text = (model / "chat_template.jinja").read_text()
    (model / "chat_template.jinja").write_text(text.replace("<|im_start|>assistant", "<|im_start|>robot"))


def train(model):
    tiny_model("llama", seed=1).save_pretrained(model)


EDITS = {"template": edit_template, "few_shot": edit_examples, "chat_template": edit_chat_template, "model": train}


@pytest.mark.parametrize("command", OF_MODELS.values(), ids=OF_MODELS)
@pytest.mark.parametrize("named", EDITS)
def test_resume_notices_an_edited_file_and_no_new_dates(run_tokur, model, tmp_path, command, named):
    (tmp_path / "template").write_text("Please: {{ question }}")
    write_lines(tmp_path / "examples", [{"question": "1 + 1?", "response": "2"}])
    command = [*command, "-m", model, "--few-shot", tmp_path / "examples", "-o", tmp_path / "out", tmp_path / "in"]
    command += ["--template", tmp_path / "template"] if named == "template" else []
    write_lines(tmp_path / "in", [A, B])
    assert run_tokur(*command)[0] == 0
    write_lines(tmp_path / "in", [A, B, C])
    (model / "README.md").write_text("mine")
    for file in model.iterdir():
        file.touch()
    code, _, err = run_tokur(*command, "--resume")
    assert (code, err) == (0, "")
    write_lines(tmp_path / "in", [A, B, C, D])
    EDITS[named](model)
    code, _, err = run_tokur(*command, "--resume")
    assert (code, "was written with " in err, f"{named}_digest " in err) == (1, True, True), err


@pytest.mark.parametrize(("earlier", "added", "both"), [("ll", "pe", ["ll", "pe"]), ("tu,eu", "ll,eu", None)])
def test_resume_of_a_run_that_adds_scores_gives_the_same_bytes(run_tokur, tiny_folder, tmp_path, earlier, added, both):
    """Two records were scored in the same way, so that their scores stay; one was in another, and two not at all."""
    given = write_lines(tmp_path / "in.jsonl", records(5))
    scored = {"float32": tmp_path / "same.jsonl", "bfloat16": tmp_path / "other.jsonl"}
    for dtype, path in scored.items():
        assert run_tokur("score", given, "-m", tiny_folder, "--dtype", dtype, "--scores", earlier, "-o", path)[0] == 0
    same, foreign, bare = (path.read_bytes().splitlines(True) for path in (*scored.values(), given))
    mixed, output = write_lines(tmp_path / "mixed.jsonl", [*same[:2], foreign[2], *bare[3:]]), tmp_path / "out.jsonl"
    command = [*SCORE, mixed, "-m", tiny_folder, "-o", output, "--scores"]
    assert run_tokur(*command, added)[0] == 0
    whole = output.read_bytes()
    assert list(parsed(whole.decode())[0]["tokur"]["scores"]) == (both or ["tu", "eu", "ll"])
    for kept in (1, 2, 4):
        output.write_bytes(b"".join(whole.splitlines(True)[:kept]))
        code, _, err = run_tokur(*command, added, "--resume")
        assert (code, output.read_bytes()) == (0, whole), err
    assert run_tokur(*command, "self_certainty", "--resume")[0] == 1


BAD = [
    b"{\n", b"not json\n", b'{"question": "q", "response": "r"\n', b"[1, 2]\n", b'"text"\n', b"17\n", b"null\n",
    b'{"response": "so"}\n', b'{"question": 3, "response": "r"}\n', b'{"question": "\\udfff", "response": "r"}\n',
    b'{"question": "q", "response": "r", "x": NaN}\n', b'{"question": "q", "response": "\xff"}\n',
    b'{"question": "q", "response": "r", "tokur": 3}\n', b'{"messages": "hi", "response": "r"}\n',
    b'{"question": "q", "response": "r", "tokur": {"schema": 2}}\n', b"[" * 100_000 + b"\n",
    b'{"question": "' + b"long " * 100_000 + b'", "response": "r"}\n',
]  # fmt: skip
READING = {
    "score": ["--no-tokens", "--scores", "ll"],
    "generate": ["--max-new-tokens", "2"],
    "select": ["--method", "maj"],
    "evaluate": ["--bootstrap", "0", "--graded", "-", "-o"],
}


@pytest.mark.parametrize("command", READING)
def test_bad_lines_lose_no_good_record(run_tokur, tiny_folder, tmp_path, command):
    """A good record holds U+2028 and other traps of splitting."""
    rows = parsed(SCORED.read_text())
    tokur = rows[0]["tokur"]
    scored = {name: tokur[name] for name in ("tokens", "scores")} if command in ("select", "evaluate") else {}
    good = [
        {
            "id": f"q{n}",
            "question": f"{n}?",
            "response": rows[0]["response"],
            "note": "a\u2028b\u0085c",
            "correct": n > 5,
            "tokur": scored,
        }
        for n in range(len(BAD))
    ]
    path = write_lines(tmp_path / "in", [line for pair in zip(good, BAD, strict=True) for line in pair])
    options = [*READING[command], *([tmp_path / "results"] if command == "evaluate" else [])]
    options += ["-m", tiny_folder] if command in ("score", "generate") else []
    code, out, err = run_tokur(command, path, *options, "--skip-invalid")
    found = {record.get("id") for record in map(json.loads, out.removesuffix("\n").split("\n"))}
    assert (code, found >= {record["id"] for record in good}) == (3, True), err
    assert f"{path}:2: is not valid JSON" in err
    assert max(map(len, err.splitlines())) < 1000
    (tmp_path / "results").unlink(missing_ok=True)
    code, out, err = run_tokur(command, path, *options)
    assert (code, f"{path}:2: is not valid JSON" in err, err.count("\n")) == (1, True, 1), err
    assert len(parsed(out)) <= 1, "all before the bad line, and nothing after it"


@pytest.mark.parametrize("command", [*READING, "heatmap"])
def test_an_empty_input_and_one_of_bad_lines_alone_need_no_model(run_tokur, tmp_path, command):
    path = write_lines(tmp_path / "in", [])
    assert run_tokur(command, path) == (0, "", f"tokur {command}: {path}: holds no records\n")
    code, out, err = run_tokur(command, write_lines(path, [b"[\n", b"5\n"]), "--skip-invalid")
    assert (code, out) == (3, "")
    assert err.endswith(f"tokur {command}: skipped 2 invalid records: none was left\n")


@pytest.mark.parametrize("command", [["select", "--method", "maj"], ["heatmap"], ["score"]], ids=" ".join)
def test_a_closed_pipe_ends_a_command_quietly(tiny_folder, tmp_path, command):
    rows = [json.loads(line) for line in SCORED.read_text().splitlines()] * 600
    given = write_lines(
        tmp_path / "in.jsonl", [{**row, "id": f"q{n}", "question": f"{n}?"} for n, row in enumerate(rows)]
    )
    loading = ["-m", str(tiny_folder)] if command == ["score"] else []
    given = write_lines(tmp_path / "plain.jsonl", records(2000)) if loading else given
    process = start([*command, given, *loading], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read().decode() == (f"tokur score: loading {tiny_folder}\n" if loading else "")


@pytest.mark.parametrize(("unread", "line"), [("stdout", "score -h"), ("stderr", f"evaluate {SCORED} --bootstrap 0")])
def test_a_command_whose_help_or_messages_nobody_reads_ends_well(unread, line):
    reader, writer = os.pipe()
    os.close(reader)
    process = start(line.split(), **{"stdout": subprocess.PIPE, unread: writer})
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, bool(out)) == (0, unread == "stderr")


def test_a_folder_that_is_gone_is_named_as_what_is_missing(run_tokur, tmp_path, monkeypatch):
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = "tokur select: the folder in which it was started is no longer there: start it in another\n"
    assert run_tokur("select", SCORED, "-o", "out") == (1, "", said)


def test_ctrl_c_leaves_whole_records_and_exits_with_130(tiny_folder, tmp_path):
    given, output = write_lines(tmp_path / "in.jsonl", records(5000)), tmp_path / "out.jsonl"
    process = start(["score", given, "-m", tiny_folder, "-o", output, "--batch-tokens", 600], stderr=subprocess.PIPE)
    wait_for_lines(output, 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    said = f"tokur score: interrupted: {output} keeps what is done: go on with --resume\n"
    assert (process.returncode, err.decode()) == (130, f"tokur score: loading {tiny_folder}\n{said}")
    assert output.read_bytes().endswith(b"}\n")
    assert len(parsed(output.read_text())) < 5000


LIGHT = {
    "--help": ["sklearn", "numpy"],
    "score --help": ["sklearn", "numpy"],
    "score --scores help": ["sklearn"],
    "score {logged} --from-logprobs": ["sklearn"],
    "select {scored}": ["sklearn", "scipy", "sympy", "math_verify"],
    "evaluate {scored} --bootstrap 0": ["matplotlib"],
    "heatmap {scored} --html page": ["sklearn", "numpy", "matplotlib"],
}


@pytest.mark.parametrize("line", LIGHT)
def test_commands_without_a_model_import_nothing_heavy(tmp_path, line):
    rows = [{"question": "?", "response": "It is 7.", "logprobs": LOGPROBS}]
    names = {"scored": SCORED, "logged": write_lines(tmp_path / "in.jsonl", rows)}
    program = (
        "import sys\nfrom tokur_cli.__main__ import main\ntry: main()\n"
        f"finally: print({{'torch', 'transformers', 'accelerate', *{LIGHT[line]}}} & sys.modules.keys())"
    )
    words = [sys.executable, "-c", program, *line.format(**names).split()]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
