"""``tokur select``."""

from __future__ import annotations

from dataclasses import replace

from tokur_cli.app.inputs import ScoredResponses, input_path
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.select import SelectOptions
from tokur_cli.commands.options.streams import InputOptions, RecordOutput


def select(
    *,
    scored: ScoredResponses = None,
    options: SelectOptions,
    labels: LabelOptions,
    target: RecordOutput,
    source: InputOptions,
) -> None:
    """Choose the best of N answers: keep the most confident responses, let them vote.

    Responses of a question have its id, or without ids the same prompt. Equal
    answers (1/2, 0.5) vote together; a missing one never wins while another is there.
    Ties go to the more confident response, then to the lower sample: the order of
    the input changes nothing. A response without the score is never kept where a
    score is needed. Where there are references, accuracies follow on standard
    error: of the choice, Pass@1, plain majority and oracle Pass@N.
    """
    source = replace(source, path=input_path(scored))
    from tokur_cli.commands.select import select as run

    run(source, options, labels, target)
