"""Phrases in 27 languages with the answers that a careful reader takes from them, written without sight of the code."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tokur_cli.answers.equivalence import Comparison, Equivalence
from tokur_cli.answers.extraction import extract_answer, wanted_by
from tokur_cli.answers.workers import WorkerPool

DATA = Path(__file__).parents[1] / "data" / "answers"


def phrases(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def equivalence():
    with Equivalence(WorkerPool(1, seconds=20)) as shared:
        yield shared


def outcome(phrase, equivalence):
    """Return how a phrase is read: as wanted, not at all though it could be, or as something else."""
    wanted = wanted_by(phrase["reference"]) or ("choice" if phrase["choices"] else None)
    found = extract_answer(phrase["response"], wanted=wanted)
    if found is None:
        return "as wanted" if phrase["reference"] is None else "not read"
    if phrase["reference"] is None:
        return "misread"
    references = [phrase["reference"], *phrase["wrong"]]
    right, *wrong = equivalence.compare([(reference, found.text) for reference in references])
    return "as wanted" if right is Comparison.EQUAL and Comparison.EQUAL not in wrong else "misread"


@pytest.mark.parametrize("phrase", phrases("phrases.jsonl"), ids=lambda phrase: phrase["response"][-40:])
def test_a_phrase_is_read_as_its_reader_reads_it(phrase, equivalence):
    assert outcome(phrase, equivalence) == "as wanted"


def test_of_phrases_that_the_grammar_was_not_made_with_few_are_misread(equivalence):
    unseen = phrases("unseen.jsonl")
    counts = Counter(outcome(phrase, equivalence) for phrase in unseen)
    assert counts["misread"] <= 0.07 * len(unseen)
    assert counts["as wanted"] >= 0.84 * len(unseen)
