"""Models that compare texts, which entails which and how alike they are: sentence-transformers, in float32."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils import find_executable_batch_size
from torch import Tensor

from tokur_cli.engine.model.embedded import DEFAULT_SIMILARITY_MODEL, SIMILARITY, embedded_folder
from tokur_cli.engine.model.errors import explained_errors
from tokur_cli.engine.model.find import Source
from tokur_cli.engine.model.imports import import_transformers
from tokur_cli.engine.model.load import load_checked, load_tokenizer
from tokur_cli.engine.text.panics import tokenizing
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

__all__ = [
    "DEFAULT_ENTAILMENT_MODEL",
    "DEFAULT_SIMILARITY_MODEL",
    "EntailmentModel",
    "SimilarityModel",
    "load_entailment",
    "load_similarity",
]

Array = npt.NDArray[np.float64]

DEFAULT_ENTAILMENT_MODEL = "microsoft/deberta-large-mnli"
"""The model of Kuhn et al. 2023."""

BATCH_SIZE = 16  # halved where memory does not suffice
CLASSIFIER = "AutoModelForSequenceClassification"
RELATIONS = ("entail", "neutral", "contra")  # what the labels of a natural language inference model begin with
HUB_FILES = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.txt"]


class Encoder:
    """Reads texts or pairs of texts in batches of similar length.

    Args:
        model: sentence-transformers' SentenceTransformer, for texts, or CrossEncoder, for pairs.
        name: what the user typed, for messages.
        note: told once if a text is cut off.
    """

    def __init__(self, model: Any, name: str, note: Callable[[str], None]) -> None:
        if model.tokenizer.pad_token_id is None:
            raise TokurError(f"{name} has no padding token, so it can't read texts in batches; use another model")
        model.tokenizer.padding_side = "right"  # on the left, it would move the absolute positions of the texts
        model.max_seq_length = _most_tokens(model)
        self.model = model
        self._name, self._note, self._cut_off = name, note, False

    def read(self, items: Sequence[tuple[str, ...]]) -> Tensor:
        """Return the embeddings of n texts (text,) or the ratings of n pairs, (n, …) in float64 on the CPU.

        Raises:
            TokurError: memory doesn't suffice for one of them.
        """
        self._look_for_long_ones(items)
        run = self.model.encode if len(items[0]) == 1 else self.model.predict
        inputs = [item if len(item) > 1 else item[0] for item in items]

        def compute(batch_size: int) -> Tensor:
            outputs: Tensor = run(inputs, batch_size=batch_size, convert_to_tensor=True, show_progress_bar=False)
            return outputs.cpu().double()

        try:
            result: Tensor = find_executable_batch_size(compute, starting_batch_size=BATCH_SIZE)()
        except RuntimeError as error:
            if "No executable batch size" not in str(error):
                raise
            raise TokurError(f"{self._name}: too little memory for a text") from error
        return result

    def _look_for_long_ones(self, items: Sequence[tuple[str, ...]]) -> None:
        """Say once that texts are longer than what is read; sentence-transformers cuts them off without a word."""
        prompt = self.model.prompts.get(self.model.default_prompt_name, "")
        firsts, *seconds = zip(*items, strict=True)
        with tokenizing():
            ids = self.model.tokenizer([prompt + text for text in firsts], *map(list, seconds))["input_ids"]
        most = self.model.max_seq_length
        if not self._cut_off and max(map(len, ids)) > most:
            self._note(f"{self._name} reads {most} tokens; the rest of longer texts isn't compared")
            self._cut_off = True


class EntailmentModel:
    """A natural language inference model.

    Args:
        encoder: the model, whose ratings are logits.
        columns: which of them mean entailment, neutral and contradiction.
    """

    def __init__(self, encoder: Encoder, columns: Sequence[int]) -> None:
        self.encoder = encoder
        self._columns = list(columns)

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """Return how probable it is that the first text of each pair entails, is neutral to, contradicts the second.

        Args:
            pairs: n (premise, hypothesis); equal ones are computed once.

        Returns:
            (n, 3), rows sum to 1.
        """
        if not pairs:
            return np.empty((0, len(RELATIONS)))
        unique = {pair: row for row, pair in enumerate(dict.fromkeys(pairs))}
        probabilities: Array = self.encoder.read(list(unique))[:, self._columns].softmax(-1).numpy()
        return probabilities[[unique[pair] for pair in pairs]]


class SimilarityModel:
    """Tells how alike texts are: the cosine of embeddings, or a cross-encoder's rating (the mean of both orders)."""

    def __init__(self, encoder: Encoder, pairs: bool) -> None:
        self.encoder = encoder
        self._directed = self._ratings if pairs else self._cosines

    def matrix(self, texts: Sequence[str]) -> Array:
        """Return how alike every two of K ≥ 1 texts are; a negative cosine counts as 0, not as less than unlike.

        Returns:
            (K, K) from 0 to 1, symmetric, with ones for equal texts, which are computed once.
        """
        unique = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        directed = self._directed(list(unique)).clip(0, 1)
        similarity: Array = (directed + directed.T) / 2
        np.fill_diagonal(similarity, 1)
        rows = [unique[text] for text in texts]
        return similarity[np.ix_(rows, rows)]

    def _cosines(self, texts: list[str]) -> Array:
        directions = torch.nn.functional.normalize(self.encoder.read([(text,) for text in texts]), dim=-1)
        cosines: Array = (directions @ directions.T).numpy()
        return cosines

    def _ratings(self, texts: list[str]) -> Array:
        ratings = np.ones((len(texts), len(texts)))
        different = ~np.eye(len(texts), dtype=bool)
        if pairs := [(texts[i], texts[j]) for i, j in np.argwhere(different)]:
            ratings[different] = self.encoder.read(pairs).numpy()
        return ratings


