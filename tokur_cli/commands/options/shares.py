"""Options that are shares of a whole: ``10%`` or ``0.1``."""

from __future__ import annotations

from typer import BadParameter

from tokur_cli.records.errors import UsageError
from tokur_cli.selection.voting import parse_share


def share(text: str) -> float:
    """Return a share as a number from 0 to 1, for an option whose ``parser`` this is."""
    try:
        return float(parse_share(str(text), "share"))
    except UsageError as error:
        raise BadParameter(str(error).removeprefix("share ")) from None
