"""``tokur score --from-logprobs``: scores of the log-probabilities that came with the responses, without a model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import regex

from tokur_cli import __version__
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.score.alternatives import NEARLY_CERTAIN, rounded
from tokur_cli.commands.score.records import settings_of, settings_to_write, unscored
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.records.errors import RecordError, UsageError, count_of
from tokur_cli.records.formats.logprobs import TOKEN_ID, LoggedToken, logged_logprobs
from tokur_cli.records.prompt import THINK_BEGINS, THINK_ENDS
from tokur_cli.records.record import Record
from tokur_cli.records.streams import display_name
from tokur_cli.records.writer import Continuation, open_output
from tokur_cli.scores.catalogue import DEFAULT, Score, choose_scores

COMMAND = "score"
LOGPROBS = "logprobs"  # what ``tokur.run.computed_from`` says of such scores; those of a model have no such field

_REPLACED = "\ufffd"
_MOST_TAGS = 40  # characters of what stands around reasoning
_FEATURES = {"logprob", "deepconf"}
_SECONDS = 5.0  # for a search that takes longer than any log's where the log is of another text
_TOP = 20  # tokens that DeepConf's confidence takes


def score_logged(source: InputOptions, scoring: ScoringOptions, target: ResumableOutput) -> None:
    """Score a stream of responses that come with their log-probabilities."""
    scores = choose_scores(scoring.scores)
    beyond = [score.name for score in scores if not _computable(score)]
    if beyond and scoring.scores not in (None, DEFAULT):
        there = ", ".join(score.name for score in choose_scores(None) if _computable(score))
        raise UsageError(f"--scores {beyond[0]} needs a model; --from-logprobs gives {there}")
    run = {"computed_from": LOGPROBS, "version": __version__}
    settings = settings_to_write(run, scores, scoring)
    resuming = Continuation(lambda _: settings, settings_of)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    with (
        open_output(target.path, force=target.force, resume=target.resume, resuming=resuming) as writer,
        Progress(COMMAND) as progress,
    ):
        progress.start(lambda: count_lines(source.path, limit=source.limit))
        good = incomplete = 0
        for item in invalid.good(read_input(COMMAND, source)):
            progress.advance(1)
            try:
                if not writer.already_written(item):
                    tokens = logged_logprobs(item)
                    writer.write(_scored(item, tokens, scores, run, scoring).encode())
                    incomplete += any(token.logprob is None for token in tokens)
                good += 1
            except RecordError as error:
                invalid.skip_or_raise(error)
    if incomplete:
        say(COMMAND, f"log-probabilities that are not finite, scores of null: {count_of(incomplete, 'response')}")
    invalid.finish(none_of=None if good else display_name(source.path))


def _computable(score: Score) -> bool:
    return set(score.needs) <= _FEATURES


def _scored(
    record: Record, tokens: Sequence[LoggedToken], scores: Sequence[Score], run: dict[str, Any], scoring: ScoringOptions
) -> Record:
    """Return the record with what its log-probabilities tell; NaN, which is written as null, where they do not."""
    response = record.response
    offsets = _offsets(record, response, tokens)
    known = [math.nan if token.logprob is None else token.logprob for token in tokens]
    arrays = {
        "logprob": np.array(known, dtype=np.float64),
        "deepconf": np.array([_confidence(token.likeliest) for token in tokens], dtype=np.float64),
    }
    tokur = unscored(record)
    if not scoring.no_tokens:
        tokur["tokens"] = {"offsets": offsets, **arrays}
    if scoring.alternatives is not None:
        tokur["alternatives"] = {"most": scoring.alternatives, "at": _alternatives(tokens, scoring.alternatives)}
    tokur["scores"] = {score.name: score.compute(arrays) if _computable(score) else None for score in scores}
    tokur["run"] = run
    record.set("tokur", tokur)
    return record


def _confidence(likeliest: Sequence[float]) -> float:
    """Return DeepConf's confidence of a token: −mean of the 20 largest log p, in nats; NaN where fewer are known."""
    return -math.fsum(likeliest[:_TOP]) / _TOP if len(likeliest) >= _TOP else math.nan


def _alternatives(tokens: Sequence[LoggedToken], most: int) -> list[dict[str, Any]]:
    """Return what else might have been written, as ``kept_alternatives`` does, as far as the service told it."""
    kept = []
    for index, token in enumerate(tokens):
        certain = token.likeliest and token.texts[0] == token.text and math.exp(token.likeliest[0]) >= NEARLY_CERTAIN
        if token.likeliest and not certain:
            texts = [text.decode("utf-8", "replace") for text in token.texts[:most]]
            kept.append({"token": index, "text": texts, "p": rounded(map(math.exp, token.likeliest[:most]))})
    return kept


