"""Adapters from the command line: what is loaded, what the records name, and what is made of it."""

import copy

import pytest

from tests.engine import oracle
from tests.engine.loading import LORA, save_adapter
from tests.helpers import parsed, records, write_lines
from tests.tiny import quiet_model, tiny_tokenizer

peft = pytest.importorskip("peft")


@pytest.fixture
def adapter(tiny_folder, tmp_path):
    save_adapter(tmp_path / "adapter", ("LoraConfig", LORA), tiny_folder, quiet_model())
    return tmp_path / "adapter"


def test_adapter_scores_are_of_the_adapted_model_and_the_run_names_both(run_tokur, tiny_folder, adapter, tmp_path):
    responses = write_lines(tmp_path / "responses.jsonl", records(4))
    code, out, err = run_tokur("score", responses, "-m", adapter, "--dtype", "float32")
    assert (code, err) == (0, "")
    run = parsed(out)[0]["tokur"]["run"]
    assert (run["model"], run["base"], run["base_revision"]) == (str(adapter), str(tiny_folder), None)
    assert run["model_digest"] != run["base_digest"]
    for also in (("-m", tiny_folder, "--adapter", adapter), ("--adapter", adapter)):
        assert run_tokur("score", responses, *also, "--dtype", "float32") == (0, out, "")
    beside = peft.PeftModel.from_pretrained(quiet_model(), adapter).eval()
    _, plain, _ = run_tokur("score", responses, "-m", tiny_folder, "--dtype", "float32")
    prompts = write_lines(tmp_path / "questions.jsonl", records(4))
    _, generated, _ = run_tokur("generate", prompts, "-m", adapter, "--dtype", "float32", "--max-new-tokens", 1)
    for scored, other, asked in zip(parsed(out), parsed(plain), parsed(generated), strict=True):
        ids = _byte_ids(scored["response"])
        log_p = oracle.log_probabilities(beside, asked["tokur"]["prompt_token_ids"], ids)
        expected = float(log_p[range(len(ids)), ids].mean())
        assert scored["tokur"]["scores"]["ll"] == pytest.approx(expected, abs=1e-4)
        assert abs(other["tokur"]["scores"]["ll"] - expected) > 1e-3


def _byte_ids(text):
    return tiny_tokenizer()(text, add_special_tokens=False).input_ids


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
    prompt, ids = parsed(asked)[0]["tokur"]["prompt_token_ids"], _byte_ids("it is 2")
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
