"""Scores that ask the model, through the command line."""

import json
import math
import re
import subprocess
import sys

import pytest
import torch

from tests.engine.baselines.test_yes_no import by_hand
from tests.helpers import parsed, records, write_lines
from tests.tiny import tiny_model, tiny_model_folder, tiny_tokenizer
from tokur_cli.commands.baselines.questions import P_TRUE, question_of
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import CATALOGUE


@pytest.fixture
def responses(tmp_path):
    return write_lines(tmp_path / "responses.jsonl", records(20))


@pytest.fixture
def plain_folder(tmp_path):
    """A model without a chat template."""
    folder = tiny_model_folder(tmp_path)
    (folder / "chat_template.jinja").unlink()
    return folder


def turn_of(form, row):
    """The user's turn that asks about a response, as the tiny model's chat template writes it."""
    asked = form.format(question=row["question"], response=row["response"])
    return f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n"


def test_scores_help_is_a_table_of_all_scores_without_a_model(tmp_path):
    script = (
        "import sys; sys.argv = ['tokur', 'score', '--scores', 'help']\n"
        "from tokur_cli.app import main\n"
        "try: main()\n"
        "finally: assert not {'torch', 'transformers', 'sklearn'} & set(sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not re.search(" $", out, re.MULTILINE)
    head, *rows = out.split("\n\n")[0].splitlines()
    assert head.split() == ["score", "better", "default", "takes", "source", "meaning"]
    cells = [[row[start:end].strip() for start, end in columns(head)] for row in rows]
    assert [row[0] for row in cells] == list(CATALOGUE)
    told = {row[0]: row[1:4] for row in cells}
    assert told["eu"] == ["lower", "yes", "M passes"]
    assert told["ll"] == ["higher", "yes", "nothing"]
    assert told["p_true"] == ["higher", "no", "1 pass"]
    assert told["p_correct"] == ["higher", "no", "a calibration file"]


def columns(head):
    starts = [head.index(title) for title in head.split()]
    return list(zip(starts, [*starts[1:], None], strict=True))


def test_scores_that_take_more_are_computed_only_if_asked_for(run_tokur, tiny_folder, responses):
    _, out, _ = run_tokur("score", responses, "-m", tiny_folder)
    assert "p_true" not in parsed(out)[0]["tokur"]["scores"]
    code, out, _ = run_tokur("score", responses, "-m", tiny_folder, "--scores", "default,p_true")
    assert code == 0
    for record in parsed(out):
        assert 0 < record["tokur"]["scores"]["p_true"] < 1
        assert len(record["tokur"]["scores"]) == 1 + sum(score.default for score in CATALOGUE.values())
        assert "p_true" not in record["tokur"]["tokens"]


def test_p_true_is_the_probability_after_the_prompt(run_tokur, tiny_folder, responses):
    _, out, _ = run_tokur("score", responses, "-m", tiny_folder, "--scores", "p_true", "--dtype", "float32")
    asked = turn_of(P_TRUE, next(records(1)))
    with torch.no_grad():
        assert parsed(out)[0]["tokur"]["scores"]["p_true"] == pytest.approx(by_hand(tiny_model(), asked), abs=1e-5)


def test_p_true_without_a_chat_template_asks_the_question_alone(run_tokur, plain_folder, responses):
    options = ["-m", plain_folder, "--scores", "p_true", "--template", "raw", "--dtype", "float32"]
    _, out, _ = run_tokur("score", responses, *options)
    row = next(records(1))
    asked = P_TRUE.format(question=row["question"], response=row["response"])
    with torch.no_grad():
        assert parsed(out)[0]["tokur"]["scores"]["p_true"] == pytest.approx(by_hand(tiny_model(), asked), abs=1e-5)


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        ({"question": "Why?", "tokur": {"prompt_token_ids": [65, 66]}}, "Why?"),
        ({"prompt": "Why so?"}, "Why so?"),
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
    ids=["question", "prompt", "messages", "conversation", "ids"],
)
def test_question_of_is_what_the_record_asked(row, asked):
    tokenizer = ResponseTokenizer(tiny_tokenizer(), 512, (258,), 259)
    record = Record.parse(json.dumps({**row, "response": "so"}).encode(), "in.jsonl", 1)
    assert question_of(record, tokenizer) == asked


def test_the_inside_is_looked_at_together_with_the_scoring_of_the_same_tokens(run_tokur, tiny_folder, responses):
    """Where nothing but the number of logits differs: over all of 259, the entropy is at least that over 50."""
    scores = "default,llm_check_logit_entropy"
    _, out, _ = run_tokur("score", responses, "-m", tiny_folder, "--scores", scores, "--dtype", "float32")
    for record in parsed(out):
        tokens, found = record["tokur"]["tokens"], record["tokur"]["scores"]
        assert found["llm_check_perplexity"] == pytest.approx(math.exp(-found["ll"]))
        assert found["llm_check_window_entropy"] == pytest.approx(max(tokens["entropy"]))
        assert found["llm_check_logit_entropy"] <= found["pe"]


@pytest.mark.parametrize(("spare", "code"), [(0, 0), (-1, 1)])
def test_llm_check_needs_room_for_the_last_token(run_tokur, tiny_folder, tmp_path, spare, code):
    """The chat template takes 41 bytes and tokens around a question of one byte; the context holds 512."""
    prompt = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
    tokens = 512 - len(tiny_tokenizer()(prompt)["input_ids"]) - spare
    path = write_lines(tmp_path / "in.jsonl", [{"question": "q", "response": "a" * tokens}])
    assert run_tokur("score", path, "-m", tiny_folder, "--scores", "ll")[0] == 0
    ended, _, err = run_tokur("score", path, "-m", tiny_folder, "--scores", "llm_check_hidden")
    assert ended == code
    assert not err or "no room for the response's last token" in err