def _offsets(record: Record, response: str, tokens: Sequence[LoggedToken]) -> list[tuple[int, int]]:
    """Return each token's span in the response, in code points; tokens that share a character share its span.

    Text around the response (white space that was stripped, a stop string that was cut off) gets empty spans.
    """
    text, wanted = b"".join(token.text for token in tokens), response.encode("utf-8")
    pieces = _pieces(response, text.decode("utf-8", "replace"), is_whole=text.startswith(wanted))
    if not pieces:
        if all(TOKEN_ID.fullmatch(token.text.decode("utf-8", "replace")) for token in tokens):
            raise record.error("its log-probabilities name tokens by their ids: ask vLLM for them as text")
        if spans := _spans_around_replaced(response, tokens):
            return spans
        raise record.error(
            "its log-probabilities are of another text than its response: was reasoning cut off from it, or a call of "
            "a tool?"
        )

    def place(index: int) -> int:
        piece = next((one for one in reversed(pieces) if one.start <= index), pieces[0])
        return piece.place + min(max(index - piece.start, 0), piece.length)

    begins = np.array([byte & 0xC0 != 0x80 for byte in text], dtype=np.int64)  # where characters begin
    count = np.concatenate([[0], np.cumsum(begins)])  # characters that have begun before each byte
    ends = list(accumulate(len(token.text) for token in tokens))
    spans = []
    for start, end in zip([0, *ends], ends, strict=False):
        within = start < end and not begins[start]  # a character that the token before it began
        spans.append((place(int(count[start]) - within), place(int(count[end]))))
    return spans


class _Piece(NamedTuple):
    """Where characters of the tokens' text, from ``start``, stand in the response, from ``place``."""

    start: int
    place: int
    length: int


def _pieces(response: str, text: str, *, is_whole: bool) -> list[_Piece]:
    """Return the pieces of the tokens' text that a response is made of, in order; none if it is of another text.

    The text is the response with white space around it or, where reasoning came in a field of its own, the reasoning
    and the content, with whatever the model wrote around them, or the content alone.
    """
    first = 0 if is_whole else len(text) - len(text.lstrip())
    if text.startswith(response, first):
        return [_Piece(first, 0, len(response))]
    thought, ends, content = response.removeprefix(THINK_BEGINS).partition(THINK_ENDS)
    if not response.startswith(THINK_BEGINS) or (ends and not content):
        return []
    after = len(response) - len(content)
    begin = text.find(thought)
    answer = text.find(content, begin + len(thought)) if begin >= 0 else -1
    if answer >= 0:
        around = text[:begin] + text[begin + len(thought) : answer]
        pieces = [_Piece(begin - len(THINK_BEGINS), 0, after), _Piece(answer, after, len(content))]
    else:
        answer = text.find(content) if content else -1
        around = text[: max(answer, 0)]
        pieces = [_Piece(answer, after, len(content))]
    return pieces if answer >= 0 and len(around.strip()) <= _MOST_TAGS else []


def _spans_around_replaced(response: str, tokens: Sequence[LoggedToken]) -> list[tuple[int, int]] | None:
    """Return the tokens' spans where the service wrote U+FFFD for each byte of a character; None if it did not.

    Such tokens that follow each other share the span between their neighbours.
    """
    texts = [token.text.decode("utf-8", "replace") for token in tokens]
    runs = [(replaced, list(run)) for replaced, run in groupby(texts, lambda text: _REPLACED in text)]
    sizes = [sum(map(len, run)) for _, run in runs]
    patterns = [
        f"(.{{1,{size}}}?)" if replaced else f"({re.escape(''.join(run))})"
        for (replaced, run), size in zip(runs, sizes, strict=True)
    ]
    found = None
    with suppress(TimeoutError):  # of a text that is another one
        found = regex.fullmatch("".join(patterns), response, regex.DOTALL, timeout=_SECONDS)
    if found is None:
        return None
    spans: list[tuple[int, int]] = []
    for group, (replaced, run) in enumerate(runs, start=1):
        ends = [found.start(group) + size for size in accumulate(map(len, run))]
        spans += [found.span(group)] * len(run) if replaced else pairwise([found.start(group), *ends])
    return spans
