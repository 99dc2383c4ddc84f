"""The options of ``tokur select`` alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.marks import Excludes, Needs, Reads, exact_share, share
from tokur_cli.records.errors import UsageError
from tokur_cli.selection.voting import Keep

KEEP = "10%,16"  # what is kept by default: the paper's share, but enough for a vote, see ``selection.voting``


@dataclass(frozen=True)
class SelectOptions:
    """How an answer is chosen, and what is written; ``given``: the names of the options that the user gave."""

    panel: ClassVar[str] = "Selection"

    by: Annotated[
        str,
        Option(
            metavar="SCORE",
            help="Score that ranks the responses. eu_mean is per token, as in the paper; eu is the sum, which favours "
            "short responses.",
        ),
    ] = "eu_mean"
    keep: Annotated[
        str,
        Option(
            metavar="SHARE[,N]",
            help="Share of the most confident responses that votes, rounded up, and how many vote in any case. The "
            "paper's is 10% alone, which of 16 leaves two.",
        ),
    ] = KEEP
    method: Annotated[
        Literal["maj", "wbon", "bon"],
        Option(
            metavar="METHOD",
            help="maj: the answer that most kept responses give; wbon: weighted votes; bon: the single best response. "
            "Plain majority: --keep 100% --method maj.",
        ),
    ] = "maj"
    weight: Annotated[
        Literal["exp", "rank"],
        Option(metavar="HOW", help="Votes of wbon. exp: e^(c - c_best), c the confidence; rank: K, K-1, … 1."),
        Needs("--method=wbon"),
    ] = "exp"
    abstain: Annotated[
        float | None,
        Option(
            parser=share,
            metavar="SHARE",
            help="No answer where the choice is less certain than this, by its p_correct with --by p_correct, else by "
            "its share of the vote.",
        ),
    ] = None
    certificate: Annotated[
        str | None,
        Reads(),
        Option(
            metavar="FILE", help="Withhold answers below the threshold that evaluate --certify found; choose as there."
        ),
        Excludes("--abstain"),
    ] = None
    grouped: Annotated[
        bool,
        Option(
            "--grouped",
            help="The responses to a question stand together: choose as each ends.",
            rich_help_panel="Input",
        ),
    ] = False
    records: Annotated[
        bool, Option("--records", help="Write all responses, with tokur.select.", rich_help_panel="Output")
    ] = False

    given: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.abstain is not None and self.method == "bon" and self.by.lower() != "p_correct":
            raise UsageError("--abstain needs --by p_correct with --method bon: one response has all the vote")

    @property
    def abstains(self) -> bool:
        """Whether there is no answer where the choice is not sure enough."""
        return self.abstain is not None or self.certificate is not None


def parse_keep(text: str) -> Keep:
    """Return what a share stands for, such as ``10%``, or one with a minimum, such as ``10%,16``."""
    portion, comma, number = (each.strip() for each in text.partition(","))
    fraction = exact_share(portion)
    if not fraction:
        raise UsageError(f"--keep {text}: give a share above 0% and up to 100%, such as 10% or 0.1")
    if comma and not (number.isdecimal() and int(number)):
        raise UsageError(
            f"--keep {text}: after the comma goes the number that is kept in any case, such as {portion},16"
        )
    return Keep(fraction, int(number) if comma else 1)