def load_entailment(
    name: str = DEFAULT_ENTAILMENT_MODEL,
    *,
    device: str,
    progress: Callable[[str], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> EntailmentModel:
    """Load a natural language inference model by hub id or folder.

    Args:
        name: what the user typed.
        device: a torch device.
        progress: called with short sentences on what is being done.
        note: called with a sentence, once, if texts are too long for the model.

    Raises:
        TokurError: the model can't be had, doesn't fit, or isn't such a model; says what to do.
    """
    with explained_errors(name):
        source, config = _find(name, progress)
        if not _is_classifier(config):
            raise TokurError(f"{name} ({_architecture(config)}) classifies no texts; name another with --set nli_model")
        columns = _relation_columns(config, name)
        model = _load("CrossEncoder", CLASSIFIER, source, name, config, device, activation_fn=torch.nn.Identity())
    return EntailmentModel(Encoder(model, name, note), columns)


def load_similarity(
    name: str = DEFAULT_SIMILARITY_MODEL,
    *,
    device: str,
    progress: Callable[[str], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> SimilarityModel:
    """Load a sentence-embedding model or a cross-encoder by hub id, folder or the embedded model's name.

    An embedding model is a transformer with what sentence-transformers has written beside it (``modules.json``), a
    cross-encoder a classifier with one output, from 0 to 1 by its activation (the sigmoid if it names none).

    Raises:
        TokurError: the model can't be had, doesn't fit, or isn't such a model; says what to do.
    """
    with explained_errors(name):
        source, config = _find(name, progress)
        folder = Path(source.place)
        modules = _read_json(folder / "modules.json", [])
        parts = [module["type"].rpartition(".")[2] for module in modules]
        kind = "SentenceTransformer" if modules else "CrossEncoder"
        kind = _read_json(folder / "config_sentence_transformers.json", {}).get("model_type", kind)
        if kind == "CrossEncoder" and _is_classifier(config):
            model = _load(kind, CLASSIFIER, source, name, config, device)
            ends = model.activation_fn(torch.tensor([-1e4, 1e4]))
            if model.num_labels != 1 or not torch.equal(ends, ends.clip(0, 1)):
                raise TokurError(f"{name} doesn't rate pairs from 0 to 1; name another with --set similarity_model")
        elif kind == "SentenceTransformer" and parts[:1] == ["Transformer"] and not modules[0]["path"]:
            auto = "AutoModelForTextEncoding" if config.is_encoder_decoder else "AutoModel"
            model = _load(kind, auto, source, name, config, device)
        else:
            raise TokurError(
                f"{name} ({_architecture(config)}) is neither a cross-encoder nor a sentence-embedding model that "
                "begins with a transformer; name another with --set similarity_model"
            )
    return SimilarityModel(Encoder(model, name, note), pairs=kind == "CrossEncoder")


def _find(name: str, progress: Callable[[str], None]) -> tuple[Source, PreTrainedConfig]:
    """Return the folder of a model's files, fetched from the hub if need be, and its config."""
    from huggingface_hub import snapshot_download
    from transformers import AutoConfig

    import_transformers()
    path = Path(name).expanduser()
    if name == DEFAULT_SIMILARITY_MODEL:
        source = Source(str(embedded_folder(SIMILARITY, progress)), from_cache=True)
    elif path.exists():
        source = Source(str(path))
    else:
        source = Source(snapshot_download(name, allow_patterns=HUB_FILES))
    progress(f"loading {name}")
    return source, AutoConfig.from_pretrained(source.place, trust_remote_code=False, local_files_only=True)


def _load(
    kind: str, auto: str, source: Source, name: str, config: PreTrainedConfig, device: str, **options: Any
) -> Any:
    """Load a model of sentence-transformers, which by itself would make up weights that aren't there."""
    import sentence_transformers

    with explained_errors(source.label(name)):
        load_tokenizer(source, name)
        # Nothing reads what BERT's pooler makes of the first token
        load_checked(source, name, auto, unused=("pooler.",), config=config, dtype=torch.float32, device_map="meta")
    logger = logging.getLogger("sentence_transformers")
    logger.handlers = [_Refusal()]
    logger.propagate = os.environ.get("TOKUR_DEBUG") == "1"
    weights = {"dtype": torch.float32, "use_safetensors": True}
    model = getattr(sentence_transformers, kind)(
        source.place, device=device, local_files_only=True, model_kwargs=weights, **options
    )
    if kind == "CrossEncoder":
        model[0].modality_config.pop("message", None)  # pairs are read as pairs, also beside a chat template
    return model


class _Refusal(logging.Handler):
    """Makes an error of the warning that a part of a model is left out because it needs the model's own code."""

    def emit(self, record: logging.LogRecord) -> None:
        if "trust_remote_code" in record.getMessage():
            raise ValueError(record.getMessage())


def _most_tokens(model: Any) -> int:
    """Return how long a text may be; a table of positions may begin with some that no token takes (RoBERTa's)."""
    limits: list[int] = [model.max_seq_length]
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            limits.append(module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
    return min(limits)


def _is_classifier(config: PreTrainedConfig) -> bool:
    return _architecture(config).endswith("ForSequenceClassification")


def _architecture(config: PreTrainedConfig) -> str:
    return str((getattr(config, "architectures", None) or [config.model_type])[0])


def _relation_columns(config: PreTrainedConfig, name: str) -> list[int]:
    """Return which outputs of a natural language inference model mean entailment, neutral and contradiction."""
    labels = {int(column): str(label) for column, label in (config.id2label or {}).items()}
    columns = [
        [column for column, label in labels.items() if label.lower().startswith(relation)] for relation in RELATIONS
    ]
    if len(labels) != len(RELATIONS) or not all(columns):
        raise TokurError(
            f"{name} isn't a natural language inference model that tells entailment, neutral and contradiction apart "
            f"by its labels: they are {', '.join(labels[column] for column in sorted(labels))}; name another with "
            "--set nli_model"
        )
    return [found[0] for found in columns]


def _read_json(path: Path, without: Any) -> Any:
    """Return what a file holds, or a default where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else without
