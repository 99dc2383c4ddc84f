"""Whether the work is done, or only reckoned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option

from tokur_cli.commands.options import panels
from tokur_cli.commands.options.relations import Excludes


@dataclass(frozen=True)
class DryRunOptions:
    """Whether it is only told what a run would do; ``records`` are done for that, 0 for none."""

    panel: ClassVar[str] = panels.OUTPUT

    records: Annotated[
        int | None,
        Option(
            "--dry-run",
            min=0,
            metavar="[N]",
            help="Before a long run: write no record, but say how many there are, which are bad, how many tokens they "
            "have, and what memory it takes. With a number, do so many records and reckon the time of all.",
        ),
        Excludes(
            "--workers",
            "--cluster",
            why="--dry-run is about one process: leave {others} out (several divide its time among them)",
        ),
    ] = None
