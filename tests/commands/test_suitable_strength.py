"""The default strength suits the model: kept where the paper's does, lowered and said where it would be too much."""

import json

import pytest

from tests.helpers import parsed, records, write_lines
from tests.tiny import tiny_model, tiny_tokenizer

SAID = "σ = 0.012: at 0.1 the draws are 0.91 nats a token from this model, which is more than 0.03"


@pytest.fixture(scope="module")
def sensitive_folder(tmp_path_factory):
    """A model whose outputs are those of ``tiny_folder``'s, and that noise in the weights moves more."""
    folder = tmp_path_factory.mktemp("sensitive")
    tiny_model("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def responses(tmp_path):
    return write_lines(tmp_path / "responses.jsonl", records(6))


def test_sigma_of_a_sensitive_model_is_less_and_its_records_and_standard_error_say_so(
    run_tokur, sensitive_folder, responses
):
    options = ("score", responses, "-m", sensitive_folder, "--dtype", "float32")
    code, out, err = run_tokur(*options)
    assert code == 0
    assert err.count("\n") == 1
    assert f"tokur score: {SAID} (--sigma 0.1 takes it all the same)" in err
    runs = [record["tokur"]["run"] for record in parsed(out)]
    assert {run["sigma"] for run in runs} == {0.012}
    assert runs[0]["sigma_auto"] == {"paper": 0.1, "paper_kl": 0.91, "most_kl": 0.03}
    code, given, err = run_tokur(*options, "--sigma", 0.012)
    assert (code, err) == (0, "")
    assert [record["tokur"]["tokens"] for record in parsed(given)] == [r["tokur"]["tokens"] for r in parsed(out)]
    assert "sigma_auto" not in parsed(given)[0]["tokur"]["run"]


def test_sigma_the_papers_strength_swamps_a_model_that_is_sure_and_the_end_says_so(run_tokur, tmp_path):
    model = tiny_model("llama")
    model.lm_head.weight *= 5
    model.save_pretrained(tmp_path / "sure")
    tiny_tokenizer().save_pretrained(tmp_path / "sure")
    lines = write_lines(tmp_path / "in.jsonl", records(20))
    code, out, err = run_tokur("score", lines, "-m", tmp_path / "sure", "--sigma", 0.1, "--dtype", "float32")
    tokens = [record["tokur"]["tokens"] for record in parsed(out)]
    tu, entropy = (sum(map(sum, (each[name] for each in tokens))) for name in ("tu", "entropy"))
    assert tu > 1.5 * entropy
    count = sum(len(each["tu"]) for each in tokens)
    assert code == 0
    assert err == (
        f"tokur score: the draws swamp the model: its own entropy is {entropy / count:.2g} nats a token, tu is "
        f"{tu / count:.2g}; give a smaller --sigma (`tokur perturb --sweep` shows what each does)\n"
    )


def test_sigma_a_posterior_is_kept_with_the_strength_that_suits(run_tokur, sensitive_folder, responses, tmp_path):
    code, _, err = run_tokur("perturb", "-m", sensitive_folder, "-o", tmp_path / "kept", "--dtype", "float32")
    assert code == 0
    assert SAID in err
    assert json.loads((tmp_path / "kept" / "posterior.json").read_text())["sigma"] == 0.012
    code, out, err = run_tokur("score", responses, "--posterior", tmp_path / "kept")
    assert (code, err) == (0, "")
    assert parsed(out)[0]["tokur"]["run"]["sigma"] == 0.012
