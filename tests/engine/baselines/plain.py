"""P(True) by plain forward passes."""

import math

import torch

from tests.tiny import tiny_tokenizer


def byte(text):
    return tiny_tokenizer()(text, add_special_tokens=False)["input_ids"]


def by_hand(model, prompt: str) -> float:
    """The bytes at which the answers part, one plain float64 pass for each way to get there."""
    pairs = {"": ["TF", "tf", "AB"], "(": ["AB"], " ": ["TF", "tf", "AB"], " (": ["AB"]}
    totals = [0.0, 0.0]
    for before, letters in pairs.items():
        ids = byte(prompt + before)
        log_p = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        at = len(byte(prompt)) - 1
        reached = sum(float(log_p[at + step, token]) for step, token in enumerate(byte(before)))
        for pair in letters:
            for which, letter in enumerate(pair):
                totals[which] += math.exp(reached + float(log_p[-1, byte(letter)[0]]))
    return totals[0] / sum(totals)
