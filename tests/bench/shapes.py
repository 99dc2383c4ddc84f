"""Models of real shapes with random weights, as a benchmark needs them: made in seconds, and folders to load.

    python -m tests.bench.shapes llama1b FOLDER

The tokenizer is the default model's: its token ids are within these vocabularies.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.initialization import no_init_weights

LLAMA = {
    "vocab_size": 128_256,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": True,
}
SHAPES = {
    "llama1b": LLAMA | {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32},
    "llama3b": LLAMA | {"hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24},
    "tiny": {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "num_key_value_heads": 2},
}
DEVIATION = 0.02
DIRECTIONS = 32
NUMBERS = 1_000_003  # random ones, of which all weights are made: a prime, so that no two rows are the same


def random_model(shape, dtype, device):
    """A model whose maps have a few directions that are much stronger than the rest, as trained ones have.

    Among directions of like strength, which random numbers alone have, the basis takes several times as long to find.
    """
    config = LlamaConfig(**SHAPES[shape])
    with torch.device(device), no_init_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.tie_weights()  # left undone without initialisation
    numbers = DEVIATION * torch.randn(NUMBERS, generator=torch.Generator().manual_seed(0)).to(device, model.dtype)
    model.requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.fill_(1)
            continue
        entries = parameter.view(-1)
        for first in range(0, len(entries), NUMBERS):
            part = entries[first : first + NUMBERS]
            part.copy_(numbers[: len(part)])
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            rows, columns = parameter.shape
            left, right = (
                numbers[: DIRECTIONS * rows].view(rows, -1),
                numbers[-DIRECTIONS * columns :].view(-1, columns),
            )
            strengths = torch.linspace(40, 10, DIRECTIONS, dtype=parameter.dtype, device=device)
            parameter += (left * strengths) @ right.view(-1, columns)
    return model.eval()


def main():
    from tokur_cli.engine.model.embedded import DEFAULT_MODEL
    from tokur_cli.engine.model.load import describe_model
    from tokur_cli.engine.model.request import ModelRequest

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder")
    arguments = parser.parse_args()
    random_model(arguments.shape, "bfloat16", "cpu").save_pretrained(arguments.folder)
    describe_model(ModelRequest(DEFAULT_MODEL)).tokenizer.save_pretrained(arguments.folder)


if __name__ == "__main__":
    main()
