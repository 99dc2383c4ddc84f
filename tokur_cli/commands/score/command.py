"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.score.calibrated import with_calibration
from tokur_cli.commands.shared.arrivals import as_they_come
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import chosen, describe, load
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import look_ahead, model_named, read_input, write_nothing
from tokur_cli.commands.workers.pool import workforce
from tokur_cli.records.writer import open_output

if TYPE_CHECKING:
    from tokur_cli.commands.score.pipeline import Scoring
    from tokur_cli.commands.workers.worker import Note

COMMAND = "score"


def score(
    source: InputOptions,
    model: ModelOptions,
    prompts: PromptOptions,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    workers: WorkerOptions,
    target: ResumableOutput,
) -> None:
    """Score a stream of responses.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    scoring, model_of_posterior = check_scoring(scoring)
    form = PromptForm(prompts)  # as are a template and examples that cannot be read
    items, first = look_ahead(read_input(COMMAND, source), "prompt", "response", skip_invalid=source.skip_invalid)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    if first is None:  # no model is loaded
        write_nothing(items, invalid, source, target)
        return
    model = chosen(replace(model, name=model.name or model_of_posterior), model_named(first))
    make = partial(_make_scoring, model, form, scoring, baselines)
    if not workers.in_process and workers.address is None:
        describe(model, None, Progress(COMMAND))  # it is fetched and unpacked once, before they all look for it
    with Progress(COMMAND) as progress, workforce(COMMAND, workers, model.device_map, make, progress) as force:
        from tokur_cli.commands.score.pipeline import Scoring
        from tokur_cli.commands.score.windows import score_records

        with open_output(
            target.path,
            force=target.force,
            resume=target.resume,
            settings=partial(Scoring.settings_for, force.settings),
            settings_of=Scoring.settings_of,
            standard_output=force.standard_output,
        ) as writer:
            progress.start(count_lines(source.path))
            arriving = as_they_come(source.path, items)
            scored = score_records(arriving, force, scoring, baselines, invalid, progress, writer.already_written)
            for line in scored:
                writer.write_line(line)
            writer.finish()
    invalid.finish()


def check_scoring(options: ScoringOptions) -> tuple[ScoringOptions, str | None]:
    """Refuse what can be refused before a model is loaded.

    Returns:
        The options with what their calibration's file holds, and the model that a kept posterior is of.

    Raises:
        UsageError: a misspelt score, or options that cannot go together.
        TokurError: the kept posterior or the calibration cannot be read.
    """
    model_of_posterior = options.posterior.model
    return with_calibration(options), model_of_posterior


def _make_scoring(
    model: ModelOptions,
    form: PromptForm,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    progress: Progress,
    note: Note,
) -> Scoring:
    language_model = load(model, None, progress)
    from tokur_cli.commands.score.pipeline import Scoring

    return Scoring(scoring, baselines, form, language_model, progress, note)
