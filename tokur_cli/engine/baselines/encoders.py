"""Models that compare texts, which entails which and how alike they are: sentence-transformers, in float32."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import find_executable_batch_size
from torch import Tensor

from tokur_cli.engine.model.errors import explained_errors, tokenizing
from tokur_cli.engine.model.find import Source, find_source
from tokur_cli.engine.model.load import load_checked, load_tokenizer
from tokur_cli.engine.model.place import import_transformers
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

Array = npt.NDArray[np.float64]
Comparison = Callable[[Sequence[str]], Array]
"""From K ≥ 1 texts to what is found of every two of them, (K, K, …)."""

DEFAULT_ENTAILMENT_MODEL = "microsoft/deberta-large-mnli"
"""The model of Kuhn et al. 2023."""

BATCH_SIZE = 16  # halved where memory does not suffice
CLASSIFIER = "AutoModelForSequenceClassification"
RELATIONS = ("entail", "neutral", "contra")  # what the labels of a natural language inference model begin with


def _reader(model: Any, name: str, note: Callable[[str], None]) -> Callable[[Sequence[Any]], Tensor]:
    """Return what gives the embeddings of n texts or the ratings of n pairs of them, (n, …) in float64 on the CPU.

    It raises TokurError where memory doesn't suffice for one of them.

    Args:
        model: sentence-transformers' SentenceTransformer, for texts, or CrossEncoder, for pairs.
        name: what the user typed, for messages.
        note: called once if a text is cut off, which sentence-transformers does without a word.
    """
    if model.tokenizer.pad_token_id is None:
        raise TokurError(f"{name} has no padding token, so it can't read texts in batches; use another model")
    # A table of positions may begin with some that no token takes (RoBERTa's)
    for place, module in model.named_modules():
        if place.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            room = module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
            model.max_seq_length = min(model.max_seq_length, room)
    most = model.max_seq_length
    note_once = cache(note)

    def read(items: Sequence[Any]) -> Tensor:
        with tokenizing():
            ids = model.tokenizer(list(items))["input_ids"]
        if max(map(len, ids)) > most:
            note_once(f"{name} reads {most} tokens; the rest of longer texts isn't compared")
        run = model.encode if isinstance(items[0], str) else model.predict

        def compute(batch_size: int) -> Tensor:
            outputs: Tensor = run(items, batch_size=batch_size, convert_to_tensor=True, show_progress_bar=False)
            return outputs.cpu().double()

        try:
            result: Tensor = find_executable_batch_size(compute, starting_batch_size=BATCH_SIZE)()
        except RuntimeError as error:
            if "No executable batch size" not in str(error):
                raise
            raise TokurError(f"{name}: too little memory for a text") from error
        return result

    return read


def load_entailment(name: str, device: str, progress: Callable[[str], None], note: Callable[[str], None]) -> Comparison:
    """Load a natural language inference model by hub id or folder.

    Args:
        name: what the user typed.
        device: a torch device.
        progress: called with short sentences on what is being done.
        note: called with a sentence, once, if texts are too long for the model.

    Returns:
        What tells how probable it is that each text entails, is neutral to, contradicts each: (K, K, 3), whose rows sum
        to 1.

    Raises:
        TokurError: the model can't be had, doesn't fit, or isn't such a model; says what to do.
    """
    with explained_errors(name):
        source, config, is_classifier = _find(name, progress)
        labels = {int(column): str(label).lower() for column, label in (config.id2label or {}).items()}
        columns = [[c for c, label in labels.items() if label.startswith(relation)] for relation in RELATIONS]
        if not is_classifier or len(labels) != len(RELATIONS) or not all(columns):
            raise TokurError(
                f"{name} has no classes for entailment, neutral and contradiction: they are "
                f"{', '.join(labels.values())}; name another with --set nli_model"
            )
        model = _load("CrossEncoder", CLASSIFIER, source, config, device, activation_fn=torch.nn.Identity())
    read = _reader(model, name, note)

    def relations(texts: Sequence[str]) -> Array:
        logits = read([(first, second) for first in texts for second in texts])[:, [found[0] for found in columns]]
        probabilities: Array = logits.softmax(-1).unflatten(0, (len(texts), -1)).numpy()
        return probabilities

    return _of_unique(relations)


def load_similarity(name: str, device: str, progress: Callable[[str], None], note: Callable[[str], None]) -> Comparison:
    """Load a sentence-embedding model or a cross-encoder by hub id, folder or the embedded model's name.

    An embedding model is a transformer with what sentence-transformers has written beside it (``modules.json``), a
    cross-encoder a classifier with one output, from 0 to 1 by its activation (the sigmoid if it names none).

    Returns:
        What tells how alike every two texts are: (K, K) from 0 to 1, symmetric, with ones for equal texts. It is the
        cosine of embeddings, of which a negative one counts as 0, or the mean of a cross-encoder's ratings of both
        orders.

    Raises:
        TokurError: the model can't be had, doesn't fit, or isn't such a model; says what to do.
    """
    with explained_errors(name):
        source, config, is_classifier = _find(name, progress)
        is_embedding = "modules.json" in source.files and not is_classifier
        if is_embedding:
            auto = "AutoModelForTextEncoding" if config.is_encoder_decoder else "AutoModel"
            model = _load("SentenceTransformer", auto, source, config, device)
        elif is_classifier:
            model = _load("CrossEncoder", CLASSIFIER, source, config, device)
            ends = model.activation_fn(torch.tensor([-1e4, 1e4]))
            if model.num_labels != 1 or not torch.equal(ends, ends.clip(0, 1)):
                raise TokurError(f"{name} doesn't rate pairs from 0 to 1; name another with --set similarity_model")
        else:
            raise TokurError(f"{name} is neither a cross-encoder nor an embedding model: see --set similarity_model")
    read = _reader(model, name, note)

    def similarities(texts: Sequence[str]) -> Array:
        directed = np.ones((len(texts), len(texts)))
        if is_embedding:
            directions = torch.nn.functional.normalize(read(texts), dim=-1)
            directed = (directions @ directions.T).numpy().clip(0, 1)
        elif pairs := list(itertools.permutations(texts, 2)):
            directed[~np.eye(len(texts), dtype=bool)] = read(pairs).numpy().clip(0, 1)
        similarity: Array = (directed + directed.T) / 2
        np.fill_diagonal(similarity, 1)
        return similarity

    return _of_unique(similarities)


def _of_unique(compare: Comparison) -> Comparison:
    """Return a comparison that computes equal texts once."""

    def compare_all(texts: Sequence[str]) -> Array:
        unique = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        rows = [unique[text] for text in texts]
        return compare(list(unique))[np.ix_(rows, rows)]

    return compare_all


def _find(name: str, progress: Callable[[str], None]) -> tuple[Source, PreTrainedConfig, bool]:
    """Return where a model is, its config, and whether it classifies."""
    from transformers import AutoConfig

    import_transformers()
    source = find_source(name, None, progress)
    progress(f"loading {name}")
    config = source.load(AutoConfig)
    saved_by = next(iter(config.architectures or ()), "")
    return source, config, saved_by.endswith("ForSequenceClassification")


def _load(kind: str, auto: str, source: Source, config: PreTrainedConfig, device: str, **options: Any) -> Any:
    """Load a model of sentence-transformers, which by itself would make up weights that aren't there."""
    import sentence_transformers

    load_tokenizer(source)
    load_checked(source, auto, config=config, dtype=torch.float32, device_map="meta")
    model = getattr(sentence_transformers, kind)(
        source.place,
        revision=source.revision,
        device=device,
        model_kwargs={"dtype": torch.float32, "use_safetensors": True},
        **options,
    )
    if kind == "CrossEncoder":
        model[0].modality_config.pop("message", None)  # pairs are read as pairs, also beside a chat template
    return model
