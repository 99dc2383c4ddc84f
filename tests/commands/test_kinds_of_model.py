"""Kinds of model from the command line: adapted, quantised, and those that the paper's strength does not suit."""

import copy

import peft
import pytest

from tests.engine import oracle
from tests.engine.loading import LORA, plain_model, save_adapter
from tests.helpers import parsed, records, write_lines
from tests.tiny import quiet_model, tiny_model, tiny_model_folder, tiny_tokenizer

SAID = "σ = 0.012: at 0.1 the draws are 0.91 nats a token from this model, which is more than 0.03"


@pytest.fixture
def adapter(tiny_folder, tmp_path):
    save_adapter(tmp_path / "adapter", ("LoraConfig", LORA), tiny_folder, quiet_model())
    return tmp_path / "adapter"


def test_adapter_draws_are_adapters_that_stand_beside_the_models_own(run_tokur, tiny_folder, adapter, tmp_path):
    folder = tmp_path / "posterior"
    options = ("--sigma", 0.3, "-o", folder, "--dtype", "float32")
    code, _, err = run_tokur("perturb", "-m", tiny_folder, "--adapter", adapter, *options)
    assert (code, err) == (
        0,
        f"tokur perturb: {folder}: wrote the posterior (σ = 0.3) and 2 draws as adapters, each to be loaded beside "
        f"{adapter}\n",
    )
    responses = write_lines(tmp_path / "responses.jsonl", [{"question": "1+1?", "response": "it is 2"}])
    code, out, err = run_tokur("score", responses, "--posterior", folder, "--sampling", "shared", "--dtype", "float32")
    assert (code, err) == (0, ""), "the posterior names the adapter and its base"
    (scored,) = parsed(out)
    assert scored["tokur"]["run"]["base"] == str(tiny_folder)
    _, asked, _ = run_tokur("generate", responses, "-m", adapter, "--max-new-tokens", 1)
    prompt, ids = parsed(asked)[0]["tokur"]["prompt_token_ids"], tiny_tokenizer()("it is 2").input_ids
    draws = []
    for member in range(2):
        beside = peft.PeftModel.from_pretrained(copy.deepcopy(quiet_model()), adapter, "own")
        beside.load_adapter(folder / f"draw-{member}", "draw")
        beside.base_model.set_adapter(["own", "draw"])
        draws.append(oracle.log_probabilities(beside.eval(), prompt, ids))
    expected = oracle.reference_quantities(draws[0], draws, ids)
    for name in ("tu", "au", "eu"):
        assert scored["tokur"]["tokens"][name] == pytest.approx(expected[name], abs=1e-4), name
    assert expected["eu"].max() > 1e-3


@pytest.fixture
def plain_folder(tmp_path):
    for part in (plain_model(), tiny_tokenizer()):
        part.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("bits", ["4bit", "8bit"])
def test_quantize_a_model_is_quantised_scored_and_generates_without_a_word(bits, run_tokur, plain_folder, tmp_path):
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    responses = write_lines(tmp_path / "responses.jsonl", records(4))
    options = ("-m", plain_folder, "--quantize", bits, "--sigma", 0.5)
    code, out, err = run_tokur("score", responses, *options)
    assert (code, err) == (0, "")
    assert [record["tokur"]["run"]["quantize"] for record in parsed(out)] == [bits] * 4
    assert all(record["tokur"]["scores"]["eu"] > 0 for record in parsed(out))
    _, plain, _ = run_tokur("score", responses, "-m", plain_folder, "--sigma", 0.5)
    assert "quantize" not in parsed(plain)[0]["tokur"]["run"]
    assert parsed(plain)[0]["tokur"]["scores"]["ll"] != parsed(out)[0]["tokur"]["scores"]["ll"]
    code, generated, err = run_tokur("generate", responses, *options[:4], "--max-new-tokens", 4)
    assert (code, err) == (0, "")
    assert {record["tokur"]["generation"]["quantize"] for record in parsed(generated)} == {bits}
    code, _, err = run_tokur("perturb", *options, "-o", tmp_path / "posterior")
    assert code == 0
    code, kept, err = run_tokur("score", responses, *options[:4], "--posterior", tmp_path / "posterior")
    assert (code, err) == (0, "")
    assert parsed(kept)[0]["tokur"]["scores"] == parsed(out)[0]["tokur"]["scores"]


@pytest.fixture
def responses(tmp_path):
    return write_lines(tmp_path / "responses.jsonl", records(6))


def test_sigma_of_a_sensitive_model_is_less_and_its_records_and_standard_error_say_so(run_tokur, tmp_path, responses):
    """A model whose outputs are those of ``tiny_folder``'s, and that noise in the weights moves more."""
    options = ("score", responses, "-m", tiny_model_folder(tmp_path), "--dtype", "float32")
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
