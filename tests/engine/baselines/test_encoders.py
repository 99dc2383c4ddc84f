"""Models that compare texts, against plain transformers calls, and what is said of models that don't."""

import json
import os
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers

from tests.engine.baselines.tiny_encoders import FAMILIES, LONGEST, tiny_encoder_folder, write_modules
from tests.tiny import tiny_tokenizer
from tokur_cli.engine.baselines import encoders
from tokur_cli.engine.baselines.encoders import (
    load_entailment,
    load_similarity,
)
from tokur_cli.records.errors import TokurError

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
    monkeypatch.setattr(encoders, "BATCH_SIZE", 3)


def entailment(folder, **options):
    return load_entailment(str(folder), device="cpu", **options)


def similarity(folder, **options):
    return load_similarity(str(folder), device="cpu", **options)


def edit(folder: Path, file: str, **fields) -> None:
    path = folder / file
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | fields))


def plain(folder, kind):
    """One text or pair at a time, by transformers alone."""
    model = getattr(transformers, kind).from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def outputs(*texts):
        with torch.no_grad():
            # In lists, since alone an empty second text counts as none
            lists = [[text] for text in texts]
            return model(**tokenizer(*lists, return_tensors="pt", truncation=True, max_length=LONGEST))

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


def test_equal_pairs_are_computed_once_and_none_gives_an_empty_array(nli_folder):
    model = entailment(nli_folder)
    memory = Memory(model, 100)
    found = model.probabilities([("a", "b"), ("b", "a"), ("a", "b")])
    assert sum(memory.batches) == 2
    np.testing.assert_array_equal(found[0], found[2])
    assert model.probabilities([]).shape == (0, 3)


@pytest.mark.parametrize(
    "labels",
    [
        {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
        {0: "entailment", 1: "not_entailment"},
    ],
)
def test_labels_that_do_not_tell_are_listed(labels, tmp_path):
    folder = tiny_encoder_folder(tmp_path / "nli", "bert", CLASSIFIER, id2label=labels)
    with pytest.raises(TokurError, match=rf"they are {', '.join(labels.values())}; name .*--set nli_model"):
        entailment(folder)


# --- similarity


@pytest.mark.parametrize(
    ("family", "pooling"), [*((family, MEAN) for family in FAMILIES), ("bert", OLD_MEAN), ("bert", OLD_FIRST)]
)
def test_load_similarity_pools_as_the_folder_says(family, pooling, tmp_path, small_batches):
    folder = tiny_encoder_folder(tmp_path / "embedding", family, "AutoModel")
    write_modules(folder, pooling)
    edit(folder, "tokenizer_config.json", padding_side="left")
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


def test_a_prompt_comes_before_each_text_and_counts_as_read(embedding_folder):
    expected = similarity(embedding_folder).matrix([f"query: {text}" for text in TEXTS])
    edit(embedding_folder, "config_sentence_transformers.json", prompts={"q": "query: "}, default_prompt_name="q")
    said: list[str] = []
    model = similarity(embedding_folder, note=said.append)
    np.testing.assert_allclose(model.matrix(TEXTS), expected, atol=1e-5)
    assert not said
    model.matrix(["x" * (LONGEST - 5), "y"])
    assert "the rest of longer texts isn't compared" in said[0]


def test_texts_are_messages_to_a_model_that_embeds_messages(embedding_folder):
    """As sentence-transformers saves a model with a chat template; a cross-encoder's pairs are no conversation."""
    reading = {"method": "forward", "method_output_name": "last_hidden_state"}
    told = {"text": reading, "message": {**reading, "format": "flat"}}
    edit(embedding_folder, "sentence_bert_config.json", modality_config=told, module_output_name="token_embeddings")
    model = transformers.AutoModel.from_pretrained(embedding_folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(embedding_folder)
    vectors = []
    for text in TEXTS:
        turn = tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False)
        inputs = tokenizer(turn, add_special_tokens=False, return_tensors="pt", truncation=True, max_length=LONGEST)
        with torch.no_grad():
            vectors.append(model(**inputs).last_hidden_state[0].double().mean(0).numpy())
    np.testing.assert_allclose(similarity(embedding_folder).matrix(TEXTS), cosines(vectors), atol=1e-5)


@pytest.fixture
def dense_folder(tmp_path):
    """An embedding model with a layer behind its pooling."""
    from safetensors.torch import save_file

    folder = tiny_encoder_folder(tmp_path / "dense", "bert", "AutoModel")
    write_modules(folder, MEAN, ("Dense", "Normalize"))
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(1))
    (folder / "2_Dense").mkdir()
    save_file({"linear.weight": weight, "linear.bias": torch.ones(8)}, folder / "2_Dense" / "model.safetensors")
    edit(folder, "2_Dense/config.json", in_features=32, out_features=8, bias=True,
         activation_function="torch.nn.modules.activation.ReLU")  # fmt: skip
    return folder


