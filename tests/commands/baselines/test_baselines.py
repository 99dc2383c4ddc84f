"""Scores that ask the model, through the command line."""

import json

import pytest
import torch

from tests.engine.baselines.plain import by_hand
from tests.helpers import parsed, records, turn_of, write_lines
from tests.tiny import tiny_model, tiny_tokenizer
from tokur_cli.commands.baselines.questions import P_TRUE, question_of
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.record import Record


@pytest.fixture
def responses(tmp_path):
    return write_lines(tmp_path / "responses.jsonl", records(20))


def test_p_true_is_the_probability_after_the_prompt(run_tokur, tiny_folder, responses):
    _, out, _ = run_tokur("score", responses, "-m", tiny_folder, "--scores", "p_true", "--dtype", "float32")
    asked = turn_of(P_TRUE, next(records(1)))
    with torch.no_grad():
        assert parsed(out)[0]["tokur"]["scores"]["p_true"] == pytest.approx(by_hand(tiny_model(), asked), abs=1e-5)


def test_baselines_what_fails_of_one_record_is_its_error_and_the_others_go_on(run_tokur, tiny_folder, tmp_path):
    """P(True)'s prompt for it is longer than the model's context, which the response itself fits into."""
    rows = list(records(5))
    rows[2]["question"] = "Why? " * 80
    options = ("-m", tiny_folder, "--scores", "p_true", "--dtype", "float32", "--skip-invalid")
    code, out, err = run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), *options)
    assert (code, "in.jsonl:3: p_true: the prompt has" in err) == (3, True), err
    _, expected, _ = run_tokur("score", write_lines(tmp_path / "good.jsonl", [*rows[:2], *rows[3:]]), *options)
    found = [record["tokur"]["scores"] for record in parsed(out)]
    assert found == [pytest.approx(record["tokur"]["scores"], abs=1e-6) for record in parsed(expected)]


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        ({"question": "Why?", "tokur": {"prompt_token_ids": [65, 66]}}, "Why?"),
        ({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why me?"}]}, "Why me?"),
        (
            {
                "messages": [
                    {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Yes?"},
                    {"role": "user", "content": "Why?"},
                ]
            },
            "User: Hi\nAssistant: Yes?\nUser: Why?",
        ),
        ({"tokur": {"prompt_token_ids": [32, 33]}}, "AB"),
    ],
    ids=["question", "messages", "conversation", "ids"],
)
def test_question_of_is_what_the_record_asked(row, asked):
    tokenizer = ResponseTokenizer(tiny_tokenizer(), 512, (258,), 259)
    record = Record.parse(json.dumps({**row, "response": "so"}).encode(), "in.jsonl", 1)
    assert question_of(record, tokenizer) == asked
