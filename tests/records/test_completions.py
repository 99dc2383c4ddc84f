"""What the clients of OpenAI and Anthropic return, saved a line each, is read and joined with what was asked.

The files are those of ``tests/data/formats/make_completions.py``: the clients themselves wrote them.
"""

import itertools
import json

import pytest

from tests.helpers import parsed
from tests.records.reading import DATA, message_of, read, read_row
from tokur_cli.records.errors import TokurError
from tokur_cli.records.reader import read_records

QUESTIONS = ["What is 6 times 7?", "Name a prime above 10.", "Why is the sky blue?"]
SYSTEM = {"role": "system", "content": "Be brief."}


def requests(name):
    return str(DATA / f"completions{name}_requests.jsonl")


def lines(path, *rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def completion(number=1, text="4"):
    """A chat completion of the file that has the least of it."""
    row = json.loads((DATA / "completions.jsonl").read_text().splitlines()[2])
    row["id"], row["choices"][0]["message"]["content"] = f"chatcmpl-{number}", text
    return row


@pytest.mark.parametrize(
    ("name", "first", "model"),
    [
        ("", "It is 42.", "gpt-4o-mini-2024-07-18"),
        ("_text", " It is 42.", "davinci-002"),
        ("_responses", "It is 42.", "gpt-5-mini-2025-08-07"),
        ("_messages", "<think>\nLet me see.\n</think>\n\nIt is 42.", "claude-sonnet-4-5-20250929"),
    ],
)
def test_saved_completions_are_joined_with_their_requests_in_order(name, first, model):
    records = read(f"completions{name}.jsonl", requests=requests(name))
    assert records[0].response == first
    assert {record.tokur["model"] for record in records} == {model}
    asked = [question for number, question in enumerate(QUESTIONS) for _ in range(1 + (number == 1 and name == ""))]
    for record, question in zip(records, asked, strict=True):
        turn = {"role": "user", "content": question}
        expected = [SYSTEM, turn] if name != "_text" else question
        assert (record.prompt.text if name == "_text" else record.prompt.messages) == expected
        assert record.id is None  # that of a completion is no question's
    assert [record.finish_reason for record in records] == ["length" if name == "_text" else "stop"] * len(asked)


def test_the_choices_of_a_completion_are_samples():
    records = read("completions.jsonl", requests=requests(""))
    assert [(record.line, record.sample) for record in records] == [(1, 0), (2, 0), (2, 1), (3, 0)]
    assert [choice["index"] for choice in records[2].fields["choices"]] == [1]
    assert records[0].token_strings == ["It", " is", " 42."]


def test_completions_of_one_question_are_samples_of_it(tmp_path, run_tokur):
    """Five calls a question, saved in the order of the calls; ``select`` lets them vote."""
    texts = ["4", "5", "4", "5", "4", "7", "7", "6"]
    saved = lines(tmp_path / "out.jsonl", *(completion(n, f"It is {text}.") for n, text in enumerate(texts)))
    rows = [{"question": "2 + 2?", "reference": 4}] * 5 + [{"question": "3 + 3?", "reference": 6}] * 3
    asked = lines(tmp_path / "in.jsonl", *rows)
    records = list(read_records(str(saved), requests=str(asked)))
    assert [record.sample for record in records] == [0, 1, 2, 3, 4, 0, 1, 2]
    code, out, err = run_tokur("select", saved, "--requests", asked, "--method", "maj", "--keep", "100%")
    assert code == 0, err
    assert [(row["question"], row["tokur"]["answer"], row["tokur"]["votes"]) for row in parsed(out)] == [
        ("2 + 2?", "4", 3),
        ("3 + 3?", "7", 2),
    ]


@pytest.mark.parametrize("form", ["gsm8k", "batch", "own"])
def test_what_was_asked_may_be_rows_of_any_form(tmp_path, form):
    turn = {"role": "user", "content": "2 + 2?"}
    row = {
        "gsm8k": {"question": "2 + 2?", "answer": "It is 4.\n#### 4", "level": 1.10},
        "batch": {"custom_id": "a", "method": "POST", "url": "/v1", "body": {"model": "m", "messages": [turn]}},
        "own": {"id": "a", "messages": [turn], "reference": "4"},
    }[form]
    (record,) = read_records(
        str(lines(tmp_path / "out.jsonl", completion())), requests=str(lines(tmp_path / "in.jsonl", row))
    )
    prompt = record.prompt
    assert prompt.question == "2 + 2?" if form == "gsm8k" else prompt.messages == [turn]
    assert (record.id, record.references) == (None if form == "gsm8k" else "a", [] if form == "batch" else ["4"])
    assert record.fields["source"]["id"] == "chatcmpl-1"
    if form == "gsm8k":
        assert (record.get("level"), record.get("model")) == (1.1, "gpt-4o-mini-2024-07-18")


@pytest.mark.parametrize(("saved", "asked"), list(itertools.permutations((1, 2, 3), 2)))
@pytest.mark.parametrize("piped", [False, True])
def test_other_numbers_of_completions_and_requests_are_no_pairs(tmp_path, monkeypatch, saved, asked, piped):
    if piped:
        monkeypatch.setattr("tokur_cli.records.reader.is_regular_file", lambda path: False)
    out = lines(tmp_path / "out.jsonl", *map(completion, range(saved)))
    questions = lines(tmp_path / "in.jsonl", *({"question": f"{n}?"} for n in range(asked)))
    items = read_records(str(out), requests=str(questions))
    with pytest.raises(TokurError, match=r"in\.jsonl: holds .* requests, but there are .* completions"):
        assert [next(items).prompt.question for _ in range(saved + 1)] == []
    if not piped:  # nothing was joined that might be wrong
        assert list(items) == []


def test_bad_rows_of_either_file_leave_the_others_their_places(tmp_path):
    out = lines(tmp_path / "out.jsonl", "{", completion(1, "b"), completion(2, "c"), completion(3, "d"))
    asked = lines(tmp_path / "in.jsonl", {"question": "a?"}, {"question": "b?"}, "[", {"question": "d?"})
    first, second, third, fourth = read_records(str(out), requests=str(asked))
    assert "is not valid JSON" in message_of(first)
    assert (second.prompt.question, second.response) == ("b?", "b")
    assert message_of(third).startswith(f"its request is a bad one: {asked}:3: ")
    assert (fourth.prompt.question, fourth.response) == ("d?", "d")


def test_commands_that_need_no_question_read_them_alone(run_tokur, tmp_path):
    code, out, err = run_tokur("select", DATA / "completions.jsonl", "--method", "maj", "--keep", "100%")
    assert code == 0, err
    assert [row["id"] for row in parsed(out)] == ["chatcmpl-1", "chatcmpl-2", "chatcmpl-3"]
    code, out, err = run_tokur("score", "--from-logprobs", DATA / "completions.jsonl", "--skip-invalid")
    assert code == 3, err
    (scored,) = parsed(out)
    assert scored["tokur"]["scores"]["ll_sum"] == pytest.approx(-0.75)
    asked = [{"question": question, "reference": "42"} for question in QUESTIONS]
    graded = tmp_path / "graded.jsonl"
    given = ("--requests", lines(tmp_path / "in.jsonl", *asked), "--graded", graded)
    code, _, err = run_tokur("evaluate", DATA / "completions.jsonl", *given)
    assert (code, "graded 4 records, 4 with a label" in err) == (0, True), err
    assert json.loads(graded.read_text().splitlines()[0])["correct"] is True


def test_log_probabilities_of_the_responses_api_are_found(tmp_path, run_tokur):
    row = json.loads((DATA / "completions_responses.jsonl").read_text().splitlines()[0])
    token = {"token": "It is 42.", "bytes": list(b"It is 42."), "logprob": -0.5, "top_logprobs": []}
    row["output"][0]["content"][0]["logprobs"] = [token]
    code, out, err = run_tokur("score", "--from-logprobs", lines(tmp_path / "in.jsonl", row))
    assert code == 0, err
    assert parsed(out)[0]["tokur"]["scores"]["ll_sum"] == -0.5


def test_anthropics_tools_and_hidden_reasoning_are_understood(tmp_path):
    blocks = [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "4"}]
    row = {"id": "m", "type": "message", "role": "assistant", "content": blocks, "stop_reason": "max_tokens"}
    tool = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
    asked = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "2 + 2?"}], "tools": [tool]}
    record = read_row(tmp_path, row, requests=str(lines(tmp_path / "in.jsonl", asked)))
    assert (record.response, record.finish_reason, record.tokur["reasoning"]) == ("4", "length", "withheld")
    told = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
    assert record.prompt.tools == [{"type": "function", "function": told}]
