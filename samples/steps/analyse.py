"""Is the first wrong step less sure than the right steps before it, at the same length and the same place?

python samples/steps/analyse.py sentences < champ_scored.jsonl
python samples/steps/analyse.py sentences '\\d' < champ_scored.jsonl      # only tokens with a digit count

Each wrong step is compared with the right steps before it in its response. The share of pairs in which it is the less
sure one is its AUROC within the response; the table has the mean over responses:

    within    all pairs
    matched   pairs of steps whose numbers of tokens differ by a quarter at most
    placebo   the same as matched where nothing is wrong: right steps at the same places of other solutions
    beyond    matched − placebo: what being wrong adds where length and place are the same
    partial   partial Spearman correlation of the score with being wrong, given length and place, over all steps

with 95 % intervals by bootstrap over problems. Problems are cut into halves by their names: what is best is read off
the first, and how good it is off the second.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokur_cli.scores.quantities import QUANTITIES as TABLE
from tokur_cli.scores.steps import AGGREGATES, aggregates, token_places

Floats = NDArray[np.float64]

QUANTITIES = ("eu", "au", "tu", "entropy", "logprob")
SCORES = (*(f"{name}_{how}" for name in QUANTITIES for how in AGGREGATES), *(f"{name}_change" for name in QUANTITIES))
NAMES = (*SCORES, "length")
RATIO = 1.25
RESAMPLES = 1000


@dataclass
class Response:
    """A solution up to and with its wrong steps, or a whole one without a mistake.

    Attributes:
        problem: its problem.
        doubt: (steps, scores) less sure is more.
        length: (steps,) tokens.
        wrong: (steps,) which are wrong.
    """

    problem: str
    doubt: Floats
    length: Floats
    wrong: NDArray[np.bool_]


def read(by: str, counted: str = "") -> list[Response]:
    """Read scored records; a change is that of the mean to the step before, 0 for the first.

    Args:
        by: the field of the steps.
        counted: a regular expression: only tokens with a match count, and steps without any are left out.
    """
    responses = []
    for line in sys.stdin:
        record = json.loads(line)
        tokens = record["tokur"]["tokens"]
        places = np.array(token_places(record["response"], tokens["offsets"]))
        counts = np.array(
            [re.search(counted, record["response"][slice(*span)]) is not None for span in tokens["offsets"]]
        )
        rows, lengths, wrong = [], [], []
        for step in record[by]:
            within = (step["start"] <= places) & (places < step["end"])
            own = within & counts
            if step["correct"] is None or not own.any():
                continue
            row = []
            for name in QUANTITIES:
                found = aggregates(np.array(tokens[name], dtype=float)[own].tolist(), TABLE[name].orientation)
                row += [TABLE[name].doubt(found[how]) for how in AGGREGATES]
            rows.append(row)
            lengths.append(within.sum())
            wrong.append(not step["correct"])
        if not rows:
            continue
        table = np.array(rows)
        means = table[:, AGGREGATES.index("mean") :: len(AGGREGATES)]
        changes = np.diff(means, axis=0, prepend=means[:1])
        length = np.array(lengths, dtype=float)
        doubt = np.hstack([table, changes, length[:, None]])
        responses.append(Response(record["id"], doubt, length, np.array(wrong)))
    return responses


def above(response: Response, step: int, others: NDArray[np.intp], ratio: float) -> Floats:
    """Return (scores,) the share of other steps, of like length, that are surer than a step; NaN without any."""
    lengths = response.length[others] / response.length[step]
    others = others[(lengths <= ratio) & (lengths >= 1 / ratio)]
    if not len(others):
        return np.full(len(NAMES), np.nan)
    own, theirs = response.doubt[step], response.doubt[others]
    share: Floats = ((theirs < own) + 0.5 * (theirs == own)).mean(axis=0)
    return share


class Pairs:
    """The wrong steps of all solutions, each beside the right ones before it, and right steps at the same places.

    Args:
        responses: N solutions, right ones among them.
    """

    def __init__(self, responses: list[Response]) -> None:
        self.responses = responses
        keys: dict[tuple[int, int], int] = {}
        owner, key, within, matched = [], [], [], []
        for place, response in enumerate(responses):
            steps, others = np.flatnonzero(response.wrong), np.flatnonzero(~response.wrong)
            for step in steps:
                owner.append(place)
                key.append(keys.setdefault((int(steps[0]), int(step)), len(keys)))
                within.append(above(response, step, others, np.inf))
                matched.append(above(response, step, others, RATIO))
        self.owner, self.key = np.array(owner), np.array(key)  # (F,), F wrong steps
        self.within, self.matched = np.array(within), np.array(matched)  # (F, scores)
        self.placebo = np.full((len(keys), len(responses), len(NAMES)), np.nan)
        for (first, step), row in keys.items():
            for place, response in enumerate(responses):
                if step < len(response.length) and not response.wrong[: step + 1].any():
                    self.placebo[row, place] = above(response, step, np.arange(first), RATIO)

    def figures(self, weight: Floats, counted: NDArray[np.bool_]) -> Floats:
        """Return (5, scores): within, matched, placebo, beyond, partial.

        Args:
            weight: (N,) how often a resample has each solution.
            counted: (N,) those whose wrong steps are judged; the right steps of the others are for the placebo alone.
        """
        blind = mean(self.placebo, weight[None, :, None], axis=1)[self.key]
        blind = np.where(np.isnan(self.matched), np.nan, blind)  # where nothing is of like length, nothing is compared
        rows = [self.by_response(values) for values in (self.within, self.matched, blind, self.matched - blind)]
        found = [mean(row, (weight * counted)[:, None], axis=0) for row in rows]
        steps = [
            response
            for response, times in zip(self.responses, (weight * counted).astype(int), strict=True)
            for _ in range(times)
            if response.wrong.any()
        ]
        return np.vstack([*found, partial(steps)])

    def by_response(self, values: Floats) -> Floats:
        """Return (N, scores) means over the wrong steps of each solution."""
        known = np.isfinite(values)
        total, count = np.zeros((2, len(self.responses), values.shape[1]))
        np.add.at(total, self.owner, np.where(known, values, 0))
        np.add.at(count, self.owner, known)
        return ratio_of(total, count)


def mean(values: Floats, weight: Floats, axis: int) -> Floats:
    """Return the weighted mean over an axis of what is known."""
    known = np.isfinite(values)
    return ratio_of((np.where(known, values, 0) * weight).sum(axis=axis), (known * weight).sum(axis=axis))


def ratio_of(total: Floats, count: Floats) -> Floats:
    """Return totals by counts, NaN where there are none."""
    found: Floats = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return found


def partial(responses: list[Response]) -> Floats:
    """Return (scores,) Spearman correlation with being wrong, given length and the number of steps before."""
    doubt = np.vstack([response.doubt for response in responses])
    wrong = np.concatenate([response.wrong for response in responses]).astype(float)
    place = np.concatenate([np.arange(len(response.length)) for response in responses])
    length = np.concatenate([response.length for response in responses])
    given = np.column_stack([np.ones(len(wrong)), ranks(length), ranks(place)])
    basis = np.linalg.qr(given)[0]
    left = np.column_stack([ranks(column) for column in doubt.T] + [wrong])
    left = left - basis @ (basis.T @ left)
    sizes = np.linalg.norm(left, axis=0)
    scores, target = left[:, :-1], left[:, -1]
    found: Floats = scores.T @ target / np.maximum(sizes[:-1] * sizes[-1], 1e-9)
    return found


def ranks(values: Floats) -> Floats:
    """Return mean ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    found: Floats = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return found


