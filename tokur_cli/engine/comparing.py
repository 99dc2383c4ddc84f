"""Models that compare texts: which entails which, and how alike they are.

They are small beside language models and computed in float32, wherever they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tokur_cli.engine.comparing_files import (
    CLASSIFIER,
    ENTAILMENT,
    RELATIONS,
    SIMILARITY,
    Pooling,
    architecture,
    is_classifier,
    pooling_of,
    read_json,
    relation_columns,
    require_sigmoid,
)
from tokur_cli.engine.default_similarity import DEFAULT_SIMILARITY_MODEL, default_similarity_folder
from tokur_cli.engine.loading import explained_errors, load_tokenizer, load_weights, quieten_libraries, say_nothing
from tokur_cli.engine.sources import Source, find_source
from tokur_cli.engine.text_batches import TextReader
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

__all__ = [
    "DEFAULT_ENTAILMENT_MODEL",
    "DEFAULT_SIMILARITY_MODEL",
    "CrossEncoder",
    "EmbeddingModel",
    "EntailmentModel",
    "SimilarityModel",
    "load_entailment",
    "load_similarity",
]

Array = npt.NDArray[np.float64]

DEFAULT_ENTAILMENT_MODEL = "microsoft/deberta-large-mnli"
"""The model of Kuhn et al. 2023."""


class EntailmentModel:
    """A natural language inference model.

    Args:
        reader: the model.
        columns: which of its outputs mean entailment, neutral and contradiction.
    """

    def __init__(self, reader: TextReader, columns: Sequence[int]) -> None:
        self.reader = reader
        self._columns = list(columns)

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """Return how probable it is that the first text of each pair entails, is neutral to, contradicts the second.

        Equal pairs are computed once.

        Args:
            pairs: n (premise, hypothesis).

        Returns:
            (n, 3), rows sum to 1.

        Raises:
            TokurError: too little memory for a pair alone.
        """
        if not pairs:
            return np.empty((0, len(RELATIONS)))
        unique = {pair: row for row, pair in enumerate(dict.fromkeys(pairs))}
        logits = self.reader.read(list(unique), lambda outputs, mask: outputs.logits[:, self._columns])
        probabilities: Array = torch.stack(logits).double().softmax(-1).numpy()
        return probabilities[[unique[pair] for pair in pairs]]


class SimilarityModel(ABC):
    """A model that tells how alike two texts are.

    Args:
        reader: the model.
    """

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader

    def matrix(self, texts: Sequence[str]) -> Array:
        """Return how alike every two texts are, from 0 to 1; equal texts are computed once and wholly alike.

        Args:
            texts: K ≥ 1 texts.

        Returns:
            (K, K), symmetric, with ones on the diagonal.

        Raises:
            ValueError: there is no text.
            TokurError: too little memory for a text alone.
        """
        if not texts:
            raise ValueError("the similarity of no texts isn't defined")
        unique = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        directed = self._compare(list(unique)).clip(0, 1)
        similarity: Array = (directed + directed.T) / 2
        np.fill_diagonal(similarity, 1)
        rows = [unique[text] for text in texts]
        return similarity[np.ix_(rows, rows)]

    @abstractmethod
    def _compare(self, texts: list[str]) -> Array:
        """Return the (K, K) similarity of different texts, whose diagonal isn't read and which is clipped to [0, 1]."""


class EmbeddingModel(SimilarityModel):
    """Cosine of the two texts' embeddings; a negative cosine counts as 0, unlike (not as less than unlike).

    Args:
        reader: the model.
        pool: from the states of tokens (B, L, d) and the attention mask (B, L) to embeddings (B, d).
    """

    def __init__(self, reader: TextReader, pool: Pooling) -> None:
        super().__init__(reader)
        self._pool = pool

    def _compare(self, texts: list[str]) -> Array:
        def output(outputs: Any, mask: Tensor) -> Tensor:
            states = outputs.last_hidden_state
            return self._pool(states, mask.to(states.device))

        embeddings = torch.stack(self.reader.read([(text,) for text in texts], output)).double()
        directions = torch.nn.functional.normalize(embeddings, dim=-1)
        cosine: Array = (directions @ directions.T).numpy()
        return cosine


