"""``tokur generate``: questions in, N responses each out, as records that ``score`` takes as they are."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from tokur_cli.commands.options.model import DecodingOptions, ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.shared.arrivals import Pause, as_they_come
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.kept_posterior import check_posterior_options
from tokur_cli.commands.shared.model import describe, load
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.commands.workers.pool import InProcess
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.catalogue import choose_scores

if TYPE_CHECKING:
    from tokur_cli.commands.generation import Generation

COMMAND = "generate"


def generate(
    source: InputOptions,
    model: ModelOptions,
    prompts: PromptOptions,
    decoding: DecodingOptions,
    scoring: ScoringOptions | None,
    baselines: BaselineOptions,
    target: ResumableOutput,
) -> None:
    """Generate responses to a stream of questions, and score them too if ``scoring`` is given.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    if decoding.temperature == 0 and decoding.samples > 1:
        raise UsageError(f"-n {decoding.samples} needs --temperature above 0: at 0 all samples are the same")
    if "" in decoding.stop:
        raise UsageError('--stop "" ends every response before it begins: give a text')
    if scoring and decoding.backend == "vllm":
        raise UsageError("--score needs the weights at hand, which vLLM keeps to itself: pipe into tokur score")
    model_of_posterior = check_posterior_options(scoring.posterior) if scoring else None
    if scoring:
        choose_scores(scoring.scores)
    if scoring and baselines.over == "samples" and target.resume:
        raise UsageError(
            "--over samples compares all samples of a question, --resume generates only those that are missing: leave "
            "--score out and pipe the finished file into tokur score"
        )
    form = PromptForm(prompts)
    items, first = look_ahead(read_input(source), "prompt", skip_invalid=source.skip_invalid)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    with Progress(COMMAND) as progress:
        generation: Generation | None = None  # without a good record in the input, no model is loaded
        scorer: InProcess | None = None
        if first is not None and decoding.backend == "vllm":
            description = describe(model, None, progress)
            from tokur_cli.commands.generation import Generation, with_vllm

            trusted = model.trust_remote_code
            backend = with_vllm(description, decoding, trust_remote_code=trusted, tell=partial(say, COMMAND))
            generation = Generation(backend, decoding, prompts, form)
        elif first is not None:
            language_model = load(model, model_of_posterior, progress)
            from tokur_cli.commands.generation import Generation, with_transformers
            from tokur_cli.commands.score.pipeline import Scoring
            from tokur_cli.commands.score.windows import score_records

            generation = Generation(with_transformers(language_model, decoding), decoding, prompts, form)
            note = partial(say, COMMAND)
            scorer = InProcess(Scoring(scoring, baselines, form, language_model, progress, note)) if scoring else None
        with open_output(
            target.path,
            force=target.force,
            resume=target.resume,
            settings={**generation.settings, **(scorer.settings if scorer else {})} if generation else None,
            settings_of=generation.settings_of if generation else None,
            identity=lambda record: (record.passthrough("response"), record.sample),
        ) as writer:
            lines = count_lines(source.path)
            progress.start(None if lines is None else lines * decoding.samples)
            if generation is None:
                invalid.skip_all(items)
            else:
                asked = as_they_come(source.path, items, generation.busy)
                responses = generation.run(asked, writer, invalid.skip)
                if scorer and scoring:
                    score_records(responses, scorer, scoring, baselines, writer.write_line, invalid, progress)
                else:
                    _write(responses, writer, invalid, progress)
            writer.finish()
    invalid.finish()


def _write(
    responses: Iterable[Record | RecordError | Pause], writer: RecordWriter, invalid: InvalidRecords, progress: Progress
) -> None:
    for item in responses:
        if isinstance(item, RecordError):
            invalid.skip_or_raise(item)
        elif isinstance(item, Record):
            writer.write(item)
            progress.advance(1, len(item.token_ids or ()))
