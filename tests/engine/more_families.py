"""Tiny random models of families that are built otherwise than Llama: configs of one layer or a few."""

from typing import Any

import torch
import transformers

SMALL: dict[str, Any] = {
    "vocab_size": 259, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 512, "head_dim": 8, "pad_token_id": 256, "bos_token_id": 257,
    "eos_token_id": 258,
}  # fmt: skip
DECODER: dict[str, Any] = {
    "vocab_size": 259, "d_model": 32, "hidden_size": 32, "decoder_layers": 2, "decoder_attention_heads": 4,
    "decoder_ffn_dim": 64, "max_position_embeddings": 512, "pad_token_id": 256, "is_decoder": True,
    "is_encoder_decoder": False,
}  # fmt: skip
EXPERTS = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
}  # fmt: skip
DELTA = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
HYBRID = SMALL | DELTA | {"layer_types": ["linear_attention", "full_attention"]}
TOWER = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 28,
    "patch_size": 14,
}  # fmt: skip
GEMMA = SMALL | {"query_pre_attn_scalar": 8, "sliding_window": 64}

LLAMA = SMALL | {"model_type": "llama"}
MISTRAL = SMALL | {"model_type": "mistral"}
THREE_AXES = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}
QWEN_TOWER = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 4, "patch_size": 14}
QWEN_TOWER |= {"intermediate_size": 64, "deepstack_visual_indexes": [0], "fullatt_block_indexes": [1]}
CLIP = TOWER | {"model_type": "clip_vision_model", "projection_dim": 32}
PIXTRAL = TOWER | {"model_type": "pixtral", "head_dim": 8}