class CrossEncoder(SimilarityModel):
    """Sigmoid of the one output of a model that reads both texts together; the mean of the two orders."""

    def _compare(self, texts: list[str]) -> Array:
        count = len(texts)
        similarity = np.ones((count, count))
        where = [(i, j) for i in range(count) for j in range(count) if i != j]
        if where:
            logits = self.reader.read([(texts[i], texts[j]) for i, j in where], lambda outputs, mask: outputs.logits)
            similarity[tuple(zip(*where, strict=True))] = torch.cat(logits).double().sigmoid().numpy()
        return similarity


def load_entailment(
    name: str = DEFAULT_ENTAILMENT_MODEL,
    *,
    device_map: str = "auto",
    progress: Callable[[str], None] = say_nothing,
) -> EntailmentModel:
    """Load a natural language inference model by hub id or folder.

    Args:
        name: what the user typed.
        device_map: ``auto``, ``balanced``, ``balanced_low_0``, ``sequential`` or a torch device.
        progress: called with short sentences on what is being done.

    Raises:
        UsageError: an unknown device.
        TokurError: the model can't be had, doesn't fit, or isn't such a model; says what to do.
    """
    quieten_libraries()
    with explained_errors(name):
        source = find_source(name, None, progress, ENTAILMENT)
        progress(f"loading {name}")
        config = _load_config(source)
        if not is_classifier(config):
            raise TokurError(f"{name} ({architecture(config)}) doesn't classify texts; use {ENTAILMENT.instead}")
        columns = relation_columns(config, name)
        reader = _load_reader(source, name, config, device_map, progress, CLASSIFIER)
    return EntailmentModel(reader, columns)


def load_similarity(
    name: str = DEFAULT_SIMILARITY_MODEL,
    *,
    device_map: str = "auto",
    progress: Callable[[str], None] = say_nothing,
) -> SimilarityModel:
    """Load a sentence-embedding model or a cross-encoder by hub id, folder or the embedded model's name.

    A cross-encoder is a model for classification with one output, read through a sigmoid. An embedding model comes as
    sentence-transformers writes them: ``modules.json`` names a transformer, its pooling (the mean or the first token)
    and at most a normalisation. What else such files can ask for is refused, not left out.

    Args:
        name: what the user typed.
        device_map: ``auto``, ``balanced``, ``balanced_low_0``, ``sequential`` or a torch device.
        progress: called with short sentences on what is being done.

    Raises:
        UsageError: an unknown device.
        TokurError: the model can't be had, doesn't fit, or isn't such a model; says what to do.
    """
    quieten_libraries()
    with explained_errors(name):
        if name == DEFAULT_SIMILARITY_MODEL:
            source = Source(str(default_similarity_folder(progress)))
        else:
            source = find_source(name, None, progress, SIMILARITY)
        progress(f"loading {name}")
        config = _load_config(source)
        if is_classifier(config):
            require_sigmoid(source, config, name)
            return CrossEncoder(_load_reader(source, name, config, device_map, progress, CLASSIFIER))
        pool = pooling_of(source, name)
        # Nothing reads what BERT's pooler makes of the first token
        reader = _load_reader(source, name, config, device_map, progress, "AutoModel", unused=("pooler.",))
    return EmbeddingModel(reader, pool)


def _load_config(source: Source) -> PreTrainedConfig:
    from transformers import AutoConfig

    config: PreTrainedConfig = AutoConfig.from_pretrained(source.place, **source.options)
    return config


def _load_reader(
    source: Source,
    name: str,
    config: PreTrainedConfig,
    device_map: str,
    progress: Callable[[str], None],
    kind: str,
    unused: tuple[str, ...] = (),
) -> TextReader:
    tokenizer = load_tokenizer(source, name)
    model = load_weights(source, name, config, torch.float32, device_map, kind=kind, unused=unused)
    settings = read_json(source, "sentence_bert_config.json") or {}
    return TextReader(model, tokenizer, name, settings.get("max_seq_length"), progress)
