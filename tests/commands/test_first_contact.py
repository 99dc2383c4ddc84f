"""What a newcomer types wrong, or has in another form, is answered with what to do."""

import gzip
import json
import re

import pytest

from tests.helpers import parsed, write_lines

RESPONSE = {"id": "1", "question": "6 times 7?", "response": "42", "reference": "42"}
SCORED = {**RESPONSE, "tokur": {"schema": 1, "sample": 0, "scores": {"eu": 0.5, "eu_mean": 0.25}}}


@pytest.mark.parametrize("command", ["score", "select", "evaluate", "heatmap", "generate"])
def test_an_empty_input_is_the_same_in_all_commands(run_tokur, tmp_path, command):
    path = write_lines(tmp_path / "empty.jsonl", [])
    assert run_tokur(command, path) == (0, "", f"tokur {command}: {path}: holds no records\n")


@pytest.mark.parametrize("command", ["score", "select", "evaluate", "heatmap", "generate"])
def test_an_input_whose_records_were_all_skipped_says_so(run_tokur, tmp_path, command):
    path = write_lines(tmp_path / "bad.jsonl", [b"[\n", b"5\n"])
    code, out, err = run_tokur(command, path, "--skip-invalid")
    assert (code, out) == (3, "")
    assert err.endswith(f"tokur {command}: skipped 2 invalid records: none was left\n")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "a.txt",
            b"question,answer\n6 times 7?,42\n",
            ":1: is not valid JSON: Expecting value at column 1; it looks like CSV",
        ),
        ("a", b'\xef\xbb\xbf"id";"Response"\n1;42\n', "; it looks like CSV"),
        ("a.txt", b"id\tprompt\n1\tWhy?\n", "; it looks like CSV"),
        (
            "a.txt",
            b",id,prompt\n0,1,Why?\n",
            "; it looks like CSV, which is read by a name that ends in .csv, with commas, or in ",
        ),
        ("a", b"ARROW1\x00\x00\xff\xff\xff\xff", ": is an Arrow file: give it by a name that ends in .arrow"),
        ("a.gz", gzip.compress(b"question,answer\n", mtime=0), "; it looks like CSV"),
        ("a", b"PAR1\x15\x04\x15\x06", ": is a Parquet file: give it by a name that ends in .parquet"),
        ("a.json", json.dumps({"results": [RESPONSE]}, indent=2).encode(), "; each record is one line: jq -c . "),
    ],
)
def test_files_in_other_forms_are_called_by_name(run_tokur, tmp_path, name, data, said):
    path = tmp_path / name
    path.write_bytes(data)
    code, out, err = run_tokur("score", path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"tokur score: {path}:")
    assert said in err


DEEPEVAL = {"name": "t", "input": "6 times 7?", "actual_output": "42", "expected_output": "42", "success": True}
PROMPTFOO = {"prompt": {"raw": "6 times 7?", "label": "p"}, "response": {"output": "42"}, "success": True, "score": 1}


@pytest.mark.parametrize(
    ("row", "said", "options"),
    [
        (
            DEEPEVAL,
            '"messages" or "prompt"; --question-field names another field: name, input, actual_output, expected_output',
            ["--question-field", "input", "--response-field", "actual_output", "--label-field", "success"],
        ),
        (
            PROMPTFOO,
            '"prompt" is an object, not a string; --question-field names another field: prompt.raw, prompt.label',
            ["--question-field", "prompt.raw", "--response-field", "response.output", "--label-field", "success"],
        ),
    ],
)
def test_rows_of_no_known_format_are_shown_their_fields_and_the_options_that_name_them(
    run_tokur, tmp_path, row, said, options
):
    path = write_lines(tmp_path / "in.jsonl", [row])
    code, _, err = run_tokur("score", path)
    assert code == 1
    assert said in err
    code, _, err = run_tokur("evaluate", path, *options, "--graded", tmp_path / "graded.jsonl")
    assert (code, "accuracy 100" in err) == (0, True), err


