"""Which scores are evaluated, which of them are shown, and which every one is judged against."""

from __future__ import annotations

from collections.abc import Sequence

from tokur_cli.commands.evaluate.questions import SHARE
from tokur_cli.commands.evaluate.reading import Columns, Wanted
from tokur_cli.commands.evaluate.spans import quantity_of, span_scores
from tokur_cli.commands.options.evaluate import EvaluationOptions
from tokur_cli.records.errors import TokurError, UsageError, there_are
from tokur_cli.scores.catalogue import ALL, CATALOGUE, DEFAULT, LENGTH, choose_scores

LIKELIHOOD = "ll_sum"  # what every score is judged against, beside the length, unless --versus names another


def baselines(options: EvaluationOptions) -> tuple[str, ...]:
    """Return the scores that all others are judged against, where records have them: for spans only --versus."""
    if options.level == "response":
        return tuple(dict.fromkeys((options.versus or LIKELIHOOD, LENGTH)))
    default = () if options.level == "step" else (SHARE,)
    return default if options.versus is None else (options.versus,)


def wanted_scores(options: EvaluationOptions) -> Wanted:
    """Return what is kept of records, or of their spans."""
    if options.level == "step":
        scores = span_scores(options.scores)
        if options.versus is not None and options.versus not in scores:
            raise UsageError(f"--versus {options.versus}: there is no such score{there_are(scores, options.versus)}")
        return Wanted(scores, options.group_by, spans=True)
    names = ",".join((options.scores or ALL, *(name for name in baselines(options) if name in CATALOGUE)))
    scores = {score.name: score.orientation for score in choose_scores(names)}
    return Wanted(scores, options.group_by, answers=bool(options.sizes) or options.level == "question")


def shown_scores(runs: Sequence[Columns], options: EvaluationOptions) -> tuple[list[str], str | None]:
    """Return the scores to show, in the order of the catalogue, and what to say of those that are left out.

    All that are asked for are shown. By default these are, of the scores that are made of one quantity of tokens, the
    one that tokens are compared by, and all scores that are made of something else; with ``--scaling`` all there are,
    since votes go by means over tokens as well as by sums.
    """
    having = {name for run in runs for name, values in run.scores.items() if any(value == value for value in values)}
    if options.versus is not None and options.versus not in having:
        raise TokurError(f"--versus {options.versus}: no record has this score")
    names = [name for name in runs[0].scores if name in having]
    asked = {name.strip().lower() for name in (options.scores or "").split(",")} - {ALL, DEFAULT, ""}
    if options.level == "step":
        known = {*having, *map(quantity_of, having)}  # a quantity stands for all that is computed of it
        _refuse_unscored(sorted(asked - known))
        return names, None
    if options.scores is None:
        spoken_for = [name for name in names if name != SHARE and CATALOGUE[name].representative in having - {name}]
        aside = [] if options.sizes else [name for name in spoken_for if name != options.versus]
        note = f"not shown without --scores all: {', '.join(aside)}, made of the same numbers as a score that is shown"
        return [name for name in names if name not in aside], note if aside else None
    chosen = {score.name for score in choose_scores(options.scores)}
    _refuse_unscored(sorted(asked - having))
    hidden = set(baselines(options)) - chosen - {options.versus, SHARE}
    return [name for name in names if name not in hidden], None


def _refuse_unscored(missing: Sequence[str]) -> None:
    """Refuse scores that were asked for and no record has."""
    if missing:
        names = ",".join(missing)
        raise TokurError(f"no record has {names}: score again with tokur score --scores default,{names}")
