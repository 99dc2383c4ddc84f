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
from torch import Tensor

from tokur_cli.engine.halving import HalvingBatches
from tokur_cli.engine.loading import models, sources
from tokur_cli.engine.loading.configs import refuse_endless
from tokur_cli.engine.loading.default_similarity import DEFAULT_SIMILARITY_MODEL, default_similarity_folder
from tokur_cli.engine.loading.imports import import_transformers
from tokur_cli.engine.loading.sources import Purpose, Source
from tokur_cli.engine.loading.weights import load_weights
from tokur_cli.engine.panics import tokenizing
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

BATCH_TOKENS = 8192
CLASSIFIER = "AutoModelForSequenceClassification"
RELATIONS = ("entail", "neutral", "contra")  # what the labels of a natural language inference model begin with
HUB_FILES = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.txt", "*/pytorch_model.bin"]  # the last to refuse it

ENTAILMENT = Purpose(
    "the folder of another natural language inference model (--set nli_model)",
    sources.CONVERT_PICKLED.format(kind=CLASSIFIER),
)
SIMILARITY = Purpose(
    f"{DEFAULT_SIMILARITY_MODEL} or the folder of a sentence-embedding model or cross-encoder (--set similarity_model)",
    "copy them to a folder (from the hub: hf download {name} --local-dir converted) and run there "
    'python -c "import pathlib, torch; from safetensors.torch import save_file; '
    "[save_file(torch.load(file, weights_only=True), file.with_name('model.safetensors'), dict(format='pt')) "
    "for file in pathlib.Path().rglob('pytorch_model.bin')]\"",
)


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
        self._batches = HalvingBatches(BATCH_TOKENS)

    def read(self, items: Sequence[tuple[str, ...]]) -> Tensor:
        """Return the embeddings of n texts (text,) or the ratings of n pairs, (n, …) in float64 on the CPU.

        Raises:
            TokurError: memory doesn't suffice for an item alone, or one has no tokens.
        """

        def compute(batch: Sequence[int]) -> Sequence[Tensor]:
            run = self.model.encode if len(items[0]) == 1 else self.model.predict
            inputs = [items[index] if len(items[index]) > 1 else items[index][0] for index in batch]
            outputs = run(inputs, batch_size=len(inputs), convert_to_tensor=True, show_progress_bar=False)
            return list(outputs.cpu().double())

        results = []
        for result in self._batches.run(self._token_ids(items), compute):
            if isinstance(result, TokurError):
                raise TokurError(f"{self._name}: {result}") from result
            results.append(result)
        return torch.stack(results)

    def _token_ids(self, items: Sequence[tuple[str, ...]]) -> list[list[int]]:
        """Return what is read of every item, and say what isn't; sentence-transformers cuts off without a word."""
        prompt = self.model.prompts.get(self.model.default_prompt_name, "")
        firsts, *seconds = zip(*items, strict=True)
        with tokenizing():
            ids = self.model.tokenizer([prompt + text for text in firsts], *map(list, seconds))["input_ids"]
        if not all(ids):
            raise TokurError(f"{self._name} has no token for an empty text; use another model")
        most = self.model.max_seq_length
        if not self._cut_off and max(map(len, ids)) > most:
            self._note(f"{self._name} reads {most} tokens; the rest of longer texts isn't compared")
            self._cut_off = True
        return [each[:most] for each in ids]


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
        if not texts:
            raise ValueError("the similarity of no texts isn't defined")
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
    progress: Callable[[str], None] = models.say_nothing,
    note: Callable[[str], None] = models.say_nothing,
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
    with models.explained_errors(name):
        label, folder, config = _find(name, ENTAILMENT, progress)
        if not _is_classifier(config):
            raise TokurError(f"{name} ({_architecture(config)}) doesn't classify texts; use {ENTAILMENT.instead}")
        columns = _relation_columns(config, name)
        model = _load("CrossEncoder", CLASSIFIER, folder, label, config, device, activation_fn=torch.nn.Identity())
    return EntailmentModel(Encoder(model, name, note), columns)


