"""``tokur score --from-logprobs``: scores of the log-probabilities that came with the responses, without a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from tokur_cli import __version__
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.score.alternatives import NEARLY_CERTAIN, rounded
from tokur_cli.commands.score.provenance import settings_of
from tokur_cli.commands.session.dry_run import Counting, count_records
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.formats.chat_api import is_token_id
from tokur_cli.records.formats.logprobs import LoggedToken, logged_logprobs
from tokur_cli.records.prompt import THINK_BEGINS, THINK_ENDS
from tokur_cli.records.record import Record
from tokur_cli.records.streams import display_name
from tokur_cli.records.writer import Continuation, open_output
from tokur_cli.scores.catalogue import DEFAULT, Score, choose_scores

COMMAND = "score"
LOGPROBS = "logprobs"
"""What ``tokur.run.computed_from`` says of such scores; those of a model have no such field."""

_REPLACED = "\ufffd"
_MOST_TAGS = 40  # characters of what stands around reasoning
_FEATURES = {"logprob", "deepconf"}
_TOP = 20  # tokens that DeepConf's confidence takes


def score_logged(source: InputOptions, scoring: ScoringOptions, target: ResumableOutput) -> None:
    """Score a stream of responses that come with their log-probabilities."""
    scores = choose_scores(scoring.scores)
    names = [score.name for score in scores]
    beyond = [score.name for score in scores if not _computable(score)]
    if beyond and scoring.scores not in (None, DEFAULT):
        there = ", ".join(score.name for score in choose_scores(None) if _computable(score))
        raise UsageError(f"--scores {beyond[0]} needs a model; --from-logprobs gives {there}")
    run = {"computed_from": LOGPROBS, "version": __version__}
    kept = {"tokens": not scoring.no_tokens, "step_by": None, "alternatives": scoring.alternatives}
    settings = {**run, "scores": names, **kept}
    resuming = Continuation(lambda _: settings, settings_of)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    with (
        open_output(target.path, force=target.force, resume=target.resume, resuming=resuming) as writer,
        Progress(COMMAND) as progress,
    ):
        progress.start(lambda: count_lines(source.path))
        good = incomplete = 0
        for item in read_input(COMMAND, source):
            progress.advance(1)
            try:
                if isinstance(item, RecordError):
                    raise item
                if not writer.already_written(item):
                    tokens = logged_logprobs(item)
                    writer.write(_scored(item, tokens, scores, run, scoring))
                    incomplete += any(token.logprob is None for token in tokens)
                good += 1
            except RecordError as error:
                invalid.skip_or_raise(error)
        writer.finish()
    if incomplete:
        say(COMMAND, f"log-probabilities that are not finite, and scores of null, in {incomplete:,} responses")
    invalid.finish(none_of=None if good else display_name(source.path))


def count_logged(source: InputOptions) -> None:
    """Print what such a run would read: every response's log-probabilities are looked at."""
    counting = Counting({}, lambda record: (0, len(logged_logprobs(record))), lambda lengths: None)
    count_records(source, COMMAND, ("response",), lambda _: counting)


def _computable(score: Score) -> bool:
    return set(score.needs) <= _FEATURES


def _scored(
    record: Record,
    tokens: Sequence[LoggedToken],
    scores: Sequence[Score],
    run: dict[str, Any],
    scoring: ScoringOptions,
) -> Record:
    """Return the record with what its log-probabilities tell; NaN, which is written as null, where they do not."""
    response = record.response
    offsets = _offsets(record, response, tokens)
    known = [math.nan if token.logprob is None else token.logprob for token in tokens]
    arrays = {
        "logprob": np.array(known, dtype=np.float64),
        "deepconf": np.array([_confidence(token.likeliest) for token in tokens], dtype=np.float64),
    }
    tokur = record.unscored
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
    decoded = text.decode("utf-8", "replace")
    space = len(decoded) - len(decoded.lstrip())
    first = 0 if text.startswith(wanted) else space
    if decoded.startswith(response, first):
        place: Callable[[int], int] = lambda index: min(max(index - first, 0), len(response))  # noqa: E731
    elif (aligned := _beside_reasoning(response, decoded)) is not None:
        place = aligned
    else:
        if all(is_token_id(token.text.decode("utf-8", "replace")) for token in tokens):
            raise record.error("its log-probabilities name tokens by their ids: ask vLLM for them as text")
        if spans := _spans_around_replaced(response, tokens):
            return spans
        raise record.error(
            "its log-probabilities are of another text than its response: was reasoning cut off from it, or a call of "
            "a tool?"
        )
    begins = np.array([byte & 0xC0 != 0x80 for byte in text], dtype=np.int64)  # where characters begin
    count = np.concatenate([[0], np.cumsum(begins)])  # characters that have begun before each byte
    ends = list(accumulate(len(token.text) for token in tokens))
    spans = []
    for start, end in zip([0, *ends], ends, strict=False):
        within = start < end and not begins[start]  # a character that the token before it began
        spans.append((place(int(count[start]) - within), place(int(count[end]))))
    return spans


def _beside_reasoning(response: str, text: str) -> Callable[[int], int] | None:
    """Return where each character of the tokens' text stands in a response whose reasoning came in a field of its own.

    The tokens are of both, with whatever the model wrote around its reasoning, or of the content alone. None where they
    are of neither.
    """
    thought, ends, content = response.removeprefix(THINK_BEGINS).partition(THINK_ENDS)
    if not response.startswith(THINK_BEGINS) or not ends:
        return None
    begin = text.find(thought)
    answer = text.find(content, begin + len(thought)) if begin >= 0 else -1
    if answer < 0:
        begin, answer = -1, text.find(content)
    around = text[: max(begin, 0)] + (text[begin + len(thought) : answer] if begin >= 0 else text[:answer])
    if answer < 0 or not content or len(around.strip()) > _MOST_TAGS:
        return None
    after = len(response) - len(content)

    def place(index: int) -> int:
        if index >= answer:
            return min(after + index - answer, len(response))
        if begin < 0:
            return after
        return min(max(len(THINK_BEGINS) + index - begin, 0), after)

    return place


def _spans_around_replaced(response: str, tokens: Sequence[LoggedToken]) -> list[tuple[int, int]] | None:
    """Return the tokens' spans where the service wrote U+FFFD for each part of a character; None if it did not.

    Such tokens that follow each other share the span between their neighbours.
    """
    texts = [token.text.decode("utf-8", "replace") for token in tokens]
    runs = [(replaced, list(run)) for replaced, run in groupby(texts, lambda text: _REPLACED in text)]
    spans: list[tuple[int, int]] = []
    start = 0
    for (replaced, run), (_, following) in zip(runs, [*runs[1:], (False, [])], strict=True):
        text, after = "".join(run), "".join(following)
        if replaced:
            end = response.find(after, start + 1, start + len(text) + len(after)) if after else len(response)
            if not start < end <= start + len(text):
                return None
            spans += [(start, end)] * len(run)
        else:
            if not response.startswith(text, start):
                return None
            ends = [start + size for size in accumulate(map(len, run))]
            spans += zip([start, *ends], ends, strict=False)
            end = ends[-1]
        start = end
    return spans if start == len(response) else None
