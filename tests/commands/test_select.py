import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import parsed, start, write_lines
from tokur_cli.answers.symbolic import OutOfLimits, WorkerPool

REFERENCE = "18"


def response(question, sample, answer, eu_mean):
    return {
        "id": question,
        "question": f"Question {question}?",
        "reference": REFERENCE,
        "response": "I cannot tell." if answer is None else f"So the answer is {answer}.",
        "tokur": {"schema": 1, "sample": sample, "scores": {"eu_mean": eu_mean}},
    }


def question(name, answers, scores=None):
    """Responses with these answers, the first the most confident unless scores are given."""
    return [
        response(name, sample, answer, scores[sample] if scores else 0.1 + sample)
        for sample, answer in enumerate(answers)
    ]


@pytest.fixture
def select(run_tokur, tmp_path):
    """Run ``tokur select`` on records; returns (exit code, parsed output, lines of standard error)."""

    def run(lines, *options):
        path = write_lines(tmp_path / "scored.jsonl", lines)
        code, out, err = run_tokur("select", path, *options)
        return code, parsed(out), err.replace("tokur select: ", "").splitlines()

    return run


def test_one_record_a_question_with_the_answer_its_votes_and_the_runners_up(select):
    lines = question("q1", ["18", "7", "18.0", None, "7", "$18", "3"]) + question("q2", ["5"])
    lines[0]["level"] = 3
    lines[0]["tokur"] |= {"model": "m", "tokens": {"eu": [0.1]}, "token_ids": [1], "prompt_token_ids": [1], "run": {}}
    code, selected, err = select(lines, "--keep", "100%", "--method", "maj")
    assert code == 0
    assert [one["id"] for one in selected] == ["q1", "q2"]
    assert list(selected[0]) == ["id", "question", "reference", "response", "tokur", "level"]
    assert selected[0]["response"] == "So the answer is 18."
    tokur = selected[0]["tokur"]
    version = tokur["selection"].pop("version")
    assert isinstance(version, str)
    assert tokur == {
        "schema": 1, "sample": 0, "scores": {"eu_mean": 0.1}, "model": "m", "run": {},
        "answer": "18", "votes": 3, "weight": 3.0, "kept": 7, "n": 7,
        "runners_up": [
            {"answer": "7", "votes": 2, "weight": 2.0},
            {"answer": "3", "votes": 1, "weight": 1.0},
            {"answer": None, "votes": 1, "weight": 1.0},
        ],
        "selection": {
            "by": "eu_mean", "keep": 1.0, "keep_at_least": None, "method": "maj", "weight": None,
            "abstain": None,
        },
    }  # fmt: skip
    assert err == [
        "1 question with 7 responses, 1 with another number (1 to 7)",
        "accuracy 50.00%, majority 50.00%, Pass@1 21.43%, Pass@N 50.00% (2 questions)",
    ]


def test_equal_answers_vote_together_however_they_are_written(select):
    lines = question("q1", ["3", "3", "1/2", "0.5", r"$\frac{1}{2}$"]) + question(
        "q2", [r"$\boxed{x^2}$", r"$\boxed{x^2}$", r"$\boxed{(x+1)^2}$", r"$\boxed{x^2+2x+1}$", r"$\boxed{1+2x+x^2}$"]
    )
    code, selected, _ = select(lines, "--keep", "100%")
    assert code == 0
    assert [(one["tokur"]["answer"], one["tokur"]["votes"]) for one in selected] == [("1/2", 3), (r"(x+1)^2", 3)]


def test_the_default_is_majority_of_sixteen_or_of_the_top_tenth_by_the_length_normalised_eu(select):
    answers = ["7"] * 5 + ["18"] * 6 + ["5"] * 19  # of the top 16 six say 18 and five each 7 and 5
    code, selected, err = select(question("q1", answers))
    assert code == 0
    assert selected[0]["tokur"]["selection"] | {"version": ""} == {
        "by": "eu_mean", "keep": 0.1, "keep_at_least": 16, "method": "maj", "weight": None,
        "abstain": None, "version": "",
    }  # fmt: skip
    assert selected[0]["tokur"]["answer"] == "18"
    assert selected[0]["tokur"]["kept"] == 16
    assert err == ["accuracy 100.00%, majority 0.00%, Pass@1 20.00%, Pass@30 100.00% (1 question)"]
    _, selected, _ = select(question("q1", ["7", "18", "18"] + ["5"] * 168))
    assert (selected[0]["tokur"]["kept"], selected[0]["tokur"]["answer"]) == (18, "5")


