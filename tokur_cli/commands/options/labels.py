"""How responses get their labels: options of every command that says what is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from typer import Option


@dataclass(frozen=True)
class LabelOptions:
    """Where labels and answers are from, and what may be run for them."""

    panel: ClassVar[str] = "Input"

    label_field: Annotated[
        str | None,
        Option(
            metavar="FIELD",
            help="Field of the label (dots reach inward). It holds true, false or a number from 0 to 1, or what a "
            "scorer of Inspect writes (scores.includes.value); with evaluate --level step the list of claims.",
        ),
    ] = None
    answer: Annotated[
        str | None,
        Option(
            metavar="REGEX",
            help="Regular expression that reads a response's answer, in place of tokur's own reading. The answer is "
            "the first group of the last match, the whole match if it has no group; no match is no answer. A "
            "response on which it takes more than 5 s (nested repeats such as (a+)+$ may) is a bad record.",
        ),
    ] = None
    allow_code_execution: Annotated[
        bool,
        Option(
            "--allow-code-execution",
            help="Run the code in responses to HumanEval rows against the tests of the row, in bubblewrap (Linux): "
            "with limits on time and memory, and without your files, other processes or the network. Code that is "
            "written to cheat can still report a pass.",
        ),
    ] = False
    unsafe_code_execution: Annotated[
        bool,
        Option(
            "--unsafe-code-execution",
            help="The same without bubblewrap: the code can do whatever you can. Also allows those rules of Reasoning "
            "Gym that may run an answer as code.",
        ),
    ] = False

    def __post_init__(self) -> None:
        _ = self.pattern

    @property
    def pattern(self) -> Any:
        """What reads the answer; None for tokur's own reading."""
        if self.answer is None:
            return None
        from tokur_cli.answers.grading import answer_pattern  # with all that reads answers

        return answer_pattern(self.answer, "--answer")

    @property
    def runs_code(self) -> bool:
        """Whether code in responses may be run."""
        return self.allow_code_execution or self.unsafe_code_execution