def test_layers_behind_the_pooling_are_computed(dense_folder):
    from safetensors.torch import load_file

    weight = load_file(dense_folder / "2_Dense" / "model.safetensors")["linear.weight"].double().numpy()
    states = [plain(dense_folder, "AutoModel")(text).last_hidden_state[0].double().numpy() for text in TEXTS]
    expected = cosines([np.maximum(weight @ state.mean(axis=0) + 1, 0) for state in states])
    np.testing.assert_allclose(similarity(dense_folder).matrix(TEXTS), expected, atol=1e-5)


def saved_anew(folder):
    """The cross-encoder as sentence-transformers 6 writes it."""
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(folder), device="cpu").save_pretrained(str(folder))
    assert (folder / "modules.json").exists()


PLACES = {
    "config_sentence_transformers.json": lambda path: {"activation_fn": path},
    "config.json": lambda path: {"sentence_transformers": {"activation_fn": path}},
    "config.json (old)": lambda path: {"sbert_ce_default_activation_function": path},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("torch.nn.modules.activation.Sigmoid", lambda logit: 1 / (1 + np.exp(-logit))),
        ("torch.nn.modules.activation.Hardsigmoid", lambda logit: np.clip(logit / 6 + 0.5, 0, 1)),
        ("torch.nn.modules.activation.Tanh", None),
    ],
)
def test_a_cross_encoders_own_activation_counts_if_it_is_from_0_to_1(place, activation, function, cross_encoder_folder):
    if place == "config_sentence_transformers.json":
        saved_anew(cross_encoder_folder)
    outputs = plain(cross_encoder_folder, CLASSIFIER)
    edit(cross_encoder_folder, place.split()[0], **PLACES[place](activation))
    if function is None:
        with pytest.raises(TokurError, match="doesn't rate pairs from 0 to 1"):
            similarity(cross_encoder_folder)
        return
    forth, back = (function(outputs(*pair).logits.item()) for pair in (("a", "b c"), ("b c", "a")))
    found = similarity(cross_encoder_folder).matrix(["a", "b c"])[0, 1]
    assert found == pytest.approx((forth + back) / 2, abs=1e-5)


def set_module(folder, number=0, **fields):
    modules = json.loads((folder / "modules.json").read_text())
    modules[number] |= fields
    (folder / "modules.json").write_text(json.dumps(modules))


def sparse(folder):
    edit(folder, "config_sentence_transformers.json", model_type="SparseEncoder")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "modules.json").write_text("["), "can't be loaded"),
        (lambda folder: (folder / "1_Pooling" / "config.json").write_text("{"), "can't be loaded"),
        (lambda folder: edit(folder, "1_Pooling/config.json", pooling_mode="none"), "can't be loaded: .*none"),
        (lambda folder: set_module(folder, path="0_Transformer"), "neither .* that begins with a transformer"),
        (sparse, "is neither a cross-encoder nor"),
        (lambda folder: set_module(folder, type="sentence_transformers.models.BoW"), "is neither a cross-encoder nor"),
        (lambda folder: set_module(folder, 1, type="modeling_own.Pooling"), "brings its own Python code"),
    ],
)
def test_what_is_no_sentence_embedding_model_is_refused(spoil, message, embedding_folder):
    spoil(embedding_folder)
    with pytest.raises(TokurError, match=message):
        similarity(embedding_folder)


def test_an_activation_that_would_need_the_models_own_code_is_refused_not_replaced(cross_encoder_folder, dense_folder):
    edit(cross_encoder_folder, "config.json", sentence_transformers={"activation_fn": "own.Sigmoid"})
    edit(dense_folder, "2_Dense/config.json", activation_function="own.Tanh")
    for folder in (cross_encoder_folder, dense_folder):
        with pytest.raises(TokurError, match="brings its own Python code"):
            similarity(folder)