def test_a_response_without_the_score_votes_by_default_and_ranks_last(select):
    lines = question("q1", ["7", "18", "18", "18"])
    for line in lines[1:]:
        del line["tokur"]["scores"]["eu_mean"]
    _, selected, err = select(lines)
    assert (selected[0]["tokur"]["answer"], selected[0]["tokur"]["kept"]) == ("18", 4)
    assert err[0] == "3 of 4 responses without a finite eu_mean: they rank last"
    for options in (("--keep", "10%"), ("--method", "wbon"), ("--method", "bon")):
        _, selected, err = select(lines, *options)
        assert (selected[0]["tokur"]["answer"], selected[0]["tokur"]["kept"]) == ("7", 1)
        assert err[0] == "3 of 4 responses without a finite eu_mean: they cannot be kept"


def certain(lines, probabilities):
    for line, probability in zip(lines, probabilities, strict=True):
        line["tokur"]["scores"]["p_correct"] = probability
    return lines


def test_no_answer_where_the_chosen_response_is_probably_wrong(select):
    """Three questions: right and certain, wrong and certain, right and uncertain."""
    lines = certain(question("q1", ["18", "7"]) + question("q2", ["7", "18"]), [0.9, 0.2, 0.8, 0.1])
    lines += certain(question("q3", ["18", "7"]), [0.79, None])
    options = ("--by", "p_correct", "--keep", "50%")
    code, selected, err = select(lines, *options, "--abstain", "0.8")
    assert code == 0
    assert [one["tokur"]["answer"] for one in selected] == ["18", "7", None]
    assert [one["tokur"]["certainty"] for one in selected] == [0.9, 0.8, 0.79]
    assert [one["tokur"].get("withheld") for one in selected] == [None, None, "18"]
    assert {one["tokur"]["selection"]["abstain"] for one in selected} == {0.8}
    assert err[-2:] == [
        "answered 2 of 3 questions (66.67%), too uncertain of the others",
        "coverage 66.67%, accuracy of what is answered 50.00%, majority 50.00%, Pass@1 50.00%, Pass@2 100.00% "
        "(3 questions)",
    ]
    _, every, _ = select(lines, *options)
    assert all("certainty" not in one["tokur"] for one in every)
    _, records, _ = select(lines, *options, "--abstain", "0.8", "--records")
    assert [one["tokur"]["select"]["chosen"] for one in records] == [True, False, True, False, False, False]


def test_without_p_correct_the_share_of_the_vote_decides(select):
    lines = question("q1", ["18", "18", "7"]) + question("q2", ["7", "18", "5", None])
    for record in lines:
        del record["reference"]
    code, selected, err = select(lines, "--keep", "100%", "--abstain", "0.6")
    assert code == 0
    assert [one["tokur"]["certainty"] for one in selected] == [pytest.approx(2 / 3), 0.25]
    assert [one["tokur"]["answer"] for one in selected] == ["18", None]
    assert err[-1] == "answered 1 of 2 questions (50.00%), too uncertain of the others"
    code, _, err = select(lines, "--keep", "100%", "--abstain", "1")
    assert [line for line in err if line.startswith("answered 0 of 2")]


def test_select_takes_shares_as_percentages_and_as_fractions(select):
    lines = question("q1", ["18", "7", "18", "7"])
    one, other = (select(lines, "--keep", keep, "--abstain", level) for keep, level in (("50%", "80%"), ("0.5", "0.8")))
    assert one == other
    assert one[1][0]["tokur"]["selection"]["abstain"] == 0.8
    code, _, err = select(lines, "--abstain", "65")
    assert (code, err) == (2, ["--abstain: 65: give a share from 0% to 100%, such as 10% or 0.1"])


def test_abstaining_needs_something_to_be_certain_of(select):
    lines = question("q1", ["18", "7"])
    code, _, err = select(lines, "--method", "bon", "--abstain", "0.5")
    assert (code, err) == (2, ["--abstain needs --by p_correct with --method bon: one response has all the vote"])
    code, _, _ = select(lines, "--abstain", "1.5")
    assert code == 2


