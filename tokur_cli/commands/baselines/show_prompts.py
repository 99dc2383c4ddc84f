"""``--show-prompts``: what the chosen scores would ask the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokur_cli.commands.baselines.features import are_of_sets
from tokur_cli.commands.baselines.questions import (
    P_TRUE,
    VERIFICATION,
    as_prompt,
    judge_question,
    question_about,
    question_of,
)
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.score.checked import needs_of
from tokur_cli.commands.score.command import ScoreJob
from tokur_cli.commands.shared.model import describe
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming
from tokur_cli.records.record import Record
from tokur_cli.views.visible import paragraphs

if TYPE_CHECKING:
    from tokur_cli.engine.tokens import ResponseTokenizer


def show_prompts(job: ScoreJob, source: InputOptions) -> None:
    """Print what the chosen scores would ask about the first response; of the model only its tokenizer is loaded."""
    options = job.scoring.baselines
    needs = needs_of(job.scoring)
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
    _, first = look_ahead(read_input(job.command, source), *job.needed, skip_invalid=source.skip_invalid)
    if first is None:
        raise UsageError("--show-prompts: the input holds no good record")
    progress = Progress(job.command)
    tokenizer = job.session(describe(job.choosing_model(first).model, progress), progress).tokenizer
    prompts = {name: as_prompt(_question(name, first, options.over, tokenizer), tokenizer)[0] for name in asked}
    with naming(STANDARD_OUTPUT):
        print(*(f"--- {name} ---\n{paragraphs(prompt)}" for name, prompt in prompts.items()), sep="\n")


def _question(name: str, record: Record, over: str, tokenizer: ResponseTokenizer) -> str:
    if name == "p_true":
        return question_about(record, P_TRUE, tokenizer)
    verification = question_about(record, VERIFICATION, tokenizer)
    if name == "verification":
        return verification
    if over == "attempts":
        return judge_question(verification, "(what one attempt said)", "(what another attempt said)")
    return judge_question(question_of(record, tokenizer), record.response, "(another response)")