def load_similarity(
    name: str = DEFAULT_SIMILARITY_MODEL,
    *,
    device: str,
    progress: Callable[[str], None] = models.say_nothing,
    note: Callable[[str], None] = models.say_nothing,
) -> SimilarityModel:
    """Load a sentence-embedding model or a cross-encoder by hub id, folder or the embedded model's name.

    An embedding model is a transformer with what sentence-transformers has written beside it (``modules.json``), a
    cross-encoder a classifier with one output, from 0 to 1 by its activation (the sigmoid if it names none).

    Raises:
        TokurError: the model can't be had, doesn't fit, or isn't such a model; says what to do.
    """
    with models.explained_errors(name):
        label, folder, config = _find(name, SIMILARITY, progress)
        modules = _read_json(folder / "modules.json", [])
        parts = [module["type"].rpartition(".")[2] for module in modules]
        kind = "SentenceTransformer" if modules else "CrossEncoder"
        kind = _read_json(folder / "config_sentence_transformers.json", {}).get("model_type", kind)
        if kind == "CrossEncoder" and _is_classifier(config):
            model = _load(kind, CLASSIFIER, folder, label, config, device)
            _require_similarity(model, name)
        elif kind == "SentenceTransformer" and parts[:1] == ["Transformer"] and not modules[0]["path"]:
            auto = "AutoModelForTextEncoding" if config.is_encoder_decoder else "AutoModel"
            model = _load(kind, auto, folder, label, config, device)
        else:
            listed = f"a {kind} of {', '.join(parts)}" if modules else "it has no modules.json"
            raise TokurError(
                f"{name} ({_architecture(config)}; {listed}) is neither a cross-encoder nor a sentence-embedding "
                f"model that begins with a transformer; use {SIMILARITY.instead}"
            )
    return SimilarityModel(Encoder(model, name, note), pairs=kind == "CrossEncoder")


def _find(name: str, purpose: Purpose, progress: Callable[[str], None]) -> tuple[str, Path, PreTrainedConfig]:
    """Return a model's name for errors, the folder of its files, fetched from the hub if need be, and its config."""
    from huggingface_hub import hf_hub_download, snapshot_download
    from transformers import AutoConfig

    import_transformers()
    if name == DEFAULT_SIMILARITY_MODEL and purpose is SIMILARITY:
        source = Source(str(default_similarity_folder(progress)), made=True)
    else:
        source = sources.find_source(name, None, progress, purpose)
    progress(f"loading {name}")
    folder, revision = Path(source.place), source.revision
    if revision is not None and source.local_files_only:
        folder = Path(hf_hub_download(source.place, "config.json", revision=revision, local_files_only=True)).parent
    elif revision is not None:
        folder = Path(snapshot_download(source.place, revision=revision, allow_patterns=HUB_FILES))
    for module in _read_json(folder / "modules.json", [{"path": ""}]):
        sources.refuse_pickled(name, {file.suffix for file in (folder / module["path"]).glob("*")}, purpose)
    refuse_endless(folder / sources.CONFIG, name)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    return source.label(name), folder, config


def _load(kind: str, auto: str, folder: Path, name: str, config: PreTrainedConfig, device: str, **options: Any) -> Any:
    """Load a model of sentence-transformers, which by itself would make up weights that aren't there."""
    import sentence_transformers

    source = Source(str(folder))
    with models.explained_errors(name):
        models.load_tokenizer(source, name)
        # Nothing reads what BERT's pooler makes of the first token
        load_weights(source, name, config, torch.float32, "meta", kind=auto, unused=("pooler.",))
    logger = logging.getLogger("sentence_transformers")
    logger.handlers = [_Refusal()]
    logger.propagate = os.environ.get("TOKUR_DEBUG") == "1"
    weights = {"dtype": torch.float32, "use_safetensors": True}
    model = getattr(sentence_transformers, kind)(
        str(folder), device=device, local_files_only=True, model_kwargs=weights, **options
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
            unused = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - unused)
    return min(limits)


def _require_similarity(model: Any, name: str) -> None:
    """Refuse cross-encoders whose rating isn't one number from 0 to 1."""
    fault = None
    if model.num_labels != 1:
        fault = f"classifies texts into {model.num_labels} labels, so it doesn't tell how alike they are"
    elif not torch.equal(ends := model.activation_fn(torch.tensor([-1e4, 1e4])), ends.clip(0, 1)):
        fault = f"rates pairs through {type(model.activation_fn).__name__}, so not from 0 to 1 as a similarity is"
    if fault is not None:
        raise TokurError(f"{name} {fault}; use {SIMILARITY.instead}")


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
            f"by its labels: they are {', '.join(labels[column] for column in sorted(labels))}; "
            f"use {ENTAILMENT.instead}"
        )
    return [found[0] for found in columns]


def _read_json(path: Path, without: Any) -> Any:
    """Return what a file holds, or a default where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else without