def test_methods_and_weights_by_hand(select):
    lines = question("q1", ["1", "2", "2", "3"], scores=[0.25, 0.5, 1.0, 8.0])

    def outcome(*options):
        code, selected, _ = select(lines, "--keep", "75%", *options)
        assert code == 0
        tokur = selected[0]["tokur"]
        return tokur["answer"], tokur["weight"], [one["weight"] for one in tokur["runners_up"]]

    assert outcome("--method", "maj") == ("2", 2.0, [1.0])
    assert outcome("--method", "bon") == ("1", 1.0, [0.0])
    assert outcome("--method", "wbon", "--weight", "rank") == ("1", 3.0, [3.0])
    total = math.fsum([math.exp(-0.25), math.exp(-0.75)])
    assert outcome("--method", "wbon") == outcome("--method", "wbon", "--weight", "exp") == ("2", total, [1.0])


def test_by_eu_is_the_sum_and_that_is_said(select):
    lines = question("q1", ["1", "2"])
    lines[0]["tokur"]["scores"] = {"eu": 9.0, "eu_mean": 0.1}
    lines[1]["tokur"]["scores"] = {"eu": 1.0, "eu_mean": 0.2}
    code, selected, err = select(lines, "--by", "eu", "--method", "bon")
    assert (code, selected[0]["tokur"]["answer"]) == (0, "2")
    assert err[0] == "eu adds up over tokens and favours short responses; the paper selects by eu_mean"
    code, selected, err = select(lines, "--method", "bon")
    assert (code, selected[0]["tokur"]["answer"], len(err)) == (0, "1", 1)


rows = st.lists(
    st.tuples(
        st.sampled_from(["q1", "q2", "q3"]),
        st.integers(0, 6),
        st.one_of(st.none(), st.sampled_from(["1", "1.0", "2", "50%", "50", "1/2", "C"])),
        st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.5])),
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda row: row[:2],
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.randoms(), st.sampled_from(["maj", "wbon", "bon"]), st.sampled_from(["10%", "60%", "100%"]))
def test_the_order_of_the_input_changes_nothing(select, rows, rng, method, keep):
    lines = [response(name, sample, answer, score) for name, sample, answer, score in rows]
    outcomes = []
    for _ in range(2):
        rng.shuffle(lines)
        code, selected, err = select(lines, "--method", method, "--keep", keep, "--skip-invalid")
        outcomes.append((code, sorted(selected, key=lambda one: one["id"]), [line for line in err if "Pass@" in line]))
    assert outcomes[0] == outcomes[1]


def shuffled_questions(count=5, samples=12, seed=0):
    rng = random.Random(seed)
    answers = ["18", "18.0", "7", "1/2", None]
    return [
        response(f"q{n}", sample, rng.choice(answers), rng.choice([0.1, 0.2, rng.random()]))
        for n in range(count)
        for sample in range(samples)
    ]


@pytest.mark.parametrize("extra", [[], ["--records"]])
def test_grouped_gives_what_gathering_gives(select, extra):
    lines = shuffled_questions()
    assert select(lines, *extra) == select(lines, "--grouped", *extra)


def test_grouped_refuses_a_question_that_comes_back(select):
    lines = question("q1", ["1"]) + question("q2", ["2"]) + question("q1", ["3"])
    for options in ([], ["--skip-invalid"]):
        code, selected, err = select(lines, "--grouped", *options)
        assert code == 1
        assert [one["id"] for one in selected] == ["q1", "q2"]
        assert err[-1].endswith("scored.jsonl:3: question q1 comes back after another one: leave out --grouped")


def test_records_writes_all_back_in_their_order_with_what_became_of_them(select):
    lines = question("q1", ["18", "7", "18.0", None], scores=[0.3, 0.1, 0.2, 0.4]) + question("q2", ["5"])
    lines = [lines[0], lines[4], *lines[1:4]]
    lines[0]["tokur"]["token_ids"] = [1, 2]
    code, records, _ = select(lines, "--records", "--keep", "75%", "--method", "wbon", "--weight", "rank")
    assert code == 0
    verdicts = [one["tokur"].pop("select") for one in records]
    assert records == lines, "nothing else changes, token arrays included"
    keys = ["drawn", "kept", "weight", "answer", "class", "rank", "chosen"]
    assert [list(verdict.values()) for verdict in verdicts] == [
        [True, True, 1.0, "18", "18", 3, False],
        [True, True, 1.0, "5", "5", 1, True],
        [True, True, 3.0, "7", "7", 1, True],  # 3 against 2 + 1: the class with the more confident one
        [True, True, 2.0, "18.0", "18", 2, False],
        [True, False, 0.0, None, None, 4, False],
    ]
    assert all(list(verdict) == keys for verdict in verdicts)


