"""Loading tiny models, and adapters of random weights."""

import copy

import torch

from tests.tiny import tiny_model
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.model.request import ModelRequest

IDS = torch.arange(40, 100)[None]
LORA = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "k_proj", "down_proj"]}
KINDS = {
    "lora": ("LoraConfig", LORA),
    "dora": ("LoraConfig", LORA | {"use_dora": True}),
    "with-a-head": ("LoraConfig", LORA | {"modules_to_save": ["lm_head"]}),
    "on-the-head": ("LoraConfig", LORA | {"target_modules": ["q_proj", "lm_head"]}),
    "ia3": ("IA3Config", {"target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]}),
    "oft": ("OFTConfig", {"oft_block_size": 8, "target_modules": ["q_proj", "k_proj"]}),
}
SIZES = {"hidden_size": 64, "intermediate_size": 128}  # which the libraries' blocks divide


def load(place, *, progress=lambda _: None, **options):
    fields = {"dtype": "float32", "device_map": "cpu"} | options
    return load_language_model(ModelRequest(str(place), **fields), progress=progress)


def save_adapter(folder, kind="lora", base=None, model=None):
    """Save an adapter of random weights; return the model that has it beside its own, in float32."""
    import peft

    config, fields = KINDS[kind] if isinstance(kind, str) else kind
    config = getattr(peft, config)(task_type="CAUSAL_LM", **fields)
    torch.manual_seed(0)
    beside = peft.get_peft_model(copy.deepcopy(model if model is not None else tiny_model()), config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in beside.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    beside.peft_config["default"].base_model_name_or_path = None if base is None else str(base)
    beside.save_pretrained(folder)
    return beside


def plain_model(family="llama"):
    """A tiny model that rounding moves little, with biases much larger than its weights where the family has any."""
    model = tiny_model(family, **SIZES)
    for parameter in model.parameters():
        parameter *= 0.2 if parameter.ndim > 1 else 1
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter *= 200
    return model
