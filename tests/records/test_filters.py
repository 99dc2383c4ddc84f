"""Of a log of lm-evaluation-harness with several filters one is read, which is said, and the user may choose it.

``lm_eval_filters.jsonl`` is what lm-eval 0.4.13 wrote, ``lm_eval_filters_results.json`` what it computed itself.
"""

import json

import pytest

from tests.records.reading import DATA, read, read_rows
from tokur_cli.answers.grading import label_of

LOG = DATA / "lm_eval_filters.jsonl"
(RESULTS,) = json.loads((DATA / "lm_eval_filters_results.json").read_text()).values()
SAID = (
    f"{LOG}: read 5 rows of the filter strict-match, passed over 5 rows of the filter flexible-extract, which are of "
    "the same responses: --format lm-eval:NAME chooses"
)


def rows(task, count, *filters):
    arguments = {"gen_args_0": {"arg_0": task, "arg_1": {}}}
    common = {"doc": {}, "target": "4", "arguments": arguments}
    return [
        {**common, "doc_id": number, "resps": [[f"{task} {number}"]], "filter": name}
        for name in filters
        for number in range(count)
    ]


@pytest.mark.parametrize("name", ["strict-match", "flexible-extract"])
def test_the_chosen_filters_verdicts_are_the_labels(name):
    labels = [label_of(record.fields).value for record in read(LOG, filter=name)]
    assert len(labels) == RESULTS["sample_len"]
    assert sum(labels) / len(labels) == RESULTS[f"exact_match,{name}"]


@pytest.mark.parametrize(
    ("command", "options"),
    [("evaluate", ("--graded", "{out}", "--force")), ("select", ("--method", "maj", "--keep", "100%"))],
)
def test_commands_say_which_filter_was_read_and_take_another(run_tokur, tmp_path, command, options):
    options = [option.format(out=tmp_path / "out") for option in options]
    code, _, err = run_tokur(command, LOG, *options)
    assert (code, f"tokur {command}: {SAID}\n" in err) == (0, True), err
    code, _, err = run_tokur(command, LOG, *options, "--format", "lm-eval:flexible-extract")
    assert (code, "filter" in err) == (0, False), err
    if command == "evaluate":
        assert "2 correct, 3 incorrect" in err


def test_logs_of_several_tasks_in_one_file_lose_nothing_without_a_word(tmp_path):
    several = [*rows("a", 2, "strict-match", "flexible-extract"), *rows("b", 3, "none")]
    said = []
    assert len(read_rows(tmp_path, *several, note=said.append)) == 5
    assert said == [
        f"{tmp_path / 'rows.jsonl'}: read 2 rows of the filter strict-match, 3 rows of the filter none, passed over 2 "
        "rows of the filter flexible-extract, which are of the same responses: --format lm-eval:NAME chooses"
    ]
    said.clear()
    chosen = read_rows(tmp_path, *several, filter="flexible-extract", note=said.append)
    assert [record.response for record in chosen] == ["a 0", "a 1"]
    assert said == [
        f"{tmp_path / 'rows.jsonl'}: 3 responses have no row of the filter flexible-extract and are left out"
    ]
