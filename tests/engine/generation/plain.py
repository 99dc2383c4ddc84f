"""The algorithm in plain Python: whole forward passes, one particle at a time, scores by brute force in float64."""

from __future__ import annotations

import math

import torch

from tokur_cli.engine.generation.decoder import DecodingRequest
from tokur_cli.engine.generation.sampling import choose_tokens, random_word
from tokur_cli.engine.noise import uniform, words

END = frozenset(range(6))
CONFIDENCES = ("logprob", "self_certainty", "deepconf")


def text_of(ids):
    """A character a token."""
    return "".join(map(chr, ids))


def requests(count=12, samples=(0,), seed=0):
    """Questions with prompts of 1 to 29 tokens."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 30, (count,), generator=generator).tolist()
    prompts = [torch.randint(6, 256, (size,), generator=generator).tolist() for size in sizes]
    return [DecodingRequest(index, f"q{index}", prompt, samples) for index, prompt in enumerate(prompts)]


def last_logits(model, texts):
    """Logits (N, V) after texts of ids, by one pass in which what fills them up to one length stands behind them.

    No causal model's numbers depend on what comes later.
    """
    filled = torch.nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    with torch.no_grad():
        return model(filled).logits[range(len(texts)), [len(text) - 1 for text in texts]]


def by_whole_passes(model, asked, sampling, limit=30, end=END):
    """The response to each (request, sample), by whole forward passes over the growing texts, without any cache."""
    outs = [[] for _ in asked]
    while growing := [(*of, out) for of, out in zip(asked, outs, strict=True) if len(out) < limit and not end & {*out}]:
        logits = last_logits(model, [[*request.prompt_ids, *out] for request, _, out in growing])
        numbers = [random_word(sampling.seed, request.key, sample, len(out)) for request, sample, out in growing]
        for (_, _, out), token in zip(growing, choose_tokens(logits, sampling, numbers).tolist(), strict=True):
            out.append(token)
    return outs


def score_so_far(values, over, step, confidence):
    values = [float(value) for value in values]
    if over == "mean":
        return sum(values) / len(values)
    if over == "sum":
        return sum(values)
    if over == "step":
        return sum(values[step:]) / len(values[step:])
    worst = sorted(values, reverse=not confidence)[:5]
    return sum(worst) / len(worst)


def index_of(weights, share):
    reached = 0.0
    for index, weight in enumerate(weights):
        reached += weight
        if share * sum(weights) < reached:
            return index
    return len(weights) - 1


def grow(model, prompt, particle, slot, round_, run):
    """One step of one particle."""
    ids = list(particle["ids"])
    key = (run["seed"], "particle", run["key"], slot, round_)
    step = []
    while True:
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *ids]])).logits[:, -1]
        word = words(key, 0, 4 * (len(step) // 4 + 1)).view("int64")[len(step)]
        token = int(choose_tokens(logits, run["sampling"], [int(word)]))
        ids.append(token)
        step.append(token)
        ended = token in run["end_ids"] or len(ids) == run["max_new_tokens"]
        ended = ended or any(stop in run["decode"](ids) for stop in run["stop"])
        if ended or len(step) == run["step_tokens"] or any(end in run["decode"](step) for end in run["step_ends"]):
            return {**particle, "ids": ids, "ended": ended, "step": len(ids) - len(step)}


def particle_filter(model, quantity, prompt, run):
    """Return the particles at the end, as dictionaries; ``run`` holds the settings."""
    confidence = quantity in CONFIDENCES
    particles = [{"ids": [], "ended": False, "root": n, "scores": [], "ends": []} for n in range(run["count"])]
    history = {"slot_scores": [], "ancestors": [], "ess": []}
    earlier = [1.0] * run["count"]  # weights of rounds without resampling, where a reward is of a step
    round_ = 0
    while True:
        particles = [
            particle if particle["ended"] else grow(model, prompt, particle, slot, round_, run)
            for slot, particle in enumerate(particles)
        ]
        for slot, particle in enumerate(particles):
            values = run["tokens"](prompt, particle["ids"])[quantity]
            score = score_so_far(values, run["over"], particle["step"], confidence)
            ends = [*particle["ends"], len(particle["ids"])]
            particles[slot] = {**particle, "scores": [*particle["scores"], score], "ends": ends}
        history["slot_scores"].append([particle["scores"][-1] for particle in particles])
        if all(particle["ended"] for particle in particles):
            return particles, history
        rewards = [particle["scores"][-1] * (1 if confidence else -1) for particle in particles]
        scale = run["temperature"]
        if scale is None:
            mean = sum(rewards) / len(rewards)
            scale = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) or math.inf
        weights = [math.exp((reward - max(rewards)) / scale) * w for reward, w in zip(rewards, earlier, strict=True)]
        weights = [weight / sum(weights) for weight in weights]
        size = 1 / sum(weight**2 for weight in weights)
        ancestors = list(range(run["count"]))
        earlier = weights if run["over"] == "step" else [1.0] * run["count"]
        if run["scheme"] == "multinomial" or size < run["count"] / 2:
            earlier = [1.0] * run["count"]
            numbers = uniform((run["seed"], "resample", run["key"], round_), run["count"])
            for slot in range(run["count"]):
                share = numbers[slot] if run["scheme"] == "multinomial" else (slot + numbers[0]) / run["count"]
                ancestors[slot] = index_of(weights, share)
        history["ancestors"].append(ancestors)
        history["ess"].append(size)
        particles = [particles[ancestor] for ancestor in ancestors]
        round_ += 1