def test_a_model_that_the_records_name_and_nobody_has_is_said_to_be_theirs(run_tokur, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    row = {**RESPONSE, "tokur": {"schema": 1, "model": "gpt-4o-mini-2024-07-18"}}
    code, _, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]))
    assert code == 1
    assert "the records name gpt-4o-mini-2024-07-18, -m names another model to take" in err
    code, _, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row]), "-m", "gpt-4o-mini-2024-07-18")
    assert (code, "the records name" in err) == (1, False)


def test_a_prompt_that_no_template_made_is_said_to_be_taken_word_for_word(run_tokur, tiny_folder, tmp_path):
    said = "is taken word for word"
    chat = "<|im_start|>user\n6 times 7?<|im_end|>\n<|im_start|>assistant\n"
    for prompt, expected in (("6 times 7?", 1), (chat, 0)):
        rows = [{"prompt": prompt, "response": "42"}] * 2
        path = write_lines(tmp_path / "in.jsonl", rows)
        code, _, err = run_tokur("score", path, "-m", tiny_folder)
        assert (code, err.count(said)) == (0, expected)
        assert run_tokur("score", path, "-m", tiny_folder, "--question-field", "prompt")[2].count(said) == 0
        write_lines(path, [{"prompt": prompt, "id": name} for name in "ab"])
        for options, count in (([], expected), (["--score"], expected), (["--question-field", "prompt"], 0)):
            code, _, err = run_tokur("generate", path, "-m", tiny_folder, "--max-new-tokens", 2, *options)
            assert (code, err.count(said)) == (0, count)


def test_rows_with_a_system_prompt_score_as_the_chat_that_they_are(run_tokur, tiny_folder, tmp_path):
    row = {"prompt": "6 times 7?", "system": "Be brief.", "response": "42"}
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6 times 7?"}]
    found = []
    for given in (row, {"messages": turns, "response": "42"}):
        code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [given]), "-m", tiny_folder)
        assert (code, err) == (0, "")
        found.append(json.loads(out)["tokur"]["scores"])
    assert found[0] == found[1]


def test_what_a_prompt_lacks_of_the_logs_is_said(run_tokur, tiny_folder, tmp_path):
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    question = {"role": "user", "content": "6 times 7?"}
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": "add", "arguments": {}}]}
    withheld = {"schema": 1, "reasoning": "withheld"}
    for row, said in (
        ({"messages": [question], "tools": [tool], "response": "42"}, "has no place for tools"),
        ({"messages": [question, call, question], "response": "42"}, "the records do not define them"),
        (
            {"question": "6 times 7?", "response": "42", "tokur": withheld},
            "reasoning before some responses was withheld",
        ),
    ):
        code, _, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", [row, row]), "-m", tiny_folder)
        assert (code, err.count(said), err.count("\n")) == (0, 1, 1), err


def test_a_question_is_asked_without_a_file(run_tokur, tiny_folder, tmp_path):
    options = ("-m", tiny_folder, "--max-new-tokens", 4, "--score", "--sigma", "0.1")
    code, out, err = run_tokur("generate", "--question", "What is 7 × 8?", *options)
    assert (code, err) == (0, "")
    path = write_lines(tmp_path / "in.jsonl", [{"question": "What is 7 × 8?"}])
    assert parsed(out) == parsed(run_tokur("generate", path, *options)[1])
    assert run_tokur("heatmap", write_lines(tmp_path / "scored.jsonl", [json.loads(out)]))[0] == 0
    assert (
        run_tokur("generate", "--question", "What is 7 × 8?", *options, "-n", 2, "--temperature", 1)[1].count("\n") == 2
    )


def test_a_question_in_the_place_of_a_file_is_told_how_to_be_asked(run_tokur, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = 'tokur generate: there is no file "What is 7 × 8?": to ask this, put --question before it\n'
    assert run_tokur("generate", "What is 7 × 8?") == (2, "", said)
    write_lines(tmp_path / "my questions.jsonl", [])
    assert run_tokur("generate", "my questions.jsonl")[0] == 0
    code, _, err = run_tokur("generate", "my questions.jsonl", "--question", "Why?")
    assert (code, "contradicts questions" in err) == (2, True), err


def test_a_log_is_told_each_minute_how_far_a_run_is(run_tokur, tiny_folder, tmp_path, monkeypatch):
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