def test_select_keeps_the_values_and_the_order_of_fields(run_tokur, tmp_path):
    line = (
        b'{"id": "q1", "n":1.10, "big":12345678901234567890, "x": "\\u00e9", "response":"18", "tokur":{"sample":0}}\n'
    )
    path = write_lines(tmp_path / "in.jsonl", [line])
    for options in ([], ["--records"]):
        code, out, _ = run_tokur("select", path, "--keep", "100%", *options)
        assert code == 0
        assert out.startswith('{"id":"q1","n":1.1,"big":12345678901234567890,"x":"é","response":"18",')


def test_plain_majority_needs_no_score_at_all(select):
    lines = [{"question": "How many?", "response": f"answer: {answer}"} for answer in (2, 3, 3)]
    code, selected, err = select(lines, "--keep", "100%", "--method", "maj")
    assert (code, [one["tokur"]["answer"] for one in selected]) == (0, ["3"])
    assert err == ["3 records without an id: grouped by prompt"]


@pytest.mark.parametrize("value", [None, "absent", "no scores"])
def test_a_missing_score_is_not_made_up(select, value):
    lines = question("q1", ["1", "2", "2"], scores=[0.5, 0.1, 0.1])
    for line in lines[1:]:
        if value == "absent":
            line["tokur"]["scores"] = {"ll": 1.0}
        elif value == "no scores":
            del line["tokur"]["scores"]
        else:
            line["tokur"]["scores"]["eu_mean"] = value
    encoded = [json.dumps(line).encode() + b"\n" for line in lines]
    for options in (["--keep", "99%"], ["--keep", "100%", "--method", "wbon"], ["--keep", "100%", "--method", "bon"]):
        code, selected, err = select(encoded, *options)
        assert (code, selected[0]["tokur"]["answer"], selected[0]["tokur"]["kept"]) == (0, "1", 1)
        assert err[0] == "2 of 3 responses without a finite eu_mean: they cannot be kept"
    code, selected, err = select(encoded, "--keep", "100%")
    assert (code, selected[0]["tokur"]["answer"]) == (0, "2")
    assert err[0] == "2 of 3 responses without a finite eu_mean: they rank last"


def test_a_question_of_which_nothing_can_be_kept_is_an_error(select):
    lines = question("q1", ["1"]) + question("q2", ["18", "18"]) + question("q3", ["18"])
    for line in lines[1:3]:
        line["tokur"]["scores"] = {"pe": 1.0, "ll": -1.0, "mine": 2}
    code, selected, err = select(lines)
    assert (code, [one["id"] for one in selected]) == (1, ["q1"])
    assert err[-1].endswith(
        "scored.jsonl:2: question q2: no response has a finite eu_mean, so that none can be kept: --by one of ll, pe"
    )
    code, selected, err = select(lines, "--skip-invalid")
    assert (code, [one["id"] for one in selected]) == (3, ["q1", "q3"])
    assert err[-2:] == [
        "accuracy 33.33%, majority 66.67%, Pass@1 66.67%, Pass@N 66.67% (3 questions)",
        "skipped 1 invalid record",
    ]
    code, _, err = select([{"id": "q1", "response": "1"}])
    assert code == 1
    assert err[-1].endswith("none can be kept: run tokur score first, or --keep 100% --method maj")


def test_select_says_what_is_odd_about_its_input(select):
    lines = question("q1", ["18", "7", "18"]) + question("q2", ["18", "7", "18"]) + question("q3", ["18", "7"])
    lines += [lines[0], response("q1", 1, "9", 0.0)]  # a copy, and another response under a known number
    code, selected, err = select(lines, "--keep", "100%")
    assert (code, [one["tokur"]["n"] for one in selected]) == (0, [3, 3, 2])
    assert err[:-1] == [
        "2 duplicates of (id, sample) left out (first q1: sample 0): records of several runs need different ids or "
        "samples",
        "2 questions with 3 responses, 1 with another number (2 to 3)",
    ]


def test_select_takes_records_of_one_prompt_as_samples_of_one_question(select):
    """A running id a row; each is sample 0 of its id, and none is a duplicate of another."""
    lines = [{**one, "id": f"row-{n}"} for n, one in enumerate(question("q1", ["7", "18", "18"]))]
    for line in lines:
        line["tokur"]["sample"] = 0
    code, selected, err = select(lines)
    assert (code, [(one["tokur"]["answer"], one["tokur"]["n"]) for one in selected]) == (0, [("18", 3)])
    assert err[0] == "3 records have the prompt of another id: they count as samples of 1 question"


