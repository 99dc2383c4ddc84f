"""Tiny random language models with a byte-level tokenizer, built in code, for tests that need no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY_SIZE = 256 + len(SPECIAL_TOKENS)
CONTEXT_LENGTH = 512
QUIET = 12  # how many times less noise in the weights moves some tiny models than it would

GROUPED_QUERY = {"num_attention_heads": 4, "num_key_value_heads": 2}
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY_SIZE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": CONTEXT_LENGTH, "pad_token_id": 256, "bos_token_id": 257,
    "eos_token_id": 258,
}  # fmt: skip
GPT2_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY_SIZE, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT_LENGTH,
    "pad_token_id": 256, "bos_token_id": 257, "eos_token_id": 258,
}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", SIZES | GROUPED_QUERY), "qwen2": ("Qwen2Config", SIZES | GROUPED_QUERY),
    "qwen3": ("Qwen3Config", SIZES | GROUPED_QUERY | {"head_dim": 16}),
    "mistral": ("MistralConfig", SIZES | GROUPED_QUERY | {"sliding_window": None}),
    "gemma2": ("Gemma2Config", SIZES | GROUPED_QUERY | {"head_dim": 8, "query_pre_attn_scalar": 8}),
    "gemma3": ("Gemma3TextConfig", SIZES | GROUPED_QUERY | {"head_dim": 8, "query_pre_attn_scalar": 8}),
    "gpt2": ("GPT2Config", GPT2_SIZES), "phi3": ("Phi3Config", SIZES | GROUPED_QUERY),
    "gpt_neox": ("GPTNeoXConfig", SIZES),
}  # fmt: skip


def tiny_tokenizer() -> Any:
    """Make a tokenizer of 256 byte tokens (ids 0-255) and three special ones, with a ChatML template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {character: i for i, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=SPECIAL_TOKENS[0],
        bos_token=SPECIAL_TOKENS[1],
        eos_token=SPECIAL_TOKENS[2],
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_LENGTH,
        clean_up_tokenization_spaces=False,
    )


def tiny_model(family: str = "llama", seed: int = 0, **overrides: Any) -> Any:
    """Make a random 2-layer float32 model of a family; `overrides` are fields of its config.

    Weights are large enough for peaked and varied next-token distributions; biases and norm weights are
    moved off 0 and 1, so that a test which forgets one of them fails.
    """
    import torch
    import transformers

    config_class, sizes = FAMILIES[family]
    config = getattr(transformers, config_class)(**(sizes | overrides))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                parameter.add_(noise, alpha=0.1)
            else:
                parameter.copy_(noise * 0.4)
    return model.requires_grad_(False)


def quieten(model: Any, factor: float) -> None:
    """Divide what enters W^Q, W^K and W^V and multiply them: the same outputs, moved less by noise in the weights.

    Random models are moved by the default strength much more than real ones; divided by ``QUIET``, like a real one.
    """
    for layer in model.model.layers:
        layer.input_layernorm.weight /= factor
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            projection.weight *= factor


def quiet_model() -> Any:
    """Make the tiny Llama that noise in the weights moves as little as a real model."""
    model = tiny_model("llama")
    quieten(model, QUIET)
    return model


def tiny_model_folder(tmp_path: Path, family: str = "llama", seed: int = 0, **overrides: Any) -> Path:
    """Save a tiny random model and its tokenizer as a Hugging Face folder under `tmp_path`; return the folder."""
    folder = tmp_path / f"tiny-{family}"
    tiny_model(family, seed, **overrides).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def tiny_vllm_folder(tmp_path: Path) -> Path:
    """Save a tiny model with heads as large as vLLM takes them on a CPU, in groups, and a long context."""
    tokenizer, length = tiny_tokenizer(), 8192
    folder = tiny_model_folder(tmp_path, hidden_size=64, head_dim=32, max_position_embeddings=length)
    tokenizer.model_max_length = length
    tokenizer.save_pretrained(folder)
    return folder


def tiny_gguf_file(tmp_path: Path, splitting: str = "gpt-2") -> tuple[Path, Any]:
    """Write a tiny random llama as a GGUF file, by the format's own writer; return the file and the model.

    Its vocabulary has two tokens more than `tiny_tokenizer`'s: ``ab`` and ``cd``, ids 259 and 260. `splitting` is the
    file's ``tokenizer.ggml.pre``.
    """
    import gguf

    model = tiny_model("llama", vocab_size=VOCABULARY_SIZE + 2)
    tokenizer = tiny_tokenizer()
    config = model.config
    file = tmp_path / "tiny-llama.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list([*tokenizer.convert_ids_to_tokens(range(VOCABULARY_SIZE)), "ab", "cd"])
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_token_types([normal] * 256 + [control] * len(SPECIAL_TOKENS) + [normal] * 2)
    writer.add_token_merges(["a b", "c d"])
    writer.add_pad_token_id(config.pad_token_id)
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    writer.add_chat_template(CHAT_TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        if heads is not None:  # GGUF's llamas rotate neighbouring rows, Hugging Face's the two halves of a head
            weight = weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
        writer.add_tensor(names.get_name(name, (".weight",)), weight.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file, model
