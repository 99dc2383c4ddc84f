"""Which of the letters that a statement names it takes: "nicht B, sondern C", BではなくC."""

from __future__ import annotations

from tokur_cli.answers.reading.lexicon import LETTER_OF_CHOICE, REJECTED_BEFORE, REJECTED_BEHIND


def told_apart(lead: str, sentence: str) -> str | None:
    """Return the one letter of a statement that it does not reject, None where it leaves several.

    Args:
        lead: what announces the statement, and may deny what follows.
        sentence: the statement, with two letters or more.
    """
    found = list(LETTER_OF_CHOICE.finditer(sentence))
    kept = {
        next(filter(None, match.groups()))
        for match in found
        if not REJECTED_BEFORE.search((lead + sentence[: match.start()])[-80:])
        and not REJECTED_BEHIND.match(sentence[match.end() : match.end() + 80])
    }
    return kept.pop() if len(kept) == 1 and len(found) > 1 else None