def test_select_majority_counts_a_tie_at_its_expectation(select):
    # both answers have one vote; 7 is the more confident, 18 the lower sample
    lines = question("q1", ["18", "7"], scores=[0.9, 0.1])
    _, selected, err = select(lines, "--keep", "100%")
    assert selected[0]["tokur"]["answer"] == "7"
    assert err == ["accuracy 0.00%, majority 50.00%, Pass@1 50.00%, Pass@2 100.00% (1 question)"]


def test_a_letter_is_looked_for_where_the_reference_is_one(select):
    text = "Of all of these, (B) fits 12 of them best."
    line = {"id": "q1", "response": text, "reference": "B"}
    assert select([line], "--keep", "100%")[1][0]["tokur"]["answer"] == "B"
    assert select([{**line, "reference": "12"}], "--keep", "100%")[1][0]["tokur"]["answer"] == "12"


def test_questions_without_a_readable_reference_are_left_out_of_the_summary(select):
    lines = question("q1", ["18"]) + question("q2", ["18"])
    del lines[1]["reference"]
    assert "(1 question)" in select(lines)[2][-1]
    del lines[0]["reference"]
    assert select(lines)[2] == []


@pytest.mark.parametrize("limit", ["time", "memory"])
def test_answers_that_could_not_be_compared_are_neither_right_nor_wrong(select, monkeypatch, limit):
    monkeypatch.setattr(WorkerPool, "map", lambda self, requests: [OutOfLimits(limit) for _ in requests])
    lines = [{**line, "reference": "x^2 + 3x"} for line in question("q1", ["x(x+3)", "x(x+3)"])]
    code, selected, err = select([*lines, *question("q2", ["18"])], "--keep", "100%")
    assert code == 0
    assert [one["tokur"]["answer"] for one in selected] == ["x(x+3)", "18"]
    assert err[-1].startswith("accuracy 100.00% (1 question, 1 without labels left out)")


def test_responses_that_do_not_mark_their_answer_in_words_are_counted(select):
    texts = ["It rained all day.", "There were 5 of them.", "The answer is Paris.", "The answer is Rome."]
    lines = [
        {**response("q1", sample, "?", 0.1), "reference": "Paris", "response": text}
        for sample, text in enumerate(texts)
    ]
    numbers = [{**response("q2", 0, None, 0.1), "reference": "7"}]  # as wrong, but its reference is no word
    _, _, err = select([*lines, *numbers], "--keep", "100%")
    said = 'count as incorrect whose reference is words and which do not mark their answer ("The answer is …")'
    assert f"2 responses {said}" in err
    _, _, err = select(lines[1:], "--keep", "100%")
    said = "1 response counts as incorrect whose reference is words and which does not mark its answer"
    assert said in str(err)
    _, _, err = select(lines[2:], "--keep", "100%")
    assert "as incorrect" not in " ".join(err)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "certainty"], "--by: unknown score certainty; did you mean self_certainty?"),
        (["--weight", "rank"], "--weight needs --method wbon"),
        (["--format", "csv"], "--format csv: there is no such format"),
        (["--method", "best"], "--method: 'best' is not one of"),
    ],
)
def test_wrong_options_are_usage_errors(select, options, message):
    code, selected, err = select(question("q1", ["1"]), *options)
    assert (code, selected) == (2, [])
    assert message in " ".join(err)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"{broken\n", "is not valid JSON"),
        ({"id": "q1", "question": "Question q1?"}, '"response" is missing'),
        ({"response": "1"}, 'has no "id", "question", "messages" or "prompt"'),
        (response("q1", -1, "1", 0.1), '"tokur.sample" is -1, not a whole number from 0'),
        (response("q1", 0, "1", "low"), '"tokur.scores.eu_mean" is a string, not a number'),
        (response("q1", 0, "1", True), '"tokur.scores.eu_mean" is a boolean, not a number'),
        (response("q1", 0, "1", 0.1) | {"tokur": {"scores": [1]}}, '"tokur.scores" is a list, not an object'),
        (response("q1", 0, "1", 0.1) | {"tokur": {"schema": 2}}, "was written with schema 2"),
        (response("q1", 0, "1", 0.1) | {"question": "Another?"}, "has the id of another question (q1: see line 1)"),
        (response("q1", 0, "1", 0.1) | {"reference": "19"}, 'has the reference "19", but its question q1 has "18"'),
        ({"id": "q1", "response": "\ud800"}, "a lone surrogate"),
    ],
)
def test_a_bad_record_ends_the_command_or_is_skipped_and_counted(select, bad, message):
    lines = [*question("q1", ["1", "2"]), bad, *question("q2", ["3"])]
    code, selected, err = select(lines)
    assert (code, selected) == (1, [])  # any question might have gone on
    assert message in err[-1]
    assert "scored.jsonl:3:" in err[-1]
    code, selected, err = select(lines, "--grouped")
    assert code == 1
    code, selected, err = select(lines, "--skip-invalid")
    assert (code, [one["id"] for one in selected]) == (3, ["q1", "q2"])
    assert message in err[0]
    assert err[-1] == "skipped 1 invalid record"
    assert select(lines, "--skip-invalid", "--grouped")[:2] == (code, selected)


