"""Tiny random models that compare texts, as Hugging Face and sentence-transformers folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tiny import VOCABULARY_SIZE, tiny_tokenizer

LONGEST = 64
PAD, START, END = 256, 257, 258
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY_SIZE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": LONGEST, "pad_token_id": PAD,
}  # fmt: skip
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertConfig", SIZES),
    # Positions begin behind the padding token's id
    "roberta": ("RobertaConfig", SIZES | {"max_position_embeddings": LONGEST + PAD + 1, "type_vocab_size": 1}),
    "deberta": ("DebertaConfig", SIZES | DEBERTA | {"type_vocab_size": 0}),
    "deberta-v2": ("DebertaV2Config", SIZES | DEBERTA | {"type_vocab_size": 0}),
}


def tiny_encoder_tokenizer(more_inputs: list[str]) -> Any:
    """Make a byte-level tokenizer that writes a text as ``[start] text [end]``, a second one as ``text [end]``."""
    from tokenizers import processors

    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A <|im_end|>",
        pair="<|im_start|> $A <|im_end|> $B:1 <|im_end|>:1",
        special_tokens=[("<|im_start|>", START), ("<|im_end|>", END)],
    )
    tokenizer.model_input_names = ["input_ids", "attention_mask", *more_inputs]
    tokenizer.model_max_length = int(1e30)  # as where tokenizer_config.json has none
    return tokenizer


def tiny_encoder_folder(folder: Path, family: str, kind: str, **config: Any) -> Path:
    """Save a tiny random model of a family and a kind (``AutoModel…``) with its tokenizer; return the folder."""
    import torch
    import transformers

    config_class, sizes = FAMILIES[family]
    auto = getattr(transformers, kind)
    model = auto.from_config(getattr(transformers, config_class)(**(sizes | config)), dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    model.save_pretrained(folder)
    more = ["token_type_ids"] if family == "bert" else []
    tiny_encoder_tokenizer(more).save_pretrained(folder)
    return folder


def write_modules(folder: Path, pooling: dict[str, Any]) -> None:
    """Add to a folder what sentence-transformers writes beside a transformer."""
    places = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(places.items())
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
