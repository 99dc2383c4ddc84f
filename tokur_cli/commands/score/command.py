"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, OutputOptions
from tokur_cli.commands.shared.arrivals import as_they_come
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.kept_posterior import check_posterior_options
from tokur_cli.commands.shared.model import load
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import look_ahead, model_named, read_input
from tokur_cli.engine.processes import own_device_map, this_process
from tokur_cli.records.writer import open_output
from tokur_cli.scores.catalogue import choose_scores

if TYPE_CHECKING:
    from tokur_cli.commands.score.pipeline import Scoring
    from tokur_cli.commands.score.sharing import Note

COMMAND = "score"


def score(
    source: InputOptions,
    model: ModelOptions,
    prompts: PromptOptions,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    target: OutputOptions,
) -> None:
    """Score a stream of responses.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    choose_scores(scoring.scores)  # a misspelt name is reported before a model is loaded
    process = this_process()
    model = replace(model, device_map=own_device_map(process, model.device_map))

    def load_pipeline(form: PromptForm, name: str | None, progress: Progress, note: Note | None = None) -> Scoring:
        language_model = load(model, name, progress)
        from tokur_cli.commands.score.pipeline import Scoring

        return Scoring(COMMAND, scoring, baselines, form, language_model, progress, note)

    if process.size > 1:
        from tokur_cli.commands.score.sharing import Helper, Team
    if process.rank > 0:
        helper = Helper(COMMAND, process)
        helper.run(lambda name, note: load_pipeline(PromptForm(prompts), name, Progress(COMMAND), note))
    with Team(COMMAND, process) if process.size > 1 else nullcontext() as team:
        model_of_posterior = check_posterior_options(scoring.posterior)
        form = PromptForm(prompts)
        items, first = look_ahead(read_input(source), "prompt", "response", skip_invalid=source.skip_invalid)
        invalid = InvalidRecords(COMMAND, source.skip_invalid)
        with Progress(COMMAND) as progress:
            run: Scoring | None = None  # without a good record in the input, no model is loaded
            if first is not None:
                name = model_of_posterior or model_named(first)
                if team:
                    run = team.begin(lambda name, note: load_pipeline(form, name, progress, note), name)
                else:
                    run = load_pipeline(form, name, progress)
            with open_output(
                target.path,
                resume=target.resume,
                settings=run.settings if run else None,
                settings_of=run.settings_of if run else None,
                inputs=[source.path],
            ) as writer:
                progress.start(count_lines(source.path))
                if run is None:
                    invalid.skip_all(items)
                elif team:
                    team.run(run, as_they_come(source.path, items), writer.write_line, invalid, writer.already_written)
                else:
                    run.run(as_they_come(source.path, items), writer.write, invalid, writer.already_written)
                writer.finish()
        invalid.finish()
