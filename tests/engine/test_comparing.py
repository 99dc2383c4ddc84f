"""Models that compare texts, against plain transformers calls, and what is said of models that don't."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from tests.engine.tiny_encoders import FAMILIES, LONGEST, tiny_encoder_folder, write_modules
from tests.tiny import tiny_tokenizer
from tokur_cli.engine import text_batches
from tokur_cli.engine.comparing import (
    DEFAULT_ENTAILMENT_MODEL,
    DEFAULT_SIMILARITY_MODEL,
    EmbeddingModel,
    load_entailment,
    load_similarity,
)
from tokur_cli.records.errors import TokurError, UsageError

CLASSIFIER = "AutoModelForSequenceClassification"
LABELS = {0: "CONTRADICTION", 1: "Entailment", 2: "neutral"}
TEXTS = ["It rains.", "The street is wet, since it rains.", "", "It rains.", "Ünï 🙂", "no"]
PAIRS = [(first, second) for first in TEXTS for second in TEXTS]
MEAN = {"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True}
OLD_MEAN = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
OLD_FIRST = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


@pytest.fixture
def nli_folder(tmp_path):
    return tiny_encoder_folder(tmp_path / "nli", "bert", CLASSIFIER, id2label=LABELS)


@pytest.fixture
def embedding_folder(tmp_path):
    folder = tiny_encoder_folder(tmp_path / "embedding", "bert", "AutoModel")
    write_modules(folder, MEAN)
    return folder


@pytest.fixture
def cross_encoder_folder(tmp_path):
    return tiny_encoder_folder(tmp_path / "cross", "roberta", CLASSIFIER, num_labels=1)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(text_batches, "BATCH_TOKENS", 100)


def entailment(folder, **options):
    return load_entailment(str(folder), device_map="cpu", **options)


def similarity(folder, **options):
    return load_similarity(str(folder), device_map="cpu", **options)


def edit(folder: Path, file: str, **fields) -> None:
    path = folder / file
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | fields))


def plain(folder, kind):
    """One text or pair at a time, by transformers alone."""
    model = getattr(transformers, kind).from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def outputs(*texts):
        with torch.no_grad():
            return model(**tokenizer(*texts, return_tensors="pt", truncation=True, max_length=LONGEST))

    return outputs


def cosines(vectors):
    vectors = [vector / np.linalg.norm(vector) for vector in vectors]
    return np.array([[max(0.0, float(one @ other)) for one in vectors] for other in vectors])


# --- entailment


@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_are_those_of_single_calls_with_the_labels_in_order(family, tmp_path, small_batches):
    folder = tiny_encoder_folder(tmp_path / "nli", family, CLASSIFIER, id2label=LABELS)
    outputs = plain(folder, CLASSIFIER)
    expected = np.array([outputs(*pair).logits[0].double().softmax(-1).numpy()[[1, 2, 0]] for pair in PAIRS])
    assert expected.std(axis=0).min() > 1e-3
    found = entailment(folder).probabilities(PAIRS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_the_premise_comes_first(nli_folder):
    forth, back = entailment(nli_folder).probabilities([("a", "b c"), ("b c", "a")])
    assert np.abs(forth - back).max() > 1e-3


def test_equal_pairs_are_computed_once_and_none_gives_an_empty_array(nli_folder):
    model = entailment(nli_folder)
    computed = []
    model.reader.model.register_forward_pre_hook(
        lambda _, args, inputs: computed.append(len(inputs["input_ids"])), with_kwargs=True
    )
    found = model.probabilities([("a", "b"), ("b", "a"), ("a", "b")])
    assert sum(computed) == 2
    np.testing.assert_array_equal(found[0], found[2])
    assert model.probabilities([]).shape == (0, 3)


@pytest.mark.parametrize(
    "labels",
    [
        {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
        {0: "entailment", 1: "not_entailment"},
        {0: "entailment", 1: "entails", 2: "neutral"},
        {0: "entailment", 1: "neutral", 2: "contradiction", 3: "other"},
    ],
)
def test_labels_that_do_not_tell_are_listed(labels, tmp_path):
    folder = tiny_encoder_folder(tmp_path / "nli", "bert", CLASSIFIER, id2label=labels)
    with pytest.raises(TokurError, match=rf"they are {', '.join(labels.values())}; use .*--nli-model"):
        entailment(folder)


def test_a_model_that_does_not_classify_is_refused_as_entailment(embedding_folder):
    with pytest.raises(TokurError, match=r"\(BertModel\) doesn't classify texts"):
        entailment(embedding_folder)


# --- similarity


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", [MEAN, OLD_MEAN, OLD_FIRST], ids=["mean", "old mean", "old first"])
@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_embeddings_are_pooled_as_the_folder_says(family, pooling, padding_side, tmp_path, small_batches):
    folder = tiny_encoder_folder(tmp_path / "embedding", family, "AutoModel")
    write_modules(folder, pooling)
    edit(folder, "tokenizer_config.json", padding_side=padding_side)
    states = [plain(folder, "AutoModel")(text).last_hidden_state[0].double().numpy() for text in TEXTS]
    expected = cosines([state[0] if pooling is OLD_FIRST else state.mean(axis=0) for state in states])
    found = similarity(folder).matrix(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(found.diagonal(), 1)
    assert found[0, 3] == 1  # equal texts


def test_a_cross_encoder_is_the_mean_sigmoid_of_both_orders(cross_encoder_folder, small_batches):
    outputs = plain(cross_encoder_folder, CLASSIFIER)
    directed = np.array([[outputs(one, other).logits.double().sigmoid().item() for other in TEXTS] for one in TEXTS])
    assert np.abs(directed - directed.T).max() > 1e-3
    expected = (directed + directed.T) / 2
    equal = np.array([[one == other for other in TEXTS] for one in TEXTS])
    expected[equal] = 1
    np.testing.assert_allclose(similarity(cross_encoder_folder).matrix(TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize("texts", [["alone"], ["same", "same", "same"]])
def test_one_text_and_equal_ones_are_wholly_alike(texts, embedding_folder, cross_encoder_folder):
    for folder in (embedding_folder, cross_encoder_folder):
        np.testing.assert_array_equal(similarity(folder).matrix(texts), np.ones((len(texts), len(texts))))


def test_opposite_embeddings_are_unlike_not_less():
    class Opposite:
        def read(self, items, output):
            return [torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0])]

    np.testing.assert_array_equal(EmbeddingModel(Opposite(), None).matrix(["a", "b"]), np.eye(2))


def test_the_similarity_of_no_texts_is_refused(embedding_folder):
    with pytest.raises(ValueError, match="no texts"):
        similarity(embedding_folder).matrix([])


def test_weights_of_a_pooler_that_nothing_reads_may_be_missing(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tiny_encoder_folder(tmp_path / "embedding", "bert", "AutoModel")
    write_modules(folder, MEAN)
    expected = similarity(folder).matrix(TEXTS)
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    np.testing.assert_array_equal(similarity(folder).matrix(TEXTS), expected)
    save_file({name: kept[name] for name in list(kept)[1:]}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(TokurError, match="lacks weights"):
        similarity(folder)


def identity(place):
    return f"torch.nn.modules.linear.{place}"


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("config_sentence_transformers.json", {"activation_fn": identity("Identity")}),
        ("config.json", {"sentence_transformers": {"activation_fn": identity("Identity")}}),
        ("config.json", {"sbert_ce_default_activation_function": identity("Identity")}),
    ],
)
def test_a_cross_encoder_whose_output_is_no_similarity_is_refused(file, fields, cross_encoder_folder):
    edit(cross_encoder_folder, file, **fields)
    with pytest.raises(TokurError, match=r"through torch\.nn\.modules\.linear\.Identity, so not from 0 to 1"):
        similarity(cross_encoder_folder)


def test_a_cross_encoder_that_names_the_sigmoid_is_taken(cross_encoder_folder):
    edit(cross_encoder_folder, "config_sentence_transformers.json", activation_fn="torch.nn.modules.activation.Sigmoid")
    similarity(cross_encoder_folder)


def test_models_that_tell_no_similarity_are_refused(nli_folder, tmp_path):
    with pytest.raises(TokurError, match=r"into 3 labels, so it doesn't tell how alike .*--similarity-model"):
        similarity(nli_folder)
    bare = tiny_encoder_folder(tmp_path / "bare", "bert", "AutoModel")
    with pytest.raises(TokurError, match=r"neither a cross-encoder nor .*no modules\.json"):
        similarity(bare)


def set_path(folder, path):
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = path
    (folder / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda folder: edit(folder, "1_Pooling/config.json", pooling_mode="max"),
            "pools by max, tokur by mean or cls",
        ),
        (lambda folder: edit(folder, "1_Pooling/config.json", pooling_mode=["mean", "cls"]), "pools by mean and cls"),
        (lambda folder: (folder / "1_Pooling" / "config.json").unlink(), "pools by nothing"),
        (lambda folder: edit(folder, "config_sentence_transformers.json", default_prompt_name="query"), '"query"'),
        (lambda folder: edit(folder, "sentence_bert_config.json", do_lower_case=True), "in lower case"),
        (lambda folder: (folder / "modules.json").write_text("["), "can't be loaded"),
        (lambda folder: set_path(folder, "0_Transformer"), "isn't made of a transformer"),
    ],
)
def test_what_an_embedding_model_asks_for_beyond_is_refused(spoil, message, embedding_folder):
    spoil(embedding_folder)
    with pytest.raises(TokurError, match=message):
        similarity(embedding_folder)


def test_further_modules_are_refused_by_name(tmp_path):
    folder = tiny_encoder_folder(tmp_path / "dense", "bert", "AutoModel")
    write_modules(folder, MEAN, ("Dense", "Normalize"))
    with pytest.raises(TokurError, match="names Transformer, Pooling, Dense, Normalize"):
        similarity(folder)


# --- long texts and little memory


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_too_long_is_cut_counted_and_said_once(family, tmp_path):
    folder = tiny_encoder_folder(tmp_path / "nli", family, CLASSIFIER, id2label=LABELS)
    said: list[str] = []
    model = entailment(folder, progress=said.append)
    assert model.reader.most_tokens == LONGEST
    pairs = [("x" * 80, "y" * 10), ("short", "texts"), ("z" * 200, "z" * 200), ("x" * (LONGEST - 4), "y")]
    found = model.probabilities(pairs)
    outputs = plain(folder, CLASSIFIER)
    expected = [outputs(*pair).logits[0].double().softmax(-1).numpy()[[1, 2, 0]] for pair in pairs]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    model.probabilities(pairs)
    assert model.reader.truncated == 4
    assert said == [f"loading {folder}", f"{folder} reads {LONGEST} tokens; the rest of longer texts isn't compared"]


def test_an_embedding_models_own_limit_holds(embedding_folder):
    edit(embedding_folder, "sentence_bert_config.json", max_seq_length=10)
    model = similarity(embedding_folder)
    assert model.matrix(["12345678 and this", "12345678 and that"])[0, 1] == pytest.approx(1)
    assert model.reader.truncated == 2


class OutOfMemory:
    """Fails in a model's forward pass for more texts than fit."""

    def __init__(self, model, most_texts):
        self.most_texts = most_texts
        self.batches = []
        model.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, model, args, inputs):
        self.batches.append(len(inputs["input_ids"]))
        if self.batches[-1] > self.most_texts:
            raise torch.OutOfMemoryError("CUDA out of memory")


