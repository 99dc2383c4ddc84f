"""Rows of published data sets, of training files, and of what other programs write of one question and its answer."""

from __future__ import annotations

import re
from string import ascii_uppercase
from typing import Any

from tokur_cli.records.formats.base import GOLD, Fields, has, row_format
from tokur_cli.records.mapping import find_value, with_answer, with_fields
from tokur_cli.records.prompt import read_response
from tokur_cli.records.record import Record, as_text

_LISTS, _KEYS = ("choices", "options"), ("answerKey", "answer", "answer_index")
_LOWERED = ("How ", "What ", "Which ", "Who ", "When ", "Where ")
_is_question = has("question", but=["reference"])
_ROLES = {name: name for name in ("system", "user", "assistant")}
_ROLES |= {"human": "user", "gpt": "assistant", "HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}


@row_format(lambda fields: isinstance(fields.get("tokur"), dict))
def tokur(record: Record) -> Record:
    """Read tokur's own: id, question (or messages, or prompt), response (or a last assistant's turn), reference."""
    if find_value(record.fields, "prompt.0.role") is not None and record.get("messages") is None:
        record = with_fields(record, messages=record.fields["prompt"])
    return with_answer(record)


# --- data sets ---


@row_format(has("task_id", "prompt", "entry_point"))
def humaneval(record: Record) -> Record:
    """Read HumanEval: task_id, prompt (the head of a function, which is asked for as it is), entry_point, test."""
    return with_fields(record, id=record.fields["task_id"], question=record.text("prompt"))


@row_format(has("Body", "Question"))
def svamp(record: Record) -> Record:
    """Read SVAMP: Body and Question, which are asked as one text, Answer, ID."""
    body, question = record.text("Body").strip(), record.text("Question").strip()
    if body and body[-1] not in ".!?,;:":
        is_clause = re.search(r"(?:^|[.!?]\s+)If\b[^.!?]*$", body)  # which the question completes, without a comma
        body += "," if is_clause else "."
        if is_clause and question.startswith(_LOWERED):
            question = question[0].lower() + question[1:]
    identity, reference = record.get("ID", record.get("id")), record.get("reference")
    reference = as_text(record.get("Answer")) if reference is None else reference
    return with_fields(record, question=f"{body} {question}".strip(), id=identity, reference=reference)


@row_format(has("problem", but=("question", "messages", "prompt", "conversations", "instruction")))
def math(record: Record) -> Record:
    r"""Read MATH and DeepScaleR: problem, answer or a solution with ``\boxed{…}``, unique_id.

    Where there is a reference, the answer or the solution may be the model's own.
    """
    question, reference = record.text("problem"), record.get("reference")
    if reference is None and not any(name in record.fields for name in GOLD):
        boxed = "answer" not in record.fields and "solution" in record.fields
        reference = _last_boxed(record) if boxed else as_text(record.get("answer"))
    return with_fields(record, question=question, id=record.get("unique_id", record.get("id")), reference=reference)


def _last_boxed(record: Record) -> str:
    r"""Return what a solution's last ``\boxed{…}`` holds, as in the original MATH rows, which have no answer field."""
    _, found, text = record.text("solution").rpartition("\\boxed{")
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", text if found else "", re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[: brace.start()]
    raise record.error('is no math row: it has no "answer", and its "solution" no complete \\boxed{…}')


@row_format(has("question", "answer", "metadata.source_dataset", "metadata.source_index", but=["reference"]))
def reasoning_gym(record: Record) -> Record:
    """Read Reasoning Gym: question, answer, which the task's own rule compares, metadata with source_dataset."""
    return with_fields(record, question=record.text("question"), reference=record.fields["answer"])


def _has_choices(fields: Fields) -> bool:
    has_both = bool(fields.keys() & {*_KEYS}) and any(isinstance(fields.get(name), (list, dict)) for name in _LISTS)
    first = [find_value(fields, f"{name}.0", dict) or {"label": None} for name in _LISTS]
    return has_both and all("label" in one for one in first) and _is_question(fields)  # not of a completion


@row_format(_has_choices)
def choices(record: Record) -> Record:
    """Read MMLU, MMLU-Pro, ARC and CommonsenseQA: question, choices or options, answer (from 0) or answerKey.

    The choices are asked under the letters A, B, …, unless they are already; the reference is the right one's letter.
    """
    name, key = (next((name for name in names if name in record.fields), names[-1]) for names in (_LISTS, _KEYS))
    found, answer = record.fields[name], record.fields[key]
    if isinstance(found, list) and isinstance(found[0], dict):
        found = {name: [one[name] for one in found] for name in ("text", "label")}
    elif isinstance(found, dict) and "text" not in found:  # by letter
        found = {"text": [*found.values()], "label": [*found]}
    values, labels = (found["text"], found["label"]) if isinstance(found, dict) else (found, None)
    texts = [record.checked_text(name, as_text(value)) for value in values]
    letters = ascii_uppercase[: len(texts)]
    marked = [re.match(rf"\(?{one}[.):]\s*(.+)", text, re.DOTALL) for one, text in zip(letters, texts, strict=True)]
    texts = [one[1] for one in marked if one] if all(marked) else texts
    by_number = isinstance(answer, int)
    by_value = labels is None if by_number else key != "answerKey"  # which is always a label
    places = [
        place
        for place, (label, value) in enumerate(zip(labels or letters, values, strict=True))
        if answer == (place if by_number else label) or (by_value and answer in (value, texts[place]))
    ]
    if len(places) != 1 and answer not in ("", -1):  # where the answers of a test are kept secret
        raise record.error(f'is no choices row: "{key}" is {answer!r}, which is not one of "{name}"')
    question, reference = record.text("question"), letters[places[0]] if places else None
    pairs = dict(zip(letters, texts, strict=True)).items()
    if not all(re.search(rf"\b{one}[.):\]]\W{{0,3}}{re.escape(text)}(?!\w)", question) for one, text in pairs):
        question = "\n".join([question, *map(". ".join, pairs)])
    return with_fields(record, question=question, reference=reference)


@row_format(lambda fields: _is_question(fields) and "####" in (find_value(fields, "answer", str) or ""))
def gsm8k(record: Record) -> Record:
    """Read GSM8K: question, answer with the final answer after ``####``."""
    _, final = record.text("answer").rsplit("####", 1)
    return with_fields(record, question=record.text("question"), reference=final.strip())


# --- conversations ---


def _answered(record: Record, text: str, asked: Any, what: str, said: Any) -> Record:
    """Return a record of what was asked, a text that goes into that field or messages, and the text or message said.

    A response that has been told already stays: what stands beside it is the data set's own.
    """
    prompt = {text: asked} if isinstance(asked, str) else {"messages": asked}
    said = record.get("response") if isinstance(record.get("response"), str) else said
    return with_fields(record, **prompt, response=read_response(what, said, record))


@row_format(has("prompt", "completion"))
def prompt_completion(record: Record) -> Record:
    """Read Hugging Face's training rows: prompt, completion (texts, or lists of turns: one, an assistant's)."""
    prompt, completion = record.fields["prompt"], record.fields["completion"]
    if completion is None and isinstance(prompt, list):
        return with_fields(record, messages=prompt)
    if isinstance(completion, list):
        (completion,) = completion
        if completion["role"] != "assistant":
            raise record.error('is no prompt-completion row: "completion" is no assistant\'s turn')
    return _answered(record, "prompt", prompt, "completion", completion)


def _turns(turns: list[dict[str, Any]], role: str, content: str) -> list[dict[str, Any]]:
    """Return chat turns whose role and content stand under other names."""
    return [{"role": _ROLES[turn[role]], "content": turn[content]} for turn in turns]


@row_format(has("conversations.0.from"))
def sharegpt(record: Record) -> Record:
    """Read ShareGPT: conversations of from (human, gpt, system) and value; a last turn of gpt is the response."""
    system = record.get("system")
    turns = [{"role": "system", "content": system}] if isinstance(system, str) else []
    turns += _turns(record.fields["conversations"], "from", "value")
    return with_answer(with_fields(record, messages=turns))


@row_format(has("instruction", "output"))
def alpaca(record: Record) -> Record:
    """Read Alpaca: instruction, input (which stands below it, where there is one), output."""
    question = record.text("instruction") + (f"\n\n{record.text('input')}" if record.get("input") else "")
    return _answered(record, "question", question, "output", record.fields["output"])


@row_format(has("origin_prompt", "prediction"))
def opencompass(record: Record) -> Record:
    """Read OpenCompass' predictions: origin_prompt (text, or turns), prediction, gold."""
    asked = record.fields["origin_prompt"]
    asked = asked if isinstance(asked, str) else _turns(asked, "role", "prompt")
    return _answered(record, "prompt", asked, "prediction", record.fields["prediction"])


def _is_input_output(fields: Fields) -> bool:
    both = isinstance(fields.get("input"), (str, list, dict)) and not isinstance(fields.get("output", 0), (list, int))
    return both and has(but=["question", "messages", "prompt", "response"])(fields)


@row_format(_is_input_output)
def input_output(record: Record) -> Record:
    """Read input and output (texts, or messages, which may stand in an object), as Langfuse exports them."""
    asked = find_value(record.fields, "input.messages") or record.fields["input"]
    return _answered(record, "question", asked, "output", record.fields["output"])
