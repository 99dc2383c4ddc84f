"""Claims about the embedded SmolLM2, on real questions and responses."""

import json

import numpy as np
import pytest
import torch

from tests.helpers import parsed, sample_lines, write_lines

pytestmark = [pytest.mark.real_model, pytest.mark.usefixtures("all_threads")]


@pytest.fixture(scope="module")
def plain_model():
    """The embedded model by plain transformers calls."""
    import transformers

    from tokur_cli.engine.model.cached import LANGUAGE, embedded_folder

    model = transformers.AutoModelForCausalLM.from_pretrained(embedded_folder(LANGUAGE, print), dtype=torch.float32)
    return model.eval()


@pytest.mark.slow
def test_baselines_equal_a_plain_transformers_loop(run_tokur, plain_model, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", sample_lines("responses.jsonl", 3))
    code, out, err = run_tokur("score", path, "--dtype", "float32", "--scores", "ll,pe,self_certainty,deepconf")
    assert (code, err) == (0, "")
    for record in parsed(out):
        prompt, ids = record["tokur"]["prompt_token_ids"], record["tokur"]["token_ids"]
        with torch.no_grad():
            logits = plain_model(torch.tensor([prompt + ids])).logits[0].double()
        log_p = logits.log_softmax(-1)[len(prompt) - 1 : -1]
        expected = {
            "ll": log_p[range(len(ids)), ids].mean(),
            "pe": -(log_p.exp() * log_p).sum(-1).mean(),
            "self_certainty": -log_p.mean() - np.log(log_p.shape[-1]),
            "deepconf": -log_p.topk(20).values.mean(),
        }
        for name, value in expected.items():
            assert record["tokur"]["scores"][name] == pytest.approx(value.item(), abs=1e-4), name


@pytest.mark.slow
def test_generated_responses_are_the_samples_own(run_tokur, tmp_path):
    """The samples were made by plain transformers generation in padded batches."""
    path = write_lines(tmp_path / "q.jsonl", sample_lines("questions.jsonl", 4))
    code, out, err = run_tokur("generate", path, "--dtype", "float32", "--max-new-tokens", "256")
    assert (code, err) == (0, "")
    for record, line in zip(parsed(out), sample_lines("responses.jsonl", 4), strict=True):
        assert record["response"] == json.loads(line)["response"]
        assert record["tokur"]["token_ids"] == json.loads(line)["tokur"]["token_ids"]


@pytest.mark.slow
def test_text_alone_scores_like_the_exact_ids(run_tokur, tmp_path):
    """A response that came as text is tokenized as the model had written it."""
    lines = sample_lines("responses.jsonl", 4)
    bare = []
    for line in lines:
        record = json.loads(line)
        bare.append({**record, "tokur": {"finish_reason": record["tokur"]["finish_reason"]}})
    both = [
        parsed(run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), "--scores", "ll", "--dtype", "float32")[1])
        for rows in (lines, bare)
    ]
    for exact, text in zip(*both, strict=True):
        assert text["tokur"]["tokens"]["offsets"] == exact["tokur"]["tokens"]["offsets"]
        assert text["tokur"]["scores"] == pytest.approx(exact["tokur"]["scores"], rel=1e-3, abs=1e-5)