STATES = {
    "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_chunk_size": 8,
}  # fmt: skip
OPENAI = {"vocab_size": 259, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
LATENT = SMALL | {
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "head_dim": 4,
    "v_head_dim": 8,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
    "first_k_dense_replace": 2,
}
COMPRESSED = {"q_lora_rank": 16, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16}

# Bodies in another place than others have them, towers for images, linear attention, experts, positions of other kinds
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "opt": ("OPTConfig", DECODER | {"num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64}),
    "opt-projected": (
        "OPTConfig",
        DECODER | {"num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64, "word_embed_proj_dim": 16},
    ),
    "bart": ("BartConfig", DECODER),
    "bigbird_pegasus": ("BigBirdPegasusConfig", DECODER),
    "trocr": ("TrOCRConfig", DECODER),
    "whisper": ("WhisperConfig", DECODER | {"max_target_positions": 512, "begin_suppress_tokens": None}),
    "bert": ("BertConfig", SMALL | {"is_decoder": True}),
    "llama4_text": ("Llama4TextConfig", SMALL | {"num_local_experts": 4, "intermediate_size_mlp": 64}),
    "mllama": (
        "MllamaConfig",
        {"text_config": SMALL | {"cross_attention_layers": [1], "num_hidden_layers": 3}, "vision_config": TOWER},
    ),
    "gemma3": ("Gemma3Config", {"text_config": GEMMA, "vision_config": TOWER}),
    "qwen2_vl": ("Qwen2VLConfig", {"text_config": SMALL | THREE_AXES, "vision_config": QWEN_TOWER}),
    "qwen2_5_vl": ("Qwen2_5_VLConfig", {"text_config": SMALL | THREE_AXES, "vision_config": QWEN_TOWER}),
    "qwen3_vl": ("Qwen3VLConfig", {"text_config": SMALL | THREE_AXES, "vision_config": QWEN_TOWER}),
    "llava": ("LlavaConfig", {"text_config": LLAMA, "vision_config": CLIP, "vision_feature_layer": -1}),
    "mistral3": ("Mistral3Config", {"text_config": MISTRAL, "vision_config": PIXTRAL, "vision_feature_layer": -1}),
    "internvl": (
        "InternVLConfig",
        {"text_config": SMALL | {"model_type": "qwen2"}, "vision_config": TOWER | {"image_size": [28, 28]}},
    ),
    "qwen3_next": ("Qwen3NextConfig", HYBRID | EXPERTS),
    "qwen3_5_text": ("Qwen3_5TextConfig", HYBRID),
    "qwen3_5_moe_text": ("Qwen3_5MoeTextConfig", HYBRID | EXPERTS),
    "olmo_hybrid": ("OlmoHybridConfig", HYBRID),
    "afmoe": ("AfmoeConfig", SMALL | EXPERTS | {"num_dense_layers": 1}),
    "bloom": ("BloomConfig", {"vocab_size": 259, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "gptj": ("GPTJConfig", {"vocab_size": 259, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4}),
    "xglm": ("XGLMConfig", {"vocab_size": 259, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64}),
    "codegen": ("CodeGenConfig", {"vocab_size": 259, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4}),
    "gpt_bigcode": ("GPTBigCodeConfig", OPENAI),
    "gpt_bigcode-multi-head": ("GPTBigCodeConfig", OPENAI | {"multi_query": False}),
    "openai-gpt": ("OpenAIGPTConfig", OPENAI),
    "persimmon": ("PersimmonConfig", SMALL | {"qk_layernorm": False}),
    "gpt_neox_japanese": ("GPTNeoXJapaneseConfig", SMALL),
    "dbrx": (
        "DbrxConfig",
        {"vocab_size": 259, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 512}
        | {"attn_config": {"kv_n_heads": 2, "clip_qkv": 2.0, "rope_theta": 10000.0}}
        | {"ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 2, "moe_top_k": 1, "hidden_size": 32}},
    ),
    "phi4_multimodal": (
        "Phi4MultimodalConfig",
        SMALL
        | {"vision_config": TOWER | {"intermediate_size": 32, "image_size": 56}}
        | {"audio_config": {"hidden_size": 32, "num_blocks": 1, "num_attention_heads": 4, "intermediate_size": 32}},
    ),
    "deepseek_v2": ("DeepseekV2Config", LATENT | {"q_lora_rank": None}),
    "deepseek_v3": ("DeepseekV3Config", LATENT | COMPRESSED),
    "glm4_moe_lite": ("Glm4MoeLiteConfig", LATENT | COMPRESSED),
    "kimi_linear": (
        "KimiLinearConfig",
        LATENT
        | {"layer_types": ["linear_attention", "full_attention"], "linear_head_dim": 8, "linear_num_heads": 4}
        | {"num_experts": 2, "n_routed_experts": None, "moe_intermediate_size": 16},
    ),
    "jamba": (
        "JambaConfig",
        SMALL
        | {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "num_experts_per_tok": 1}
        | {"mamba_d_state": 8, "mamba_dt_rank": 4, "use_mamba_kernels": False},
    ),
    "falcon_h1": ("FalconH1Config", SMALL | STATES | {"mamba_d_ssm": 64}),
    "bamba": ("BambaConfig", SMALL | STATES | {"attn_layer_indices": [1]}),
    "granitemoehybrid": (
        "GraniteMoeHybridConfig",
        SMALL
        | STATES
        | {"layer_types": ["mamba", "attention"], "num_local_experts": 0}
        | {"shared_intermediate_size": 32},
    ),
    "nemotron_h": (
        "NemotronHConfig",
        SMALL
        | {"hybrid_override_pattern": "M*-", "num_hidden_layers": 3, "mamba_num_heads": 4, "mamba_head_dim": 16}
        | {"ssm_state_size": 8, "n_groups": 1, "chunk_size": 8},
    ),
    "lfm2": ("Lfm2Config", SMALL | {"layer_types": ["conv", "full_attention"]}),
    "minimax": (
        "MiniMaxConfig",
        SMALL
        | {"layer_types": ["linear_attention", "full_attention"], "num_local_experts": 2}
        | {"num_experts_per_tok": 1},
    ),
    "zamba": (
        "ZambaConfig",
        SMALL
        | {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]}
        | {"mamba_d_state": 8, "mamba_dt_rank": 4, "n_mamba_heads": 2, "use_mamba_kernels": False}
        | {"attention_hidden_size": 64, "attention_head_dim": 16},
    ),
    "zamba2": (
        "Zamba2Config",
        SMALL
        | {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"], "num_mem_blocks": 1}
        | {"mamba_d_state": 8, "mamba_headdim": 16, "n_mamba_heads": 4, "mamba_ngroups": 1, "chunk_size": 8}
        | {"attention_hidden_size": 64, "attention_head_dim": 16, "adapter_rank": 4, "num_key_value_heads": 4},
    ),
    "mamba2": (
        "Mamba2Config",
        {"vocab_size": 259, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 16}
        | {"state_size": 8, "n_groups": 1, "chunk_size": 8, "pad_token_id": 256, "bos_token_id": 257},
    ),
    "mamba": ("MambaConfig", {"vocab_size": 259, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
}
# What tokur would get wrong: a body whose second output the logits are made of; attention to what comes later
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "prophetnet": (
        "ProphetNetConfig",
        {"vocab_size": 259, "hidden_size": 32, "num_decoder_layers": 2, "num_decoder_attention_heads": 4}
        | {"decoder_ffn_dim": 64, "ngram": 2, "is_decoder": True, "is_encoder_decoder": False},
    ),
    "bert": ("BertConfig", SMALL | {"is_decoder": False}),
    "xlm": ("XLMConfig", {"vocab_size": 259, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "causal": False}),
}


def model_of(config_class: str, fields: dict[str, Any]) -> Any:
    """Make a random float32 model; biases, norm weights and other vectors are moved off their first values."""
    config = getattr(transformers, config_class)(**fields)
    torch.manual_seed(0)
    texts_alone = type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    auto = transformers.AutoModelForCausalLM if texts_alone else transformers.AutoModelForMultimodalLM
    model = auto.from_config(config, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                parameter.add_(noise, alpha=0.1)
            else:
                parameter.copy_(noise * 0.2)
    model.set_experts_implementation("eager")  # the others' products are of float32 at most
    return model.requires_grad_(False)


def more(family: str) -> Any:
    """Make a model of one of ``MORE``."""
    return model_of(*MORE[family])
