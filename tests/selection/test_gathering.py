"""Responses gathered by question: duplicates, text from memory and from a file."""

import errno
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.records.errors import TokurError
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record
from tokur_cli.selection import gathering as module
from tokur_cli.selection.gathering import Candidate, QuestionStore, without_duplicates

UNJUDGED = False, False, None, "comparison"


def gather(*lines, whole=False):
    gathering, questions = QuestionStore(whole=whole), Questions()
    for line in lines:
        record = Record.parse(line if isinstance(line, bytes) else json.dumps(line).encode(), "in.jsonl", 1)
        gathering.add(questions.of(record), record, Candidate(record.get("response"), None, *UNJUDGED))
    return gathering


@given(st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from(["a", "b", None])), min_size=1))
def test_without_duplicates_keeps_the_first_of_each_id_and_sample(rows):
    lines = [
        {"id": name, "question": "?", "response": str(place), "tokur": {} if n is None else {"sample": n}}
        for place, (n, name) in enumerate(rows)
    ]
    with gather(*lines) as gathering:
        ((_, responses),) = gathering.questions.values()
        kept, left_out = without_duplicates(responses)
    first = [place for place, row in enumerate(rows) if None in row or row not in rows[:place]]
    assert sorted(int(one.answer) for one in kept) == first
    assert len(left_out) == len(rows) - len(first)
    expected = sorted(first, key=lambda n: (1,) if rows[n][0] is None else (0, rows[n][0], rows[n][1] or ""))
    assert [int(one.answer) for one in kept] == expected


@pytest.mark.parametrize("in_memory", [0, 1000, 1 << 20])
def test_store_gives_records_back_as_they_were(monkeypatch, in_memory):
    monkeypatch.setattr(module, "_IN_MEMORY", in_memory)
    rng = random.Random(0)
    lines = [
        b'{"id":"q%d","response":"%s\\n\xe2\x80\xa8","big":12345678901234567890,"tokur":{"token_ids":[1,2],"sample":%d}}'
        % (n % 3, b"x" * rng.randint(0, 300), n)
        for n in range(60)
    ]
    with gather(*lines, whole=True) as gathering:
        responses = [one for _, of_question in gathering.questions.values() for one in of_question]
        rng.shuffle(responses)
        assert {one.sample: gathering.record(one).encode() for one in responses} == dict(enumerate(lines))
        gathering.clear()
        assert not gathering.questions


def test_store_drops_token_arrays_and_what_points_into_them():
    given = (
        b'{"id":"q","x":1.1,"tokur":{"tokens":{"eu":[1]},"alternatives":{"0":[]},"token_ids":[1],"sample":2,'
        b'"prompt_token_ids":[1],"run":{}}}'
    )
    with gather(given) as gathering:
        ((_, (response,)),) = gathering.questions.values()
        assert gathering.record(response).encode() == b'{"id":"q","x":1.1,"tokur":{"sample":2,"run":{}}}'


def test_store_on_a_full_disk_says_what_to_do(monkeypatch):
    def refuse(data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with gather() as gathering:
        monkeypatch.setattr(gathering._text, "write", refuse)
        record = Record.parse(b'{"id": "q"}', None, None)
        with pytest.raises(TokurError, match=r"No space left.*TMPDIR.*--grouped"):
            gathering.add(Questions().of(record), record, Candidate("2", None, *UNJUDGED))
