"""Families that are built otherwise than Llama, from question to uncertainty."""

import copy

import pytest

from tests.engine import oracle
from tests.engine.more_families import more
from tests.helpers import parsed, write_lines
from tests.tiny import tiny_tokenizer

QUESTIONS = [{"id": str(n), "question": "How many? " * n} for n in (1, 4, 2)]


@pytest.mark.parametrize(
    "family", ["jamba", "qwen3_5_text", "falcon_h1", "mistral3", "qwen2_vl", "deepseek_v3", "dbrx"]
)
def test_generate_what_a_model_generates_it_scores_and_a_row_is_what_it_is_alone(family, run_tokur, tmp_path):
    model, folder = more(family), tmp_path / "model"
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    settings = ("-m", folder, "--dtype", "float32", "--max-new-tokens", "6", "--temperature", "0.8", "-n", "2")
    code, out, err = run_tokur("generate", write_lines(tmp_path / "q.jsonl", QUESTIONS), *settings)
    assert code == 0, err
    together = parsed(out)
    assert len(together) == 6
    code, out, err = run_tokur("generate", write_lines(tmp_path / "one.jsonl", QUESTIONS[2:]), *settings)
    assert code == 0, err
    assert [r["tokur"]["token_ids"] for r in parsed(out)] == [r["tokur"]["token_ids"] for r in together[4:]]
    code, out, err = run_tokur("score", write_lines(tmp_path / "r.jsonl", together), "-m", folder, "--dtype", "float32")
    assert code == 0, err
    exact = copy.deepcopy(model).double()
    for record in parsed(out):
        prompt = tiny_tokenizer().apply_chat_template(
            [{"role": "user", "content": record["question"]}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        ids = record["tokur"]["token_ids"]
        expected = oracle.log_probabilities(exact, prompt, ids)[range(len(ids)), ids]
        assert record["tokur"]["tokens"]["logprob"] == pytest.approx(expected.tolist(), abs=2e-3)
        assert sum(record["tokur"]["tokens"]["eu"]) > 0