def test_grouped_writes_the_questions_before_a_bad_record(select):
    code, selected, _ = select(
        [*question("q1", ["1"]), *question("q2", ["2"]), *question("q3", ["3"]), b"x\n"], "--grouped"
    )
    assert (code, [one["id"] for one in selected]) == (1, ["q1", "q2"])


def test_output_goes_to_a_file_that_is_not_the_input(run_tokur, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", question("q1", ["1"]))
    whole = path.read_bytes()
    code, out, err = run_tokur("select", path, "-o", path)
    assert (code, out, path.read_bytes()) == (2, "", whole)
    assert "is also an input" in err
    output = tmp_path / "out.jsonl"
    output.write_text("old\n" * 100)
    assert run_tokur("select", path, "-o", output)[0] == 2
    assert output.read_text() == "old\n" * 100
    code, out, _ = run_tokur("select", path, "-o", output, "--force")
    assert (code, out) == (0, "")
    assert [one["id"] for one in parsed(output.read_text())] == ["q1"]
    code, _, _ = run_tokur("select", write_lines(path, [b"broken\n"]), "-o", output, "--force")
    assert code == 1
    assert [one["id"] for one in parsed(output.read_text())] == ["q1"], "a run that fails leaves the file as it was"


def test_foreign_rows_are_selected_from(run_tokur):
    rows = Path(__file__).parent.parent / "data/formats/lm_eval_new.jsonl"
    code, out, _ = run_tokur("select", rows, "--keep", "100%")
    assert code == 0
    assert all("answer" in one["tokur"] for one in parsed(out))


def test_what_score_writes_is_selected_from(run_tokur, tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", question("q1", ["1", "2", "2"]) + question("q2", ["18", "18", "3"]))
    code, scored, _ = run_tokur("score", given, "-m", tiny_folder, "--no-tokens")
    assert code == 0
    path = tmp_path / "scored.jsonl"
    path.write_text(scored)
    best = {}
    for one in parsed(scored):
        scores = one["tokur"]["scores"]
        best[one["id"]] = min(best.get(one["id"], (math.inf, "")), (scores["eu_mean"], one["response"]))
    code, out, _ = run_tokur("select", path, "--keep", "10%")
    assert code == 0
    assert {one["id"]: one["response"] for one in parsed(out)} == {name: text for name, (_, text) in best.items()}


def test_selecting_imports_no_heavy_library(tmp_path):
    path = write_lines(tmp_path / "in.jsonl", question("q1", ["1", "1/2", "C", "50%"]))
    program = (
        "import sys; from tokur_cli.app import main\n"
        f"sys.argv = ['tokur', 'select', {str(path)!r}]\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(sorted({'torch', 'transformers', 'accelerate', 'sklearn', 'scipy', 'sympy', 'math_verify'} & "
        "set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stderr.splitlines()[-1] == "[]"


def test_grouped_writes_a_question_as_soon_as_the_next_one_begins(tmp_path):
    process = start(["select", "--grouped"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in question("q1", ["1", "2"]) + question("q2", ["3"]):
        process.stdin.write(json.dumps(line).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == "q1"
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, [one["id"] for one in parsed(out.decode())]) == (0, ["q2"])


def test_a_closed_pipe_is_a_normal_end(tmp_path):
    lines = [one for n in range(3000) for one in question(f"q{n}", ["1"])]
    given = write_lines(tmp_path / "in.jsonl", lines)
    process = start(["select", given], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0
