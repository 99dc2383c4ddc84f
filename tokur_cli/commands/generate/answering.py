"""A model that answers requests and, where that is asked for, scores what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tokur_cli import __version__
from tokur_cli.commands.generate.settling import UntilSettled
from tokur_cli.commands.options.model import DecodingOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.pipeline import RecordScorer
from tokur_cli.commands.score.records import ScoringTask
from tokur_cli.commands.session.session import Session
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.particles import Guide, ParticleFilter, Resampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.records.record import DRAW_SETTINGS
from tokur_cli.scores.steps import GuideScore


class Answering:
    """Answers requests, guided while responses grow or until votes are settled, and scores records."""

    def __init__(self, session: Session, decoding: DecodingOptions, scoring: ScoringOptions, *, score: bool) -> None:
        self.session = session
        self.settings: dict[str, Any] = {**session.description.identity, "version": __version__}
        self._scorer: RecordScorer | None = None
        share = 1 / (1 + score)  # an engine of vLLM's either generates or gives hidden states
        # A model that cannot generate is refused first
        is_vllm = decoding.engine.backend == "vllm"
        decoder = session.vllm_decoder(decoding, share) if is_vllm else session.decoder(decoding)
        guidance = decoding.guidance
        guide = GuideScore(str(guidance.guide), guidance.guide_over) if guidance else None
        if score or guide:
            wanted = scoring if score else replace(scoring, scores="ll")
            guided_by = {guide.quantity.name} if guide else set()
            self._scorer = RecordScorer(session, wanted, guided_by=guided_by, share=share)
        if self._scorer and score:  # prompts are made here, and responses come to be scored with their ids
            self.settings = {name: value for name, value in self._scorer.settings.items() if name != "prompts"}
        self._decoder: Decoder | VllmDecoder | ParticleFilter | UntilSettled = decoder
        if self._scorer and guidance and guide:
            assert isinstance(decoder, Decoder)
            resampling = Resampling(guidance.temperature, guidance.resample)
            judge = Guide(guide, guide.quantity.sign, resampling, of_step=guidance.guide_over == "step")
            self._decoder = ParticleFilter(decoder, self._scorer.scorer, judge)
            self.settings["posterior"] = {name: self._scorer.run_settings[name] for name in DRAW_SETTINGS}
        elif decoding.stop_at is not None:
            self._decoder = UntilSettled(decoder, decoding.stop_at)

    def process(self, task: Iterable[DecodingRequest | None] | ScoringTask) -> Iterator[Any]:
        """Yield responses as they end, or what scoring yields."""
        if isinstance(task, ScoringTask):
            assert self._scorer is not None
            return self._scorer.process(task)
        return self._decoder.serve(task)
