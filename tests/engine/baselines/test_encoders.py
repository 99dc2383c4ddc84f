"""Models that compare texts, against plain transformers calls, and what is said of models that don't."""

import json

import numpy as np
import pytest
import torch
import transformers

from tests.engine.baselines.tiny_encoders import FAMILIES, LONGEST, tiny_encoder_folder, write_modules
from tokur_cli.engine.baselines import encoders
from tokur_cli.engine.baselines.encoders import load_entailment, load_similarity
from tokur_cli.records.errors import TokurError

CLASSIFIER = "AutoModelForSequenceClassification"
LABELS = {0: "CONTRADICTION", 1: "Entailment", 2: "neutral"}
TEXTS = ["It rains.", "The street is wet, since it rains.", "", "It rains.", "Ünï 🙂", "no"]
MEAN = {"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True}


@pytest.fixture
def cross_encoder_folder(tmp_path):
    return tiny_encoder_folder(tmp_path / "cross", "roberta", CLASSIFIER, num_labels=1)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(encoders, "BATCH_SIZE", 3)


def entailment(folder, note=print):
    return load_entailment(str(folder), "cpu", print, note)


def similarity(folder):
    return load_similarity(str(folder), "cpu", print, print)


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


def relations(outputs, texts):
    """Entailment, neutral and contradiction of every two texts, read one pair at a time."""
    return np.array(
        [[outputs(one, other).logits[0].double().softmax(-1).numpy()[[1, 2, 0]] for other in texts] for one in texts]
    )


def cosines(vectors):
    vectors = [vector / np.linalg.norm(vector) for vector in vectors]
    return np.array([[max(0.0, float(one @ other)) for one in vectors] for other in vectors])


# --- entailment


@pytest.mark.parametrize("family", FAMILIES)
def test_entailment_probabilities_are_those_of_single_calls_with_the_labels_in_order(family, tmp_path, small_batches):
    folder = tiny_encoder_folder(tmp_path / "nli", family, CLASSIFIER, id2label=LABELS)
    outputs = plain(folder, CLASSIFIER)
    expected = relations(outputs, TEXTS)
    assert expected.std(axis=(0, 1)).min() > 1e-3
    found = entailment(folder)(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=-1), 1)


@pytest.mark.parametrize("labels", [{0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, {0: "entailment", 1: "not_entailment"}])
def test_load_entailment_lists_labels_that_do_not_tell(labels, tmp_path):
    folder = tiny_encoder_folder(tmp_path / "nli", "bert", CLASSIFIER, id2label=labels)
    with pytest.raises(TokurError, match=rf"they are {', '.join(labels.values()).lower()}; name .*--set nli_model"):
        entailment(folder)


# --- similarity


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_load_similarity_pools_as_the_folder_says(family, pooling, tmp_path, small_batches):
    folder = tiny_encoder_folder(tmp_path / "embedding", family, "AutoModel")
    write_modules(folder, MEAN | {"pooling_mode": pooling})
    states = [plain(folder, "AutoModel")(text).last_hidden_state[0].double().numpy() for text in TEXTS]
    expected = cosines([state[0] if pooling == "cls" else state.mean(axis=0) for state in states])
    found = similarity(folder)(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(found.diagonal(), 1)
    assert found[0, 3] == 1  # equal texts


def test_similarity_of_a_cross_encoder_is_the_mean_sigmoid_of_both_orders(cross_encoder_folder, small_batches):
    outputs = plain(cross_encoder_folder, CLASSIFIER)
    directed = np.array([[outputs(one, other).logits.double().sigmoid().item() for other in TEXTS] for one in TEXTS])
    assert np.abs(directed - directed.T).max() > 1e-3
    expected = (directed + directed.T) / 2
    equal = np.array([[one == other for other in TEXTS] for one in TEXTS])
    expected[equal] = 1
    np.testing.assert_allclose(similarity(cross_encoder_folder)(TEXTS), expected, atol=1e-5)


def test_load_similarity_weights_of_a_pooler_that_nothing_reads_may_be_missing(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tiny_encoder_folder(tmp_path / "embedding", "bert", "AutoModel")
    write_modules(folder, MEAN)
    expected = similarity(folder)(TEXTS)
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    np.testing.assert_array_equal(similarity(folder)(TEXTS), expected)
    save_file({name: kept[name] for name in list(kept)[1:]}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(TokurError, match="lacks weights"):
        similarity(folder)


def test_load_similarity_refuses_a_cross_encoder_whose_ratings_are_not_from_0_to_1(cross_encoder_folder):
    config = json.loads((cross_encoder_folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.activation.Tanh"}
    (cross_encoder_folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(TokurError, match="doesn't rate pairs from 0 to 1"):
        similarity(cross_encoder_folder)


def test_load_similarity_refuses_what_is_neither_kind_of_model(tmp_path):
    with pytest.raises(TokurError, match="neither a cross-encoder nor an embedding model"):
        similarity(tiny_encoder_folder(tmp_path / "bare", "bert", "AutoModel"))


# --- long texts and little memory


@pytest.mark.parametrize("family", FAMILIES)
def test_encoder_what_is_too_long_is_cut_counted_and_said_once(family, tmp_path):
    folder = tiny_encoder_folder(tmp_path / "nli", family, CLASSIFIER, id2label=LABELS)
    said: list[str] = []
    model = entailment(folder, note=said.append)
    texts = ["x" * 80, "y" * 10, "short", "z" * 200, "x" * (LONGEST - 4)]
    np.testing.assert_allclose(model(texts), relations(plain(folder, CLASSIFIER), texts), atol=1e-5)
    model(texts)
    assert said == [f"{folder} reads {LONGEST} tokens; the rest of longer texts isn't compared"]
