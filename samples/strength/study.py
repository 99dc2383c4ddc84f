"""Score labelled responses under many posteriors of one model: a JSON line a response and posterior.

python samples/strength/study.py MODEL labelled.jsonl > smollm2.jsonl
python samples/strength/study.py MODEL labelled.jsonl --only 'kl=0.03 v_proj' sigma=0.1 >> smollm2.jsonl

A posterior is described by what differs from the defaults: `kl`, the mean KL(p_0 ‖ p_m) of a token on tokur's own text
that its strength is chosen by, or `sigma`; `relative`, the same ‖ΔW‖_F/‖W‖_F in all matrices; targets, sampling, draws.
The strengths of many posteriors are tried with one load of the model.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.model import load
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.engine.loading.cache import cache_folder
from tokur_cli.engine.posterior.calibration import largest_sigma
from tokur_cli.engine.posterior.posterior import Posterior, build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Quantities, SamplingMode, Scorer, TokenizedResponse
from tokur_cli.engine.uncertainty.strength import TEXTS
from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import Record

WHOLE, PART = 400, 200  # responses of the strengths, and of the other posteriors
PLAN: tuple[dict[str, Any], ...] = (
    {"sigma": 0.1},
    *({"kl": kl} for kl in (0.003, 0.01, 0.03, 0.1)),
    {"kl": 0.03, "relative": True},
    {"kl": 0.03, "M": 8, "n": PART},
    *({"kl": 0.03, "sampling": sampling, "n": PART} for sampling in ("shared", "joint")),
    *({"kl": 0.03, "targets": name, "n": PART} for name in ("v_proj", "o_proj", "gate_proj")),
)


class Study:
    """A model, and its labelled responses."""

    def __init__(self, model: str, dtype: str, source: Path) -> None:
        options = ModelOptions(name=model, dtype=dtype)  # type: ignore[arg-type]
        progress = Progress("study")
        self.session = Session(load(options, progress), PromptForm(PromptOptions(template="raw")), progress)
        texts = map(self.session.tokenizer.encode_text, TEXTS)
        self.fixed = [TokenizedResponse(ids[:1], ids[1:]) for ids in texts]
        lines = source.read_bytes().splitlines()[:WHOLE]
        self.records = [json.loads(line) for line in lines]
        self.responses = [self.session.tokenize(Record.parse(line, None, None)).tokens for line in lines]

    def scored(
        self,
        posterior: Posterior,
        responses: Sequence[TokenizedResponse],
        members: int = 2,
        sampling: SamplingMode = "stepwise",
    ) -> list[Quantities]:
        scorer = Scorer(
            self.session.model.model,
            Draws(posterior, members),
            sampling=sampling,
            batch_tokens=self.session.batch_tokens,
            on_demand=("eu_kl", "eu_fisher"),
        )
        results: dict[int, Quantities] = {}
        for index, result in scorer.score(responses):
            if isinstance(result, TokurError):
                raise result
            results[index] = result
        return [results[index] for index in range(len(responses))]

    def posterior(self, plan: dict[str, Any]) -> Posterior:
        settings = PosteriorSettings(targets=plan.get("targets", PosteriorSettings.targets))
        built = build_posterior(self.session.model.model, settings, cache=cache_folder() / "bases")
        if "relative" in plan:
            built = relative(built)
        return replace(built, sigma=plan["sigma"] if "sigma" in plan else self.strength(built, plan["kl"]))

    def strength(self, posterior: Posterior, kl: float) -> float:
        def divergence(sigma: float) -> float:
            found = self.scored(replace(posterior, sigma=float(f"{sigma:.2g}")), self.fixed)
            return float(np.concatenate([quantities["eu_kl"] for quantities in found]).mean(dtype=np.float64))

        return float(f"{largest_sigma(divergence, kl):.2g}")

    def run(self, plan: dict[str, Any]) -> None:
        posterior, count = self.posterior(plan), plan.get("n", WHOLE)
        found = self.scored(posterior, self.responses[:count], plan.get("M", 2), plan.get("sampling", "stepwise"))
        for record, quantities in zip(self.records, found, strict=False):
            sums = {of: float(np.sum(values, dtype=np.float64)) for of, values in quantities.items()}
            known = {"posterior": name(plan), "sigma": posterior.sigma, "id": record["id"]}
            length = len(quantities["logprob"])
            print(json.dumps({**known, "correct": bool(record["correct"]), "length": length, **sums}), flush=True)
        print(f"{name(plan)}: σ = {posterior.sigma:g}", file=sys.stderr)


def name(plan: dict[str, Any]) -> str:
    """Return what a posterior is called: `kl=0.03 v_proj`, `kl=0.03 relative`, `kl=0.03 M=8`."""
    words = {key: f"{key}={value:g}" for key, value in plan.items() if key in ("sigma", "kl", "M")}
    words |= {key: key if value is True else value for key, value in plan.items() if key not in words and key != "n"}
    return " ".join(words.values())


def relative(posterior: Posterior) -> Posterior:
    """Return the posterior with the same expected ‖ΔW‖_F/‖W‖_F in all matrices: each U′ is scaled in place of its σ."""
    sizes = [
        float(matrix.weight().float().norm()) / math.sqrt(matrix.inputs * posterior.rank)
        for matrix in posterior.matrices
    ]
    mean = sum(sizes) / len(sizes)
    scaled = (
        replace(matrix, basis=matrix.basis * (size / mean))
        for matrix, size in zip(posterior.matrices, sizes, strict=True)
    )
    return replace(posterior, matrices=tuple(scaled))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="hub id, folder or GGUF file")
    parser.add_argument("labelled", type=Path, help="responses with labels, as tokur evaluate --graded writes them")
    parser.add_argument("--dtype", default="bfloat16")
    plans = {name(plan): plan for plan in PLAN}
    parser.add_argument("--only", nargs="+", choices=plans, default=list(plans), metavar="NAME", help=", ".join(plans))
    chosen = parser.parse_args()
    study = Study(chosen.model, chosen.dtype, chosen.labelled)
    for called in chosen.only:
        study.run(plans[called])


if __name__ == "__main__":
    main()
