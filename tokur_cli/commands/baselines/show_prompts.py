"""``--show-prompts``: what the chosen scores would ask the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokur_cli.commands.baselines.features import are_of_sets
from tokur_cli.commands.baselines.questions import (
    as_prompt,
    judge_question,
    p_true_question,
    question_of,
    verification_question,
)
from tokur_cli.commands.options.model import ModelOptions
from tokur_cli.commands.options.scoring import BaselineOptions, ScoringOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.score.calibrated import chosen_scores
from tokur_cli.commands.score.command import check_scoring
from tokur_cli.commands.shared.model import chosen, describe
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.reading import look_ahead, model_named, read_input
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming
from tokur_cli.records.record import Record
from tokur_cli.views.visible import paragraphs

if TYPE_CHECKING:
    from tokur_cli.engine.tokens import ResponseTokenizer


def show_prompts(source: InputOptions, model: ModelOptions, scoring: ScoringOptions, options: BaselineOptions) -> None:
    """Print what the chosen scores would ask about the first response; of the model only its tokenizer is loaded.

    Raises:
        UsageError: the chosen scores ask nothing, or options cannot go together.
        TokurError: the first record is bad (unless bad ones are skipped), or the model cannot be had.
    """
    scoring, model_of_posterior = check_scoring(scoring)
    needs = {need for score in chosen_scores(scoring) for need in score.needs}
    asked = [
        name
        for name, needed in {
            "p_true": "p_true" in needs,
            "verification": are_of_sets(needs) and options.over == "attempts",
            "judge": "set_classes" in needs and options.entailment == "judge",
        }.items()
        if needed
    ]
    if not asked:
        raise UsageError("--show-prompts: the chosen scores ask the model nothing; name one that does: --scores p_true")
    _, first = look_ahead(read_input("score", source), "prompt", "response", skip_invalid=source.skip_invalid)
    if first is None:
        raise UsageError("--show-prompts: the input holds no good record")
    model = chosen(replace(model, name=model.name or model_of_posterior), model_named(first))
    description = describe(model, None, Progress("score"))
    from tokur_cli.engine.tokens import ResponseTokenizer

    tokenizer = ResponseTokenizer(description.tokenizer)
    prompts = {name: as_prompt(_question(name, first, options, tokenizer), tokenizer)[0] for name in asked}
    with naming(STANDARD_OUTPUT):
        print(*(f"--- {name} ---\n{paragraphs(prompt)}" for name, prompt in prompts.items()), sep="\n")


def _question(name: str, record: Record, options: BaselineOptions, tokenizer: ResponseTokenizer) -> str:
    if name == "p_true":
        return p_true_question(record, tokenizer)
    verification = verification_question(record, tokenizer)
    if name == "verification":
        return verification
    if options.over == "attempts":
        return judge_question(verification, "(what one attempt said)", "(what another attempt said)")
    return judge_question(question_of(record, tokenizer), record.response, "(another response)")