def study(pairs: Pairs, half: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Return (5, scores) figures of one half and (2, 5, scores) the ends of their intervals."""
    of_problem = np.array([response.problem for response in pairs.responses])
    problems, number = np.unique(of_problem, return_inverse=True)
    counted = np.array([zlib.crc32(problem.encode()) % 2 == half for problem in problems])[number]
    resampled = []
    for _ in range(RESAMPLES):
        times = np.bincount(generator.integers(0, len(problems), len(problems)), minlength=len(problems))
        resampled.append(pairs.figures(times[number].astype(float), counted))
    judged = [
        response for response, here in zip(pairs.responses, counted, strict=True) if here and response.wrong.any()
    ]
    steps = sum(len(response.length) for response in judged)
    print(f"half {half + 1}: {len(judged)} wrong solutions with {steps} steps", file=sys.stderr)
    return pairs.figures(np.ones(len(number)), counted), np.nanquantile(resampled, [0.025, 0.975], axis=0)


def main() -> None:
    responses = [response for response in read(*sys.argv[1:]) if not response.wrong.all()]
    pairs = Pairs(responses)
    generator = np.random.default_rng(0)
    (first, _), (second, ends) = (study(pairs, half, generator) for half in (0, 1))
    print("| score | first half: beyond | within | matched | placebo | beyond | partial |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for column in np.argsort(-first[3], kind="stable"):
        cells = [f"{100 * first[3, column]:.1f}"]
        for row in range(5):
            low, high = 100 * ends[:, row, column]
            cells.append(f"{100 * second[row, column]:.1f}" + (f" [{low:.1f}, {high:.1f}]" if row != 2 else ""))
        print(f"| `{NAMES[column]}` | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
