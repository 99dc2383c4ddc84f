"""What is odd about the input of a selection is counted, with the first three examples, and nothing else is said."""

import pytest

from tokur_cli.selection.gathering import Candidate, Question
from tokur_cli.selection.notes import Notes
from tokur_cli.selection.voting import Rule, parse_keep


def noted(questions, *, keep="10%", count=None, key="id"):
    """The lines on questions, each a list of (sample, confidence)."""
    notes = Notes("eu_mean", Rule("maj", parse_keep(keep)), count)
    for name, responses in questions.items():
        found = [Candidate("7", value, sample=sample, digest=place) for place, (sample, value) in enumerate(responses)]
        kept = [one for place, one in enumerate(found) if one.sample not in [other.sample for other in found[:place]]]
        kept += [one for one in found if one.sample is None and one not in kept]
        duplicates = [one for one in found if one not in kept]
        question = Question(f"{key} {name}", name, None, [], "in.jsonl", 1, found)
        notes.look_at(question, kept, duplicates, kept if count is None else kept[:count])
    return notes.lines()


def samples(*numbers):
    return [(number, 0.5) for number in numbers]


def test_nothing_is_said_of_questions_with_all_samples_and_scores():
    assert noted({"a": samples(0, 1, 2), "b": samples(0, 1, 2)}) == []
    assert noted({"a": samples(0, 1), "b": samples(0, 1)}, count=2) == []
    assert noted({"a": samples(None, None)}) == []


@pytest.mark.parametrize(
    ("questions", "line"),
    [
        ({"a": samples(0, 1, 3)}, "1 sample missing (a: sample 2)"),
        ({"a": samples(1, 2)}, "1 sample missing (a: sample 0)"),
        ({name: samples(0, 3) for name in "abc"}, "6 samples missing (a: sample 1, b: sample 1, c: sample 1)"),
        ({name: samples(0, 2) for name in "abcd"}, "4 samples missing (a: sample 1, b: sample 1, c: sample 1, …)"),
        (
            {"a": samples(0, 0, 1), "b": samples(0, 1, 1, 1)},
            "3 duplicates of (id, sample) left out (a: sample 0, b: sample 1); "
            "records of several runs need different ids or samples",
        ),
        (
            {"a": samples(0, 1, None, None)},
            "2 responses without a sample number beside numbered ones (a): taken as different from them",
        ),
        (
            {"a": samples(0, 1), "b": samples(0, 1), "c": samples(0), "d": samples(0, 1, 2), "e": samples(0)},
            "2 questions have 2 responses, 3 have another number (c: 1, e: 1, d: 3)",
        ),
        ({"a": [(0, 0.5), (1, None)]}, "1 of 2 responses without a finite eu_mean, so that they cannot be kept (a: 1)"),
    ],
)
def test_what_is_odd_is_one_line(questions, line):
    assert noted(questions) == [line]


def test_questions_known_by_their_prompts_are_counted():
    assert noted({"at line 1": samples(0, 1)}, key="prompt") == ["2 records without an id: grouped by prompt"]


def test_fewer_responses_than_are_drawn_are_said():
    found = noted({"a": samples(0, 1), "b": samples(0, 1)}, count=3)
    assert found == ["2 questions with fewer than 3 responses, all taken (a: 2, b: 2)"]


def test_without_need_of_a_score_it_is_missed_only_where_others_have_it():
    some, none = {"a": [(0, 0.5), (1, None)]}, {"a": [(0, None), (1, None)]}
    assert noted(none, keep="100%") == []
    assert noted(some, keep="100%") == ["1 of 2 responses without a finite eu_mean, so that they rank last (a: 1)"]
