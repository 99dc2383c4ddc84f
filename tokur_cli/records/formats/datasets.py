"""Rows of published data sets and of Hugging Face training files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from tokur_cli.records.formats.base import spelled, whole_number, with_fields
from tokur_cli.records.formats.everyday import row_format
from tokur_cli.records.prompt import read_response
from tokur_cli.records.record import Record

_LISTS = ("choices", "options")
_KEYS = ("answerKey", "answer", "answer_index")
_LOWERED = ("How ", "What ", "Which ", "Who ", "When ", "Where ")


def _adapt_messages(record: Record) -> Record:
    _, answer = record.split_messages()
    return record if answer is None else with_fields(record, response=answer)


def _adapt_prompt_completion(record: Record) -> Record:
    prompt, completion = record.fields["prompt"], record.fields["completion"]
    if isinstance(completion, list):
        (turn,) = completion
        if turn["role"] != "assistant":
            raise record.error('is no prompt-completion row: "completion" is no assistant\'s turn')
        completion = read_response("completion[0]", turn, record)
    if not isinstance(prompt, str):
        return with_fields(record, messages=prompt, response=completion)
    return with_fields(record, response=record.checked_text("completion", completion))


def _adapt_gsm8k(record: Record) -> Record:
    _, mark, final = record.text("answer").rpartition("####")
    if not mark:
        raise record.error('is no gsm8k row: "answer" has no final answer after "####"')
    return with_fields(record, question=record.text("question"), reference=final.strip())


def _adapt_math(record: Record) -> Record:
    fields: dict[str, Any] = {"question": record.text("problem")}
    if record.get("reference") is None:  # where there is one, the answer or solution may be the model's own
        if "answer" in record.fields:
            fields["reference"] = spelled(record, "answer")
        else:
            fields["reference"] = _last_boxed(record, record.text("solution"))
    return with_fields(record, **fields, id=record.get("unique_id", record.get("id")))


def _last_boxed(record: Record, solution: str) -> str:
    r"""Return what a solution's last ``\boxed{…}`` holds, as in the original MATH rows, which have no answer field."""
    start = solution.rfind("\\boxed{")
    depth = 0
    for brace in re.finditer(r"\\.|[{}]", solution[start + len("\\boxed") :] if start >= 0 else "", re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return solution[start + len("\\boxed{") : start + len("\\boxed") + brace.start()]
    raise record.error('is no math row: it has no "answer", and its "solution" no complete \\boxed{…}')


def _adapt_svamp(record: Record) -> Record:
    body, question = record.text("Body").strip(), record.text("Question").strip()
    fields: dict[str, Any] = {"question": f"{body} {question}".strip()}
    if body and body[-1] not in ".!?,;:":
        # bodies often end in an if-clause that the question completes, without the comma between them
        is_clause = re.search(r"(?:^|[.!?]\s+)If\b[^.!?]*$", body)
        if is_clause and question.startswith(_LOWERED):
            question = question[0].lower() + question[1:]
        fields["question"] = f"{body}{',' if is_clause else '.'} {question}"
    if "Answer" in record.fields and record.get("reference") is None:
        answer = record.fields["Answer"]
        fields["reference"] = answer if isinstance(answer, str) else whole_number(answer)
    return with_fields(record, **fields, id=record.get("ID", record.get("id")))


def _adapt_humaneval(record: Record) -> Record:
    return with_fields(record, id=record.fields["task_id"], question=record.text("prompt"))


def _adapt_choices(record: Record) -> Record:
    """Return a question with its choices under the letters A, B, …; the reference is the right one's letter."""
    name, key = (next((name for name in names if name in record.fields), names[-1]) for names in (_LISTS, _KEYS))
    found, answer = record.fields[name], record.fields[key]
    values, labels = (found["text"], found["label"]) if isinstance(found, dict) else (found, None)
    texts = [value if isinstance(value, str) else whole_number(value) for value in values]
    letters = ascii_uppercase[: len(texts)]
    if not 1 < len(texts) == len(letters) == len(labels or letters):
        raise record.error(f'is no choices row: "{name}" has {len(texts)} choices, or not a label for each')
    lettered = "\n".join(f"{letter}. {text}" for letter, text in zip(letters, texts, strict=True))
    if isinstance(answer, int):
        places = {answer} & set(range(len(texts)))
        if labels is None:  # numbers may be the choices themselves
            places |= {place for place, value in enumerate(values) if value == answer}
    else:
        places = {place for place, label in enumerate(labels or letters) if label == answer}
        if key != "answerKey":  # which is always a label
            places |= {place for place, text in enumerate(texts) if text == answer}
    if len(places) != 1 and answer not in ("", -1):  # where the answers of a test are kept secret
        which = "several" if places else f"none of the {len(texts)}"
        raise record.error(f'is no choices row: "{key}" is {json.dumps(answer)}, which is {which} of "{name}"')
    question, reference = f"{record.text('question')}\n{lettered}", letters[places.pop()] if places else None
    return with_fields(record, question=question, reference=reference)


def _has_choices(fields: Mapping[str, Any]) -> bool:
    has = [any(name in fields for name in names) for names in (_LISTS, _KEYS, ("question",))]
    found = next((fields[name] for name in _LISTS if name in fields), None)
    of_completion = isinstance(found, list) and bool(found) and isinstance(found[0], dict)  # which has "choices", too
    return all(has) and "reference" not in fields and not of_completion


def _adapt_gym(record: Record) -> Record:
    return with_fields(record, question=record.text("question"), reference=record.fields["answer"])


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
