"""The options of ``tokur select`` alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.files import Reads
from tokur_cli.commands.options.relations import Excludes, Needs
from tokur_cli.commands.options.shares import share
from tokur_cli.records.errors import UsageError

KEEP = "10%,16"
"""What is kept by default: the paper's share, but enough for a vote, see ``selection.voting``."""


@dataclass(frozen=True)
class SelectOptions:
    """How an answer is chosen, and what is written; ``given``: the names of the options that the user gave."""

    panel: ClassVar[str] = "Selection"

    by: Annotated[
        str,
        Option(
            metavar="SCORE",
            help="Score that ranks the responses. Names mean what they mean in the records: eu_mean is per token, as "
            "in the paper's selection; eu is the sum, which favours short responses.",
        ),
    ] = "eu_mean"
    keep: Annotated[
        str,
        Option(
            metavar="SHARE[,N]",
            help="The share of the most confident responses that votes, rounded up, and the number that does in any "
            "case: with 10%,16 up to 16 responses all vote, and ties go to the more confident. The paper's is 10% "
            "alone, which of 16 leaves two.",
        ),
    ] = KEEP
    method: Annotated[
        Literal["maj", "wbon", "bon"],
        Option(
            help="maj: the answer that most kept responses give; wbon: weighted votes; bon: the single best response. "
            "Plain majority is --keep 100% --method maj and needs no score."
        ),
    ] = "maj"
    weight: Annotated[
        Literal["exp", "rank"],
        Option(
            help="Weights of wbon. exp: e^(c - c_best), c the score, negated where lower is better; rank: K, K-1, … 1."
        ),
        Needs("--method=wbon"),
    ] = "exp"
    abstain: Annotated[
        float | None,
        Option(
            parser=share,
            metavar="SHARE",
            help="No answer where the choice is less certain than this. By p_correct of the chosen response with --by "
            "p_correct, else by the chosen answer's share of the vote.",
        ),
    ] = None
    certificate: Annotated[
        str | None,
        Reads(),
        Option(
            metavar="FILE",
            help="No answer where the chosen response is below the threshold of this certificate, which tokur evaluate "
            "--certify writes. The responses are chosen as the labelled ones were.",
        ),
        Excludes("--abstain"),
    ] = None
    grouped: Annotated[
        bool,
        Option(
            "--grouped",
            help="A question's responses stand together: choose as soon as they end.",
            rich_help_panel="Input",
        ),
    ] = False
    records: Annotated[
        bool,
        Option("--records", help="Write all responses back, with tokur.select.", rich_help_panel="Output"),
    ] = False

    given: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.abstain is not None and self.method == "bon" and self.by != "p_correct":
            raise UsageError("--abstain needs --by p_correct with --method bon: one response has all the vote")

    @property
    def abstains(self) -> bool:
        """Whether there is no answer where the choice is not sure enough."""
        return self.abstain is not None or self.certificate is not None
