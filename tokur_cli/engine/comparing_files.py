"""What the files of a model that compares texts say about how to read its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tokur_cli.engine.default_similarity import DEFAULT_SIMILARITY_MODEL
from tokur_cli.engine.sources import CONVERT_PICKLED, Purpose, Source
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

Pooling = Callable[[Tensor, Tensor], Tensor]
"""From the states of tokens (B, L, d), padded on the right, and the attention mask (B, L) to embeddings (B, d)."""

CLASSIFIER = "AutoModelForSequenceClassification"
CLASSIFIER_ENDING = "ForSequenceClassification"
RELATIONS = ("entail", "neutral", "contra")  # what the labels of a natural language inference model begin with

ENTAILMENT = Purpose(
    "the folder of another natural language inference model (--nli-model)", CONVERT_PICKLED.format(kind=CLASSIFIER)
)
SIMILARITY = Purpose(
    f"{DEFAULT_SIMILARITY_MODEL} or the folder of a sentence-embedding model or cross-encoder (--similarity-model)",
    "copy them to a folder (from the hub: hf download {name} --local-dir converted) and run there "
    'python -c "import torch; from safetensors.torch import save_file; '
    "save_file(torch.load('pytorch_model.bin', weights_only=True), 'model.safetensors', dict(format='pt'))\"",
)


def _mean_of_tokens(states: Tensor, mask: Tensor) -> Tensor:
    weights = mask[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def _first_token(states: Tensor, mask: Tensor) -> Tensor:
    return states[:, 0]


POOLING: dict[str, Pooling] = {"mean": _mean_of_tokens, "cls": _first_token}
OLD_POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""How sentence-transformers noted the pooling before its version 6."""


def is_classifier(config: PreTrainedConfig) -> bool:
    """Whether it is a model that gives a text a number a label."""
    return architecture(config).endswith(CLASSIFIER_ENDING)


def architecture(config: PreTrainedConfig) -> str:
    """Return the name of the model's class, or of its family where it isn't noted."""
    return str((getattr(config, "architectures", None) or [config.model_type])[0])


def relation_columns(config: PreTrainedConfig, name: str) -> list[int]:
    """Return which outputs of a natural language inference model mean entailment, neutral and contradiction.

    Raises:
        TokurError: the model's labels don't tell.
    """
    labels = {int(column): str(label) for column, label in (config.id2label or {}).items()}
    columns = [
        [column for column, label in labels.items() if label.lower().startswith(relation)] for relation in RELATIONS
    ]
    if len(labels) != len(RELATIONS) or any(len(found) != 1 for found in columns):
        raise TokurError(
            f"{name} isn't a natural language inference model that tells entailment, neutral and contradiction apart "
            f"by its labels: they are {', '.join(labels[column] for column in sorted(labels))}; "
            f"use {ENTAILMENT.instead}"
        )
    return [found[0] for found in columns]


def require_sigmoid(source: Source, config: PreTrainedConfig, name: str) -> None:
    """Refuse classifiers whose output isn't one number that a sigmoid makes a similarity of.

    sentence-transformers noted the function in three places over its versions; none of them means the sigmoid.

    Raises:
        TokurError: it is such a classifier.
    """
    if config.num_labels != 1:
        raise TokurError(
            f"{name} classifies texts into {config.num_labels} labels, so it doesn't tell how alike they are; "
            f"use {SIMILARITY.instead}"
        )
    saved = read_json(source, "config_sentence_transformers.json") or {}
    activation = (
        saved.get("activation_fn")
        or (getattr(config, "sentence_transformers", None) or {}).get("activation_fn")
        or getattr(config, "sbert_ce_default_activation_function", None)
        or "Sigmoid"
    )
    if activation.rpartition(".")[2] != "Sigmoid":
        raise TokurError(
            f"{name} rates pairs through {activation}, so not from 0 to 1 as a similarity is; use {SIMILARITY.instead}"
        )


def pooling_of(source: Source, name: str) -> Pooling:
    """Find out how a sentence-embedding model makes one vector of a text's token states.

    Raises:
        TokurError: it isn't such a model, or does more than a transformer, a pooling and a normalisation.
    """
    modules = read_json(source, "modules.json")
    if modules is None:
        raise TokurError(
            f"{name} is neither a cross-encoder nor a sentence-embedding model (it has no modules.json); "
            f"use {SIMILARITY.instead}"
        )
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) or modules[0]["path"]:
        raise TokurError(
            f"{name} isn't made of a transformer, a pooling and a normalisation alone, which is all that tokur "
            f"computes: its modules.json names {', '.join(kinds)}; use {SIMILARITY.instead}"
        )
    saved = read_json(source, "config_sentence_transformers.json") or {}
    if prompt := saved.get("default_prompt_name"):
        raise TokurError(f'{name} wants its prompt "{prompt}" before each text; use {SIMILARITY.instead}')
    if (read_json(source, "sentence_bert_config.json") or {}).get("do_lower_case"):
        raise TokurError(f"{name} wants its texts in lower case; use {SIMILARITY.instead}")
    pooling = read_json(source, f"{modules[1]['path']}/config.json") or {}
    modes = pooling.get("pooling_mode") or [mode for key, mode in OLD_POOLING.items() if pooling.get(key)]
    modes = [modes] if isinstance(modes, str) else modes
    if len(modes) != 1 or modes[0] not in POOLING:
        raise TokurError(
            f"{name} pools by {' and '.join(modes) or 'nothing'}, tokur by {' or '.join(POOLING)}; "
            f"use {SIMILARITY.instead}"
        )
    return POOLING[modes[0]]


def read_json(source: Source, file: str) -> Any:
    """Return the content of one of the model's files; None if it has no such file."""
    from transformers.utils.hub import cached_file

    path = cached_file(source.place, file, **source.options, _raise_exceptions_for_missing_entries=False)
    return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