# --- long texts and little memory


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_too_long_is_cut_counted_and_said_once(family, tmp_path):
    folder = tiny_encoder_folder(tmp_path / "nli", family, CLASSIFIER, id2label=LABELS)
    said: list[str] = []
    model = entailment(folder, note=said.append)
    pairs = [("x" * 80, "y" * 10), ("short", "texts"), ("z" * 200, "z" * 200), ("x" * (LONGEST - 4), "y")]
    found = model.probabilities(pairs)
    outputs = plain(folder, CLASSIFIER)
    expected = [outputs(*pair).logits[0].double().softmax(-1).numpy()[[1, 2, 0]] for pair in pairs]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    model.probabilities(pairs)
    assert said == [f"{folder} reads {LONGEST} tokens; the rest of longer texts isn't compared"]


class Memory:
    """Remembers the batches that a model reads, and fails for more texts than fit."""

    def __init__(self, model, most_texts):
        self.most_texts = most_texts
        self.batches = []
        model.encoder.model.transformers_model.get_input_embeddings().register_forward_pre_hook(self)

    def __call__(self, embeddings, args):
        self.batches.append(len(args[0]))
        if self.batches[-1] > self.most_texts:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


@pytest.mark.slow
def test_batches_are_halved_where_memory_is_short(nli_folder):
    expected = entailment(nli_folder).probabilities(PAIRS)
    model = entailment(nli_folder)
    memory = Memory(model, 3)
    np.testing.assert_allclose(model.probabilities(PAIRS), expected, atol=1e-6)
    assert max(memory.batches) > 3


def test_a_pair_that_does_not_fit_alone_is_an_error_that_names_the_model(nli_folder):
    model = entailment(nli_folder)
    Memory(model, 0)
    with pytest.raises(TokurError, match=rf"{nli_folder}: too little memory"):
        model.probabilities([("a", "b")])


def test_tokenizers_that_cannot_serve_are_refused(embedding_folder):
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(embedding_folder)
    with pytest.raises(TokurError, match="no padding token"):
        similarity(embedding_folder)


def test_a_model_without_its_tokenizer_is_refused_not_given_an_empty_one(nli_folder, embedding_folder):
    for folder, load in ((nli_folder, entailment), (embedding_folder, similarity)):
        (folder / "tokenizer.json").unlink()
        edit(folder, "tokenizer_config.json", tokenizer_class="BertTokenizer")
        with pytest.raises(TokurError, match=r"no tokenizer that can be read|can't be loaded"):
            load(folder)


# --- where models come from


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
        "from tokur_cli.engine.baselines.encoders import *; "
        "print(load_similarity('org/tiny', device='cpu').matrix(['a', 'b'])[0, 1])"
    )
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert float(ran.stdout) == pytest.approx(expected[0, 1], abs=1e-6)


def test_a_hub_model_is_fetched_once_without_what_nothing_reads(embedding_folder, monkeypatch):
    fetched = []

    def fetch(place, *, allow_patterns, **options):
        fetched.append((place, options))
        files = ["model.safetensors", "1_Pooling/config.json", "vocab.txt", "pytorch_model.bin", "onnx/model.onnx"]
        assert list(huggingface_hub.utils.filter_repo_objects(files, allow_patterns=allow_patterns)) == files[:3]
        return str(embedding_folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    expected = similarity(embedding_folder).matrix(TEXTS)
    np.testing.assert_array_equal(similarity("org/tiny").matrix(TEXTS), expected)
    assert fetched == [("org/tiny", {})]


@pytest.mark.slow
def test_folders_are_loaded_in_silence_without_a_look_at_the_network(
    nli_folder, embedding_folder, cross_encoder_folder
):
    program = (
        "import socket, sys; calls = []; "
        "socket.socket.connect = socket.getaddrinfo = lambda *arguments, **_: calls.append(arguments); "
        "from tokur_cli.engine.baselines.encoders import *; "
        "load_entailment(sys.argv[1], device='cpu').probabilities([('a', 'b' * 999)]); "
        "[load_similarity(name, device='cpu').matrix(['a', 'b' * 999]) for name in sys.argv[2:]]; "
        "print(calls)"
    )
    command = [sys.executable, "-c", program, nli_folder, embedding_folder, cross_encoder_folder]
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[]\n", "")
