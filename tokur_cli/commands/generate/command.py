"""``tokur generate``: questions in, N responses each out, as records that ``score`` takes as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tokur_cli.commands.options.model import DecodingOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.score.calibrated import with_calibration
from tokur_cli.commands.shared.arrivals import Pause, as_they_come
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import describe, load, model_name
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import look_ahead, read_input, write_nothing
from tokur_cli.commands.workers.pool import workforce
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import RecordWriter, open_output

if TYPE_CHECKING:
    from tokur_cli.commands.generate.generation import Responding
    from tokur_cli.commands.workers.worker import Note

COMMAND = "generate"


def generate(
    source: InputOptions,
    model: ModelOptions,
    prompts: PromptOptions,
    decoding: DecodingOptions,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    workers: WorkerOptions,
    target: ResumableOutput,
    *,
    score: bool,
) -> None:
    """Generate responses to a stream of questions, and score them in the same run if ``score`` says so.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    scoring, model_of_posterior = check_generation(decoding, scoring, score=score)
    has_groups = score and baselines.over == "samples"
    form = PromptForm(prompts)
    items, first = look_ahead(read_input(COMMAND, source), "prompt", skip_invalid=source.skip_invalid)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    if first is None:  # no model is loaded
        write_nothing(items, invalid, source, target)
        return
    model = replace(model, name=model_name(model, model_of_posterior))
    make = partial(_make_responding, model, decoding, form, scoring, baselines, score)
    # Workers' prompts are made here; besides, the model is fetched and unpacked once, before they all look for it
    found = None if workers.in_process else describe(model, None, Progress(COMMAND))
    with Progress(COMMAND) as progress, workforce(COMMAND, workers, model.device_map, make, progress) as force:
        from tokur_cli.commands.generate.generation import Generation
        from tokur_cli.commands.score.windows import score_records

        generation = Generation(force, found, decoding, form, score=score)
        with open_output(
            target.path,
            force=target.force,
            resume=None if has_groups else target.resume,
            settings=lambda _: {**generation.settings, **force.settings},
            settings_of=generation.settings_of,
            identity=lambda record: (record.passthrough("response"), record.sample),
            computed=("response", "tokur"),
            standard_output=force.standard_output,
        ) as writer:
            lines = count_lines(source.path)
            progress.start(None if lines is None else lines * decoding.samples)
            asked = as_they_come(source.path, items, generation.busy)
            responses = generation.run(asked, invalid.skip, writer.already_written)
            if score:
                for line in score_records(responses, force, scoring, baselines, invalid, progress):
                    writer.write_line(line)
            else:
                _write(responses, writer, invalid, progress)
            writer.finish()
        generation.course.tell(COMMAND)
    invalid.finish()


def check_generation(
    decoding: DecodingOptions, scoring: ScoringOptions, *, score: bool
) -> tuple[ScoringOptions, str | None]:
    """Refuse what can be refused before a model is loaded.

    Returns:
        The options of scoring with what their calibration's file holds, and the model that a kept posterior is of.

    Raises:
        UsageError: a misspelt score, or options that cannot go together.
        TokurError: the kept posterior or the calibration cannot be read.
    """
    check_decoding(decoding)
    model_of_posterior = scoring.posterior.model if score or decoding.guidance else None
    return with_calibration(scoring) if score else scoring, model_of_posterior


def check_decoding(options: DecodingOptions) -> None:
    """Refuse options that cannot go together.

    Raises:
        UsageError: all samples would be the same, or none would have a text.
    """
    if options.temperature == 0 and options.samples > 1:
        raise UsageError(f"-n {options.samples} needs --temperature above 0: at 0 all samples are the same")
    if "" in options.stop:
        raise UsageError('--stop "" ends every response before it begins: give a text')


def _make_responding(
    model: ModelOptions,
    decoding: DecodingOptions,
    form: PromptForm,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    score: bool,
    progress: Progress,
    note: Note,
) -> Responding:
    vllm = decoding.backend == "vllm"
    loaded = describe(model, None, progress) if vllm else load(model, None, progress)
    from tokur_cli.commands.generate.generation import make_responding

    return make_responding(
        loaded,
        decoding,
        form,
        scoring,
        baselines,
        progress,
        note,
        score=score,
        trust_remote_code=model.trust_remote_code,
    )


def _write(
    responses: Iterable[Record | RecordError | Pause], writer: RecordWriter, invalid: InvalidRecords, progress: Progress
) -> None:
    for item in responses:
        if isinstance(item, RecordError):
            invalid.skip_or_raise(item)
        elif isinstance(item, Record):
            writer.write(item)
            progress.advance(1, len(item.token_ids or ()))
