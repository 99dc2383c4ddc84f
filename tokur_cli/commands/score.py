"""``tokur score``: responses in, token-level and response-level uncertainty out."""

from __future__ import annotations

from tokur_cli.commands.arguments import (
    BaselineOptions,
    InputOptions,
    ModelOptions,
    OutputOptions,
    PromptOptions,
    ScoringOptions,
)
from tokur_cli.commands.baselines import check_baseline_options
from tokur_cli.commands.model import load
from tokur_cli.commands.peeking import peek, read_input
from tokur_cli.commands.posterior import check_posterior_options
from tokur_cli.commands.progress import Progress, count_lines
from tokur_cli.commands.prompts import PromptForm
from tokur_cli.commands.reporting import Invalid
from tokur_cli.commands.scoring import Scoring
from tokur_cli.records.writer import open_output
from tokur_cli.scores.catalogue import choose_scores

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
    choose_scores(scoring.scores)  # a misspelt one is said before a model is loaded
    check_baseline_options(baselines)
    model_of_posterior = check_posterior_options(scoring.posterior)
    form = PromptForm(prompts)
    items, named = peek(read_input(source))
    with Progress(COMMAND) as progress:
        run = Scoring(COMMAND, scoring, baselines, form, load(model, model_of_posterior or named, progress), progress)
        invalid = Invalid(COMMAND, source.skip_invalid)
        with open_output(
            target.path,
            resume=target.resume,
            settings=run.settings,
            settings_of=run.settings_of,
            inputs=[source.path],
        ) as writer:
            progress.start(count_lines(source.path))
            run.run(items, writer.write, invalid, writer.already_written)
            writer.finish()
    invalid.finish()
