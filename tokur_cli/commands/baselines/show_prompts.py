"""``--show-prompts``: what the chosen scores would ask the model."""

from __future__ import annotations

from tokur_cli.commands.baselines.questions import (
    as_prompt,
    judge_question,
    p_true_question,
    question_of,
    verification_question,
)
from tokur_cli.commands.baselines.text_sets import SET_FEATURES
from tokur_cli.commands.options.model import ModelOptions
from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.model import describe
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.reading import peek, read_input
from tokur_cli.engine.tokens import ResponseTokenizer
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import choose_scores
from tokur_cli.views.visible import paragraphs


def show_prompts(source: InputOptions, model: ModelOptions, scores: str | None, options: BaselineOptions) -> None:
    """Print what the chosen scores would ask about the first response; of the model only its tokenizer is loaded.

    Raises:
        UsageError: the chosen scores ask nothing.
        TokurError: the first record is bad, or the model cannot be had.
    """
    needs = {need for score in choose_scores(scores) for need in score.needs}
    asked = [
        name
        for name, needed in {
            "p_true": "p_true" in needs,
            "verification": bool(needs & set(SET_FEATURES)) and options.over == "attempts",
            "judge": "set_classes" in needs and options.entailment == "judge",
        }.items()
        if needed
    ]
    if not asked:
        raise UsageError("--show-prompts: the chosen scores ask the model nothing; name one that does: --scores p_true")
    items, named = peek(read_input(source))
    first = next(items, None)
    if first is None:
        raise UsageError("--show-prompts: the input holds no record")
    if isinstance(first, RecordError):
        raise first
    tokenizer = ResponseTokenizer(describe(model, named, Progress("score")).tokenizer)
    for name in asked:
        prompt, _ = as_prompt(_question(name, first, options, tokenizer), tokenizer)
        print(f"--- {name} ---\n{paragraphs(prompt)}")


def _question(name: str, record: Record, options: BaselineOptions, tokenizer: ResponseTokenizer) -> str:
    if name == "p_true":
        return p_true_question(record, tokenizer)
    verification = verification_question(record, tokenizer)
    if name == "verification":
        return verification
    if options.over == "attempts":
        return judge_question(verification, "(what one attempt said)", "(what another attempt said)")
    return judge_question(question_of(record, tokenizer), record.response, "(another response)")
