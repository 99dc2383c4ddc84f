"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from tokur_cli.commands.baselines.baselines import check_baseline_options
from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.score.pipeline import Scoring
from tokur_cli.commands.score.sharing import Helper, Note, Team
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import load
from tokur_cli.commands.shared.posterior import check_posterior_options
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import peek, read_input
from tokur_cli.engine.processes import own_device_map, this_process
from tokur_cli.records.writer import open_output
from tokur_cli.scores.catalogue import choose_scores

COMMAND = "score"


def score(
    source: InputOptions,
    model: ModelOptions,
    prompts: PromptOptions,
    scoring: ScoringOptions,
    baselines: BaselineOptions,
    target: ResumableOutput,
) -> None:
    """Score a stream of responses.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    choose_scores(scoring.scores)  # a misspelt name is reported before a model is loaded
    check_baseline_options(baselines)
    process = this_process()
    model = replace(model, device_map=own_device_map(process, model.device_map))

    def load_pipeline(form: PromptForm, name: str | None, progress: Progress, note: Note | None = None) -> Scoring:
        return Scoring(COMMAND, scoring, baselines, form, load(model, name, progress), progress, note)

    if process.rank > 0:
        helper = Helper(COMMAND, process)
        helper.run(lambda name, note: load_pipeline(PromptForm(prompts), name, Progress(COMMAND), note))
    with Team(COMMAND, process) if process.size > 1 else nullcontext() as team:
        model_of_posterior = check_posterior_options(scoring.posterior)
        form = PromptForm(prompts)
        items, named = peek(read_input(source))
        name = model_of_posterior or named
        invalid = InvalidRecords(COMMAND, source.skip_invalid)
        with Progress(COMMAND) as progress:
            if team:
                run = team.begin(lambda name, note: load_pipeline(form, name, progress, note), name)
            else:
                run = load_pipeline(form, name, progress)
            with open_output(
                target.path,
                force=target.force,
                resume=target.resume,
                settings=run.settings,
                settings_of=run.settings_of,
            ) as writer:
                progress.start(count_lines(source.path))
                if team:
                    team.run(run, items, writer.write_line, invalid, writer.already_written)
                else:
                    run.run(items, writer.write, invalid, writer.already_written)
                writer.finish()
        invalid.finish()
