"""Reading rows in a few words."""

import json
from pathlib import Path

from tokur_cli.records.errors import RecordError
from tokur_cli.records.reader import read_records

DATA = Path(__file__).parents[1] / "data" / "formats"

EXPECTED_FORMAT = {
    "gsm8k.jsonl": "gsm8k",
    "gsm8k_model_solutions.jsonl": "tokur",
    "math.jsonl": "math",
    "svamp.jsonl": "svamp",
    "humaneval.jsonl": "humaneval",
    "messages.jsonl": "messages",
    "prompt_completion.jsonl": "prompt-completion",
    "lm_eval_new.jsonl": "lm-eval",
    "lm_eval_old.jsonl": "lm-eval",
    "lm_eval_loglikelihood.jsonl": "lm-eval",
    "openai_batch.jsonl": "openai-batch",
    "vllm_batch.jsonl": "openai-batch",
    "vllm_logprobs.jsonl": "openai-batch",
    "openai_responses.jsonl": "openai-batch",
    "lm_eval_samples.jsonl": "lm-eval",
    "lm_eval_filters.jsonl": "lm-eval",
    "completions.jsonl": "completions",
    "completions_text.jsonl": "completions",
    "completions_responses.jsonl": "completions",
    "completions_messages.jsonl": "completions",
}


def read(name, **options):
    return list(read_records(str(DATA / name), **options))


def read_rows(tmp_path, *rows, **options):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return list(read_records(str(path), **options))


def read_row(tmp_path, row, **options):
    (record,) = read_rows(tmp_path, row, **options)
    return record


def message_of(error):
    assert isinstance(error, RecordError), error
    return error.message
