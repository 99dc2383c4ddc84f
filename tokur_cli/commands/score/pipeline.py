"""Records of a window through tokenizer and scorer and back in their order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from tokur_cli import __version__
from tokur_cli.commands.baselines.baselines import Baselines
from tokur_cli.commands.baselines.features import ScoredResponse
from tokur_cli.commands.baselines.samples import until_error
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.score.alternatives import kept_alternatives
from tokur_cli.commands.score.records import (
    ScoredLine,
    ScoringTask,
    earlier_scores,
    has_prompt_ids,
    settings_to_write,
    unscored,
)
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.digests import with_model_digests
from tokur_cli.commands.shared.prompts import is_of, refuse_other_model, with_ids_of
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.model.load import LanguageModel
from tokur_cli.engine.posterior.settings import settings_of_draws
from tokur_cli.engine.scoring.quantities import ALTERNATIVES
from tokur_cli.engine.scoring.scorer import Quantities
from tokur_cli.engine.text.tokens import LocatedResponse
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats.base import response_lists
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import compute_scores
from tokur_cli.scores.quantities import OF_DRAWS, ON_DEMAND
from tokur_cli.scores.steps import describe_steps


class RecordScorer:
    """Scores records under one model with one set of draws.

    Args:
        session: the model, and how records become its tokens.
        options: the posterior, what is computed, and how scores that take more are.
        guided_by: the per-token quantities that guided the generation of what is scored. If there are any, records come
            with their quantities, under ``tokur.tokens``.
        share: see ``Session.token_scorer``.
        of_records: whether the model is the one that the records name, so that none may name another.
    """

    def __init__(
        self,
        session: Session,
        options: ScoringOptions,
        *,
        guided_by: Collection[str] = (),
        share: float = 1.0,
        of_records: bool = False,
    ) -> None:
        self.session, self.model_name, self.of_records = session, session.model.name, of_records
        self.options, self.scores = options, options.chosen
        needs = options.needs
        self.guided = bool(guided_by)
        draws = None
        if {*needs, *guided_by}.isdisjoint(OF_DRAWS):
            session.model.probe.check_scoring(None)
        else:
            draws = session.draws(options.posterior)
        self.scorer = session.token_scorer(
            options.engine,
            draws,
            share,
            sampling=options.sampling,
            estimator=options.estimator,
            on_demand=ON_DEMAND & {*needs, *guided_by},
            alternatives=options.alternatives or 0,
        )
        self.baselines = Baselines(session, options)
        own = _run_settings(options, session.model, draws)
        self.run_settings = with_model_digests(own | self.baselines.settings)
        of_draws = frozenset() if draws else options.posterior.given - {"folder", "seed"}
        if unused := of_draws | options.baselines.given - self.baselines.settings.keys():
            session.progress.note(f"none of the scores uses what was given as {', '.join(sorted(unused))}")
        self.prompts = session.form.settings(session.tokenizer)
        if options.fitted is not None:
            options.fitted.check(self.run_settings, str(options.calibration))
            self.run_settings["calibration"] = options.fitted.digest

    @property
    def settings(self) -> dict[str, Any]:
        """What a record written by this run can be told by, in the form of ``settings_of``."""
        return settings_to_write({**self.run_settings, "prompts": self.prompts}, self.scores, self.options)

    def process(self, task: ScoringTask) -> Iterator[ScoredLine | RecordError]:
        """Yield what became of each wanted record, in order.

        Where bad ones are not skipped, the first is the last.
        """
        window, wanted, skip_invalid = task
        tokenized: list[LocatedResponse | RecordError] = []
        for item in window:
            tokenized.append(item if isinstance(item, RecordError) else self._tokenize(item))
            if isinstance(tokenized[-1], RecordError) and not skip_invalid:
                break
        # Features of several records are gathered in one batch: its content must not depend on what is written already
        gathers = bool(self.baselines.gatherers)
        outcomes = self._outcomes(window, tokenized, [True] * len(window) if gathers else wanted)
        for place, outcome in self._with_features(outcomes, skip_invalid) if gathers else outcomes:
            if not wanted[place]:
                continue
            if isinstance(outcome, RecordError):
                yield outcome
                continue
            self._add_results(outcome)
            tu, entropy = (float(np.sum(outcome.quantities.get(name, np.nan))) for name in ("tu", "entropy"))
            yield ScoredLine(outcome.record.encode(), len(outcome.located.offsets), tu, entropy)

    def _with_features(
        self, outcomes: Iterable[tuple[int, ScoredResponse | RecordError]], skip_invalid: bool
    ) -> Iterator[tuple[int, ScoredResponse | RecordError]]:
        """Yield a window's outcomes with the features beyond the scoring's own."""
        window = list(outcomes)
        complete = iter(self.baselines.complete([item for _, item in window if isinstance(item, ScoredResponse)]))
        window = [(place, next(complete) if isinstance(item, ScoredResponse) else item) for place, item in window]
        yield from until_error(window) if self.baselines.over_samples and not skip_invalid else window

    def _tokenize(self, record: Record) -> LocatedResponse | RecordError:
        session, name, note = self.session, self.model_name, self.session.progress.note
        try:
            if self.of_records:
                refuse_other_model(record, name)
            elif not is_of(record, name):
                other = record.tokur.get("model")
                note(f"responses of {other} are scored by {name}: their text is tokenized again")
            for remark in session.form.remarks(with_ids_of(record, name), session.tokenizer):
                note(remark)
            for field, listed in response_lists({} if "generation" in record.tokur else record.fields).items():
                if len(listed) > 1:  # one is the response itself
                    note(f'the list "{field}" beside a "response" is left out: --response-field {field} reads it')
            located = session.tokenize(record)
            is_written_by_it = record.tokur.get("model") is not None or record.token_strings is not None
            if not located.exact and is_written_by_it and is_of(record, name):
                note("some responses are tokenized again, perhaps not into the tokens that the model wrote")
            if located.without_thought:
                note("some responses lack the thought that their prompt opens: scored after an empty one")
            return located
        except RecordError as error:
            return error

    def _outcomes(
        self, window: list[Record | RecordError], tokenized: list[LocatedResponse | RecordError], wanted: list[bool]
    ) -> Iterator[tuple[int, ScoredResponse | RecordError]]:
        """Yield the wanted places' results in their order, each as soon as those before it are there."""
        located = {place: item for place, item in enumerate(tokenized) if isinstance(item, LocatedResponse)}
        places = list(located)
        arrivals: Iterator[tuple[int, Any]]
        if self.guided:
            came = [record for record in (window[place] for place in places) if isinstance(record, Record)]
            arrivals = enumerate(record.tokur.get("tokens") for record in came)
        else:
            responses = [item.tokens for item in located.values()]
            arrivals = iter(self.scorer.score(responses, [wanted[place] for place in places]))
        waiting: dict[int, Quantities | TokurError] = {}
        for place, item in enumerate(tokenized):
            if not wanted[place]:
                continue
            if isinstance(item, RecordError):
                yield place, item
                continue
            while place not in waiting:
                index, found = next(arrivals)
                waiting[places[index]] = found
            record, result = window[place], waiting.pop(place)
            assert isinstance(record, Record)
            if isinstance(result, TokurError):
                yield place, record.error(str(result))
            else:
                alternatives = {name: result.pop(name) for name in ALTERNATIVES if name in result}
                yield place, ScoredResponse(record, item, result, alternatives)

    def _add_results(self, response: ScoredResponse) -> None:
        """Put the results under ``tokur``."""
        run, options = self.run_settings, self.options
        if not has_prompt_ids(response.record, self.model_name):
            run = {**run, "prompts": self.prompts}
        earlier = earlier_scores(response.record, run)
        tokur = unscored(response.record)
        if response.located.exact and tokur.pop("token_strings", None):
            tokur["token_ids"] = response.located.tokens.response_ids
        if not options.no_tokens:
            tokur["tokens"] = {"offsets": response.located.offsets, **response.quantities}
        if options.alternatives is not None:
            written, spell = response.located.tokens.response_ids, self.session.tokenizer.spelling.text
            tokur["alternatives"] = kept_alternatives(response.alternatives, written, options.alternatives, spell)
        text, offsets = response.record.response, response.located.offsets
        if options.steps is not None:
            quantities = {name: values.tolist() for name, values in response.quantities.items()}
            tokur |= {"step_by": options.steps, "steps": describe_steps(text, offsets, quantities, options.steps)}
        features = {**response.quantities, **response.features}
        tokur["scores"] = {**earlier, **compute_scores(self.scores, features)}
        tokur["run"] = run
        response.record.set("tokur", tokur)


def _run_settings(options: ScoringOptions, language_model: LanguageModel, draws: Draws | None) -> dict[str, Any]:
    """Return what the numbers depend on; the posterior's settings are null where no draw was made."""
    posterior, count = (draws.posterior, draws.num_draws) if draws else (None, 0)
    of_draws = settings_of_draws(posterior, count, options.sampling, options.estimator)
    why = {"sigma_auto": posterior.why} if posterior and posterior.why else {}
    backend = {} if options.engine.backend == "transformers" else {"backend": options.engine.backend}
    return {**language_model.identity, **backend, **of_draws, **why, "version": __version__}
