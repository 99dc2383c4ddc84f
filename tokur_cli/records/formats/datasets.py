"""Rows of published data sets and of Hugging Face training files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from tokur_cli.records.formats.base import required, row_format, spelled, typed, whole_number, with_fields
from tokur_cli.records.prompt import read_response
from tokur_cli.records.record import Record

_LISTS = ("choices", "options")
_KEYS = ("answerKey", "answer", "answer_index")
_LOWERED = ("How ", "What ", "Which ", "Who ", "When ", "Where ")


def _adapt_messages(record: Record) -> Record:
    required(record, "messages", "messages", list)
    _, answer = record.split_messages()
    return record if answer is None else with_fields(record, response=answer)


def _adapt_prompt_completion(record: Record) -> Record:
    form = "prompt-completion"
    prompt = required(record, "prompt", form, str, list)
    completion = required(record, "completion", form, str, list)
    if isinstance(completion, list):
        if len(completion) != 1 or not isinstance(completion[0], dict) or completion[0].get("role") != "assistant":
            raise record.error(f'is not a {form} row: "completion" is not a single assistant turn')
        completion = read_response("completion[0]", completion[0], record)
    if isinstance(prompt, str):
        return with_fields(record, response=completion)
    return with_fields(record, messages=prompt, response=completion)


def _adapt_gsm8k(record: Record) -> Record:
    required(record, "question", "gsm8k", str)
    _, mark, final = required(record, "answer", "gsm8k", str).rpartition("####")
    if not mark:
        raise record.error('is not a gsm8k row: "answer" has no final answer after "####"')
    return with_fields(record, reference=final.strip())


def _adapt_math(record: Record) -> Record:
    fields: dict[str, Any] = {"question": required(record, "problem", "math", str)}
    if record.get("reference") is None:  # where there is one, the answer or solution may be the model's own
        if "answer" in record.fields:
            required(record, "answer", "math", str, int, float)
            fields["reference"] = spelled(record, "answer")
        else:
            fields["reference"] = _last_boxed(record, required(record, "solution", "math", str))
    if "unique_id" in record.fields:
        fields["id"] = required(record, "unique_id", "math", str, int)
    return with_fields(record, **fields)


def _last_boxed(record: Record, solution: str) -> str:
    r"""Return what a solution's last ``\boxed{…}`` holds, as in the original MATH rows, which have no answer field."""
    start = solution.rfind("\\boxed{")
    depth = 0
    for brace in re.finditer(r"\\.|[{}]", solution[start + len("\\boxed") :] if start >= 0 else "", re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return solution[start + len("\\boxed{") : start + len("\\boxed") + brace.start()]
    raise record.error('is not a math row: it has no "answer", and its "solution" no complete \\boxed{…}')


def _adapt_svamp(record: Record) -> Record:
    body = required(record, "Body", "svamp", str).strip()
    question = required(record, "Question", "svamp", str).strip()
    fields: dict[str, Any] = {"question": f"{body} {question}".strip()}
    if body and body[-1] not in ".!?,;:":
        # bodies often end in an if-clause that the question completes, without the comma between them
        is_clause = re.search(r"(?:^|[.!?]\s+)If\b[^.!?]*$", body)
        if is_clause and question.startswith(_LOWERED):
            question = question[0].lower() + question[1:]
        fields["question"] = f"{body}{',' if is_clause else '.'} {question}"
    if "Answer" in record.fields and record.get("reference") is None:
        answer = required(record, "Answer", "svamp", int, float, str)
        fields["reference"] = answer if isinstance(answer, str) else whole_number(answer)
    if "ID" in record.fields:
        fields["id"] = required(record, "ID", "svamp", str, int)
    return with_fields(record, **fields)


def _adapt_humaneval(record: Record) -> Record:
    task = required(record, "task_id", "humaneval", str, int)
    return with_fields(record, id=task, question=required(record, "prompt", "humaneval", str))


def _adapt_choices(record: Record) -> Record:
    """Return a question with its choices under the letters A, B, …; the reference is the right one's letter."""
    form = CHOICES.name
    question, (name, texts, labels) = required(record, "question", form, str), _choices(record)
    if not 1 < len(texts) <= len(ascii_uppercase):
        raise record.error(f'is not a {form} row: "{name}" has {len(texts)} choices')
    letters = ascii_uppercase[: len(texts)]
    lettered = "\n".join(f"{letter}. {text}" for letter, text in zip(letters, texts, strict=True))
    key = _one_of(record, _KEYS)
    answer = typed(record, f'"{key}"', record.fields[key], form, str, int)
    if isinstance(answer, int):
        places = {answer} & set(range(len(texts)))
        if not isinstance(record.fields[name], dict):  # numbers may be the choices themselves
            places |= {place for place, value in enumerate(record.fields[name]) if value == answer}
    else:
        places = {place for place, label in enumerate(labels or letters) if label == answer}
        if key != "answerKey":  # which is always a label
            places |= {place for place, text in enumerate(texts) if text == answer}
    if len(places) != 1 and answer not in ("", -1):  # where the answers of a test are kept secret
        which = "several" if places else f"none of the {len(texts)}"
        raise record.error(f'is not a {form} row: "{key}" is {json.dumps(answer)}, which is {which} of "{name}"')
    return with_fields(record, question=f"{question}\n{lettered}", reference=letters[places.pop()] if places else None)


def _choices(record: Record) -> tuple[str, list[str], list[str] | None]:
    """Return the name of the field that has the choices, their texts and, where they have any, their labels."""
    form, name = CHOICES.name, _one_of(record, _LISTS)
    found = typed(record, f'"{name}"', record.fields[name], form, list, dict)
    parts = {"": found}
    if isinstance(found, dict):
        parts = {".text": found.get("text"), ".label": found.get("label")}
    for part, values in parts.items():
        for place, value in enumerate(typed(record, f'"{name}{part}"', values, form, list)):
            typed(record, f'"{name}{part}[{place}]"', value, form, str, *(() if part == ".label" else (int, float)))
    texts = [text if isinstance(text, str) else whole_number(text) for text in next(iter(parts.values()))]
    labels = parts.get(".label")
    if labels is not None and len(labels) != len(texts):
        raise record.error(f'is not a {form} row: "{name}" has {len(texts)} texts and {len(labels)} labels')
    return name, texts, labels


def _one_of(record: Record, names: Sequence[str]) -> str:
    """Return the first of the names that the row has a field of."""
    for name in names:
        if name in record.fields:
            return name
    wanted = " or ".join(f'"{name}"' for name in names)
    raise record.error(f"is not a {CHOICES.name} row: {wanted} is missing")


def _has_choices(fields: Mapping[str, Any]) -> bool:
    has = [any(name in fields for name in names) for names in (_LISTS, _KEYS, ("question",))]
    found = next((fields[name] for name in _LISTS if name in fields), None)
    of_completion = isinstance(found, list) and bool(found) and isinstance(found[0], dict)  # which has "choices", too
    return all(has) and "reference" not in fields and not of_completion


def _adapt_gym(record: Record) -> Record:
    question = required(record, "question", GYM.name, str)
    return with_fields(record, question=question, reference=required(record, "answer", GYM.name, str, type(None)))


def _is_gym(fields: Mapping[str, Any]) -> bool:
    metadata = fields.get("metadata")
    made = isinstance(metadata, dict) and {"source_dataset", "source_index"} <= metadata.keys()
    return made and {"question", "answer"} <= fields.keys() and "reference" not in fields


def _is_gsm8k(fields: Mapping[str, Any]) -> bool:
    answer = fields.get("answer")
    return "question" in fields and "reference" not in fields and isinstance(answer, str) and "####" in answer


MESSAGES = row_format(
    "messages",
    "Hugging Face chat rows: messages; a last assistant turn is the response",
    lambda fields: isinstance(fields.get("messages"), list),
    _adapt_messages,
)
PROMPT_COMPLETION = row_format(
    "prompt-completion",
    "Hugging Face training rows: prompt, completion (texts, or lists of turns)",
    lambda fields: {"prompt", "completion"} <= fields.keys(),
    _adapt_prompt_completion,
)
GSM8K = row_format("gsm8k", "GSM8K rows: question, answer with the final answer after ####", _is_gsm8k, _adapt_gsm8k)
MATH = row_format(
    "math",
    "MATH and DeepScaleR rows: problem, answer or a solution with \\boxed{…}, unique_id",
    lambda fields: "problem" in fields and ("answer" in fields or "solution" in fields),
    _adapt_math,
)
SVAMP = row_format(
    "svamp",
    "SVAMP rows: Body, Question, Answer, ID",
    lambda fields: {"Body", "Question"} <= fields.keys(),
    _adapt_svamp,
)
HUMANEVAL = row_format(
    "humaneval",
    "HumanEval rows: task_id, prompt, entry_point, test",
    lambda fields: {"task_id", "prompt", "entry_point"} <= fields.keys(),
    _adapt_humaneval,
)
CHOICES = row_format(
    "choices",
    "MMLU, MMLU-Pro, ARC and CommonsenseQA rows: question, choices or options, answer (a number from 0) or answerKey",
    _has_choices,
    _adapt_choices,
)
GYM = row_format(
    "reasoning-gym",
    "Reasoning Gym rows: question, answer, metadata with source_dataset and source_index",
    _is_gym,
    _adapt_gym,
)
