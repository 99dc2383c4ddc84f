"""Rows of published data sets and of Hugging Face training files."""

from __future__ import annotations

import json
import re
from string import ascii_uppercase
from typing import Any

from tokur_cli.records.formats.base import Fields, has
from tokur_cli.records.formats.everyday import row_format
from tokur_cli.records.mapping import as_text, with_fields
from tokur_cli.records.prompt import read_response
from tokur_cli.records.record import Record

_LISTS = ("choices", "options")
_KEYS = ("answerKey", "answer", "answer_index")
_LOWERED = ("How ", "What ", "Which ", "Who ", "When ", "Where ")


@row_format("humaneval", "HumanEval rows: task_id, prompt, entry_point, test", has("task_id", "prompt", "entry_point"))
def humaneval(record: Record) -> Record:
    """The prompt is the head of a function, which is asked for as it is."""
    return with_fields(record, id=record.fields["task_id"], question=record.text("prompt"))


@row_format("svamp", "SVAMP rows: Body, Question, Answer, ID", has("Body", "Question"))
def svamp(record: Record) -> Record:
    """The question is the body and what is asked about it, as one text."""
    body, question = record.text("Body").strip(), record.text("Question").strip()
    sign = ""
    if body and body[-1] not in ".!?,;:":
        # bodies often end in an if-clause that the question completes, without the comma between them
        is_clause = re.search(r"(?:^|[.!?]\s+)If\b[^.!?]*$", body)
        sign = "," if is_clause else "."
        if is_clause and question.startswith(_LOWERED):
            question = question[0].lower() + question[1:]
    fields = {"question": f"{body}{sign} {question}".strip(), "id": record.get("ID", record.get("id"))}
    if "Answer" in record.fields and record.get("reference") is None:
        fields["reference"] = as_text(record.fields["Answer"])
    return with_fields(record, **fields)


@row_format(
    "math",
    "MATH and DeepScaleR rows: problem, answer or a solution with \\boxed{…}, unique_id",
    lambda fields: "problem" in fields and ("answer" in fields or "solution" in fields),
)
def math(record: Record) -> Record:
    """Where there is a reference, the answer or the solution may be the model's own."""
    fields: dict[str, Any] = {"question": record.text("problem"), "id": record.get("unique_id", record.get("id"))}
    if record.get("reference") is None:
        is_given = "answer" in record.fields
        fields["reference"] = as_text(record.get("answer")) if is_given else _last_boxed(record)
    return with_fields(record, **fields)


def _last_boxed(record: Record) -> str:
    r"""Return what a solution's last ``\boxed{…}`` holds, as in the original MATH rows, which have no answer field."""
    _, found, text = record.text("solution").rpartition("\\boxed{")
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", text if found else "", re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[: brace.start()]
    raise record.error('is no math row: it has no "answer", and its "solution" no complete \\boxed{…}')


def _is_gym(fields: Fields) -> bool:
    metadata = fields.get("metadata")
    is_made = isinstance(metadata, dict) and {"source_dataset", "source_index"} <= metadata.keys()
    return is_made and {"question", "answer"} <= fields.keys() and "reference" not in fields


@row_format(
    "reasoning-gym", "Reasoning Gym rows: question, answer, metadata with source_dataset and source_index", _is_gym
)
def gym(record: Record) -> Record:
    """The answer is the reference; the task's own rule compares it."""
    return with_fields(record, question=record.text("question"), reference=record.fields["answer"])


def _has_choices(fields: Fields) -> bool:
    has_all = all(any(name in fields for name in names) for names in (_LISTS, _KEYS, ("question",)))
    found = next((fields[name] for name in _LISTS if name in fields), None)
    of_completion = isinstance(found, list) and bool(found) and isinstance(found[0], dict)  # which has "choices", too
    return has_all and "reference" not in fields and not of_completion


@row_format(
    "choices",
    "MMLU, MMLU-Pro, ARC and CommonsenseQA rows: question, choices or options, answer (a number from 0) or answerKey",
    _has_choices,
)
def choices(record: Record) -> Record:
    """The choices are asked under the letters A, B, …; the reference is the right one's letter."""
    name, key = (next((name for name in names if name in record.fields), names[-1]) for names in (_LISTS, _KEYS))
    found, answer = record.fields[name], record.fields[key]
    values, labels = (found["text"], found["label"]) if isinstance(found, dict) else (found, None)
    texts = [record.checked_text(name, as_text(value)) for value in values]
    letters = ascii_uppercase[: len(texts)]
    if not 1 < len(texts) == len(letters) == len(labels or letters):
        raise record.error(f'is no choices row: "{name}" has {len(texts)} choices, or not a label for each')
    lettered = "\n".join(f"{letter}. {text}" for letter, text in zip(letters, texts, strict=True))
    by_number = isinstance(answer, int)
    by_value = labels is None if by_number else key != "answerKey"  # which is always a label
    places = [
        place
        for place, (label, value) in enumerate(zip(labels or letters, values, strict=True))
        if answer == (place if by_number else label) or (by_value and answer in (value, texts[place]))
    ]
    if len(places) != 1 and answer not in ("", -1):  # where the answers of a test are kept secret
        which = "several" if places else f"none of the {len(texts)}"
        raise record.error(f'is no choices row: "{key}" is {json.dumps(answer)}, which is {which} of "{name}"')
    question, reference = f"{record.text('question')}\n{lettered}", letters[places[0]] if places else None
    return with_fields(record, question=question, reference=reference)


def _is_gsm8k(fields: Fields) -> bool:
    answer = fields.get("answer")
    return "question" in fields and "reference" not in fields and isinstance(answer, str) and "####" in answer


@row_format("gsm8k", "GSM8K rows: question, answer with the final answer after ####", _is_gsm8k)
def gsm8k(record: Record) -> Record:
    """The reference is what stands behind the solution."""
    _, mark, final = record.text("answer").rpartition("####")
    if not mark:
        raise record.error('is no gsm8k row: "answer" has no final answer after "####"')
    return with_fields(record, question=record.text("question"), reference=final.strip())


@row_format(
    "prompt-completion",
    "Hugging Face training rows: prompt, completion (texts, or lists of turns)",
    has("prompt", "completion"),
)
def prompt_completion(record: Record) -> Record:
    """A completion that is a list is one turn, an assistant's."""
    prompt, completion = record.fields["prompt"], record.fields["completion"]
    if isinstance(completion, list):
        (turn,) = completion
        if turn["role"] != "assistant":
            raise record.error('is no prompt-completion row: "completion" is no assistant\'s turn')
        completion = read_response("completion[0]", turn, record)
    if not isinstance(prompt, str):
        return with_fields(record, messages=prompt, response=completion)
    return with_fields(record, response=record.checked_text("completion", completion))


@row_format(
    "messages",
    "Hugging Face chat rows: messages; a last assistant turn is the response",
    lambda fields: isinstance(fields.get("messages"), list),
)
def messages(record: Record) -> Record:
    """A response of the row's own is none of the turns."""
    _, answer = record.split_messages()
    return record if answer is None else with_fields(record, response=answer)
