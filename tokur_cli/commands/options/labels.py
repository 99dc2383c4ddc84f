"""How responses get their labels: options of every command that says what is correct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option


@dataclass(frozen=True)
class LabelOptions:
    """Where labels and answers are from, and what may be run for them."""

    panel: ClassVar[str] = "Input"

    label_field: Annotated[
        str | None,
        Option(
            metavar="FIELD",
            help="Field of the label: true, false, a number from 0 to 1, or what a scorer of Inspect writes "
            "(scores.includes.value).",
        ),
    ] = None
    answer: Annotated[
        str | None,
        Option(
            metavar="REGEX",
            help="Reads the answer in place of tokur: the last match's first group, or all of it. More than 5 s is a "
            "bad record.",
        ),
    ] = None
    allow_code_execution: Annotated[
        bool,
        Option(
            "--allow-code-execution",
            help="Run the tests of HumanEval rows in bubblewrap (Linux), without your files or the network. Code that "
            "cheats can still pass.",
        ),
    ] = False
    unsafe_code_execution: Annotated[
        bool,
        Option(
            "--unsafe-code-execution",
            help="The same without bubblewrap: the code can do whatever you can. Allows Reasoning Gym's rules that may "
            "run an answer, too.",
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.answer is not None:
            from tokur_cli.answers.grading import check_pattern  # with all that reads answers

            check_pattern(self.answer)