def test_batches_are_halved_where_memory_is_short(nli_folder):
    expected = entailment(nli_folder).probabilities(PAIRS)
    model = entailment(nli_folder)
    memory = OutOfMemory(model.reader.model, 3)
    np.testing.assert_allclose(model.probabilities(PAIRS), expected, atol=1e-6)
    assert max(memory.batches) > 3


def test_a_pair_that_does_not_fit_alone_is_an_error_that_names_the_model(nli_folder):
    model = entailment(nli_folder)
    OutOfMemory(model.reader.model, 0)
    with pytest.raises(TokurError, match=rf"{nli_folder}: too little memory for \d+ tokens"):
        model.probabilities([("a", "b")])


def test_tokenizers_that_cannot_serve_are_refused(embedding_folder):
    tiny_tokenizer().save_pretrained(embedding_folder)  # adds no token to a text
    with pytest.raises(TokurError, match="no token for an empty text"):
        similarity(embedding_folder).matrix(["a", ""])
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(embedding_folder)
    with pytest.raises(TokurError, match="no padding token"):
        similarity(embedding_folder)


# --- where models come from


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr("huggingface_hub.is_offline_mode", lambda: True)


def test_a_model_that_is_not_there_is_named_with_what_to_use_instead(offline, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    with pytest.raises(TokurError, match=f"no folder {DEFAULT_ENTAILMENT_MODEL} here.*connect, or use .*--nli-model"):
        load_entailment()
    name = "cross-encoder/stsb-roberta-large"
    with pytest.raises(
        TokurError, match=f"no folder {name}.*or use {DEFAULT_SIMILARITY_MODEL} or .*--similarity-model"
    ):
        load_similarity(name)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(TokurError, match=r"model\.gguf is a file; use the folder"):
        entailment(file)
    with pytest.raises(TokurError, match=r"there is no folder \./none"):
        entailment("./none")


@pytest.mark.slow
def test_an_embedding_model_in_the_hubs_cache_loads_offline(embedding_folder, tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "hub" / "models--org--tiny"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit)
    (cached / "snapshots").mkdir()
    expected = similarity(embedding_folder).matrix(["a", "b"])
    embedding_folder.rename(cached / "snapshots" / commit)
    program = (
        "from tokur_cli.engine.comparing import *; "
        "print(load_similarity('org/tiny', device_map='cpu').matrix(['a', 'b'])[0, 1])"
    )
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert float(ran.stdout) == pytest.approx(expected[0, 1], abs=1e-6)


def test_an_unknown_device_is_a_usage_error(nli_folder):
    with pytest.raises(UsageError, match="unknown device map 'gpu5'"):
        load_entailment(str(nli_folder), device_map="gpu5")


def pickle_weights(folder):
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def command_in(error) -> str:
    return re.search(r'python -c "(.*)"$', str(error.value)).group(1)


def test_the_command_that_converts_pickled_entailment_weights_works(nli_folder, tmp_path, monkeypatch):
    expected = entailment(nli_folder).probabilities(PAIRS)
    pickle_weights(nli_folder)
    with pytest.raises(TokurError, match="only as pickle files") as error:
        entailment(nli_folder)
    monkeypatch.chdir(tmp_path)
    exec(command_in(error), {})
    np.testing.assert_array_equal(entailment("converted").probabilities(PAIRS), expected)


def test_the_command_that_converts_pickled_similarity_weights_works(embedding_folder, monkeypatch):
    expected = similarity(embedding_folder).matrix(TEXTS)
    pickle_weights(embedding_folder)
    with pytest.raises(TokurError, match=r"hf download .* --local-dir converted") as error:
        similarity(embedding_folder)
    monkeypatch.chdir(embedding_folder)
    exec(command_in(error), {})
    np.testing.assert_array_equal(similarity(embedding_folder).matrix(TEXTS), expected)
