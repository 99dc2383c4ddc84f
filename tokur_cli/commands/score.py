"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from tokur_cli.commands.arguments import InputOptions, ModelOptions, OutputOptions, PromptOptions, ScoringOptions
from tokur_cli.commands.model import load
from tokur_cli.commands.progress import Progress, count_lines
from tokur_cli.commands.prompts import PromptForm
from tokur_cli.commands.reporting import Invalid
from tokur_cli.commands.scoring import Scoring
from tokur_cli.commands.sharing import Helper, Note, Team
from tokur_cli.engine.processes import own_device_map, this_process
from tokur_cli.records.errors import RecordError
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import Record
from tokur_cli.records.writer import open_output
from tokur_cli.scores.catalogue import choose_scores

COMMAND = "score"


def score(
    source: InputOptions, model: ModelOptions, prompts: PromptOptions, scoring: ScoringOptions, target: OutputOptions
) -> None:
    """Score a stream of responses.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    choose_scores(scoring.scores)  # a misspelt one is said before a model is loaded
    process = this_process()
    model = replace(model, device_map=own_device_map(process, model.device_map))

    def prepare(form: PromptForm, named: str | None, progress: Progress, note: Note | None = None) -> Scoring:
        return Scoring(COMMAND, scoring, form, load(model, named, progress), progress, note)

    if process.rank > 0:
        helper = Helper(COMMAND, process)
        helper.run(lambda named, note: prepare(PromptForm(prompts), named, Progress(COMMAND), note))
    with Team(COMMAND, process) if process.size > 1 else nullcontext() as team:
        form = PromptForm(prompts)
        items = read_records(source.path, format=source.format, mapping=source.mapping, requests=source.requests)
        first = list(itertools.islice(items, 1))
        named, records = _named_model(first), itertools.chain(first, items)
        invalid = Invalid(COMMAND, source.skip_invalid)
        with Progress(COMMAND) as progress:
            if team:
                run = team.begin(lambda named, note: prepare(form, named, progress, note), named)
            else:
                run = prepare(form, named, progress)
            with open_output(
                target.path,
                resume=target.resume,
                settings=run.settings,
                settings_of=run.settings_of,
                inputs=[source.path],
            ) as writer:
                progress.start(count_lines(source.path))
                if team:
                    team.run(run, records, writer.write_line, invalid, writer.already_written, progress)
                else:
                    run.run(records, writer.write, invalid, writer.already_written)
                writer.finish()
        invalid.finish()


def _named_model(first: Sequence[Record | RecordError]) -> str | None:
    if not first or isinstance(first[0], RecordError):
        return None
    name = first[0].tokur.get("model")
    return name if isinstance(name, str) else None
