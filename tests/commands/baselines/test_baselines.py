"""Scores that ask the model, through the command line."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from tests.engine.baselines.plain import by_hand
from tests.engine.baselines.tiny_encoders import tiny_encoder_folder
from tests.helpers import parsed, records, turn_of, write_lines
from tests.tiny import tiny_model, tiny_tokenizer
from tokur_cli.commands.baselines.comparison import judge as judge_of
from tokur_cli.commands.baselines.comparison import yes_no_question
from tokur_cli.commands.baselines.features import TextSet
from tokur_cli.commands.baselines.questions import P_TRUE, question_of
from tokur_cli.commands.options.model import PromptOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.engine.baselines.encoders import load_entailment
from tokur_cli.engine.baselines.yes_no import YES_OR_NO
from tokur_cli.engine.forward.probe import probe_model
from tokur_cli.engine.model.find import Source
from tokur_cli.engine.model.load import LanguageModel
from tokur_cli.engine.model.request import ModelRequest
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
        (
            {"messages": [{"role": "developer", "content": "Kind."}, {"role": "user", "content": "Why me?"}]},
            "Why me?",
        ),
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


@pytest.fixture
def judge():
    tokenizer = tiny_tokenizer()
    tiny = tiny_model()
    probe = probe_model("tiny", tiny, tokenizer)
    end_ids = (tokenizer.eos_token_id,)
    where = ModelRequest("tiny"), Source("tiny", "tiny"), None
    model = LanguageModel(*where, tiny.config, (), tokenizer, "float32", end_ids, tiny, probe, tiny.device)
    session = Session(model, PromptForm(PromptOptions()), Progress("score"), batch_tokens=1000)
    return partial(judge_of, yes_no_question(session, YES_OR_NO), session.tokenizer)


def test_entailment_the_judge_finds_what_plain_questions_to_the_model_find(judge):
    """By its bytes' forms: Yes and YES begin with Y, yes with y; with and without a space before them."""
    texts = ["It is 4.", "It is 5.", "4", "It is 4.", "No idea"]
    (entails,) = judge([TextSet("Why?", "", texts, [])])
    model, tokenizer = tiny_model().double(), tiny_tokenizer()
    for i, one in enumerate(texts):
        for j, other in enumerate(texts):
            question = (
                f'We are evaluating answers to the question "Why?"\nHere are two possible answers:\n'
                f"Possible Answer 1: {one}\nPossible Answer 2: {other}\n"
                "Does Possible Answer 1 semantically entail Possible Answer 2? Respond with Yes or No."
            )
            prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
            with torch.no_grad():
                plain = model(torch.tensor([tokenizer(prompt)["input_ids"]])).logits[0, -1].softmax(-1)
                spaced = model(torch.tensor([tokenizer(prompt + " ")["input_ids"]])).logits[0, -1].softmax(-1)
            space = float(plain[tokenizer(" ")["input_ids"][0]])
            yes, no = (
                sum(float(plain[b] + space * spaced[b]) for b in tokenizer(letters)["input_ids"])
                for letters in ("Yy", "Nn")
            )
            assert entails[i, j] == (one == other or yes > no), (one, other)
    assert 0 < entails.sum() < entails.size


def test_entailment_an_nli_model_serves_both_purposes_and_is_named_in_the_records(run_tokur, tiny_folder, tmp_path):
    labels = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}
    folder = tiny_encoder_folder(tmp_path / "nli", "deberta", "AutoModelForSequenceClassification", id2label=labels)
    options = ["--entailment", "nli", "--set", f"nli_model={folder}", "--similarity", "nli", "--over", "samples"]
    rows = [{**row, "id": "one", "question": "Why?", "response": row["response"][:8]} for row in records(3)]
    path = write_lines(tmp_path / "in.jsonl", rows)
    scores = ["--scores", "semantic_entropy,u_deg"]
    code, out, err = run_tokur("score", path, "-m", tiny_folder, *scores, *options)
    assert (code, err) == (0, "")
    scored = parsed(out)
    assert scored[0]["tokur"]["run"]["nli_model"] == str(folder)
    model = load_entailment(str(folder), "cpu", print, print)
    question = rows[0]["question"]
    texts = [f"{question} {row['response']}" for row in rows]
    alike = model(texts)[..., 0]
    np.fill_diagonal(alike, 1)
    degrees = (alike + alike.T).sum(axis=1) / 2
    found = [record["tokur"]["scores"]["u_deg"] for record in scored]
    assert found == pytest.approx(list(1 - degrees / 3), abs=1e-5)
