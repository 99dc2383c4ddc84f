import errno
import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.selection import gathering as module
from tokur_cli.selection.gathering import Candidate, Question, QuestionStore, draw, question_key


def record(number=1, **fields):
    return Record.parse(json.dumps(fields).encode(), "in.jsonl", number)


def question(responses, key="id q1"):
    return Question(key, "q1", None, [], "in.jsonl", 1, responses)


def numbered(count):
    return [Candidate(None, None, sample=sample, digest=sample) for sample in range(count)]


def unnumbered(digests):
    return [Candidate(None, None, digest=digest) for digest in sorted(digests)]


def gather(*records, whole=False):
    gathering = QuestionStore(whole=whole)
    for one in records:
        gathering.add(question_key(one), one, Candidate(one.get("response"), None))
    return gathering


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 5))
def test_a_draw_has_n_different_responses_or_all(count, wanted, seed):
    responses = numbered(count)
    drawn = [response.sample for response in draw(question(responses), responses, wanted, seed)]
    assert drawn == sorted(set(drawn))
    assert len(drawn) == min(count, wanted)


def test_smaller_draws_are_part_of_larger_ones_and_missing_samples_do_not_move_the_others():
    responses = numbered(64)
    large = {r.sample for r in draw(question(responses), responses, 32, seed=0)}
    small = {r.sample for r in draw(question(responses), responses, 8, seed=0)}
    assert small < large
    rest = [r for r in responses if r.sample not in small]
    assert {r.sample for r in draw(question(rest), rest, 24, seed=0)} == large - small


def test_draws_differ_between_seeds_and_between_questions():
    responses = numbered(64)
    draws = [
        tuple(r.sample for r in draw(question(responses, f"id {name}"), responses, 8, seed))
        for name in ("q1", "q2", "q12")
        for seed in (0, 1, 2, 20)
    ]
    assert len(set(draws)) == len(draws)


@pytest.mark.parametrize("responses", [numbered(10), unnumbered([7] * 5 + [9] * 5)], ids=["numbered", "copies"])
def test_every_response_is_drawn_equally_often(responses):
    seeds = 4000
    counts = Counter(id(r) for seed in range(seeds) for r in draw(question(responses), responses, 3, seed))
    # binomial with p = 0.3: 5 standard deviations are 0.036
    assert all(counts[id(r)] / seeds == pytest.approx(0.3, abs=0.036) for r in responses)


def test_pairs_are_drawn_equally_often():
    responses = numbered(6)
    seeds = 6000
    pairs = Counter(tuple(r.sample for r in draw(question(responses), responses, 2, seed)) for seed in range(seeds))
    assert len(pairs) == 15
    assert all(count / seeds == pytest.approx(1 / 15, abs=0.017) for count in pairs.values())


@settings(max_examples=50)
@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.sampled_from("abc")), max_size=12), st.randoms())
def test_which_duplicate_stays_does_not_depend_on_the_order(rows, rng):
    lines = [{"id": "q", "response": text, "tokur": {} if n is None else {"sample": n}} for n, text in rows]
    outcomes = []
    for _ in range(2):
        rng.shuffle(lines)
        with gather(record(id="q", response="first"), *(record(**line) for line in lines)) as gathering:
            kept, left_out = gathering.questions["id q"].without_duplicates()
            outcomes.append([(r.sample, r.answer) for r in kept])
            assert len(kept) + len(left_out) == len(rows) + 1
    assert outcomes[0] == outcomes[1]
    samples = [sample for sample, _ in outcomes[0] if sample is not None]
    assert samples == sorted(set(samples))
    assert len(outcomes[0]) - len(samples) == 1 + sum(n is None for n, _ in rows)


def test_records_without_an_id_belong_together_by_their_prompt():
    turns = [{"role": "user", "content": "How many?"}]
    keys = [
        question_key(record(question="How many?", response="1")),
        question_key(record(question="How many?", response="2")),
        question_key(record(question="How much?", response="2")),
        question_key(record(messages=[*turns, {"role": "assistant", "content": "1"}])),
        question_key(record(messages=[*turns, {"role": "assistant", "content": "2"}])),
        question_key(record(prompt="How many?", completion="2")),
        question_key(record(id="How many?")),
        question_key(record(id=7)),
        question_key(record(id="7")),
    ]
    assert [keys.index(key) for key in keys] == [0, 0, 2, 3, 3, 0, 6, 7, 7]


def test_a_record_with_neither_id_nor_prompt_is_an_error():
    with pytest.raises(RecordError, match=r'in.jsonl:4: has no "id"'):
        question_key(record(4, response="1"))


def test_one_id_for_two_questions_is_an_error_that_names_both_lines():
    alike = (record(line, id="q1", response=str(line), question="How many?") for line in (4, 5))
    with gather(record(3, id="q1", response="1"), *alike, record(6, id="q1", response="1")) as gathering:
        assert len(gathering.questions["id q1"].responses) == 4
        other = record(8, id="q1", question="How much?", response="1")
        with pytest.raises(RecordError, match=r"in.jsonl:8: has the id of another question \(q1: see line 3\)"):
            gathering.add("id q1", other, Candidate("1", None))


def test_turns_with_ids_of_their_own_are_the_same_question():
    """As in an Inspect log, where each epoch's system turn has another."""
    turns = [[{"role": "user", "content": "How many?", "id": name}] for name in ("a", "b")]
    given = (record(line, id="q1", response="1", messages=said) for line, said in enumerate(turns, start=1))
    with gather(*given) as gathering:
        assert len(gathering.questions["id q1"].responses) == 2


def test_two_references_for_one_question_are_an_error_and_none_is_not():
    with gather(
        record(1, id="q1", response="1"), record(2, id="q1", reference="5", response="1"), record(3, id="q1")
    ) as gathering:
        with pytest.raises(RecordError, match=r'in.jsonl:4: has the reference "6", but its question q1 has "5"'):
            gathering.add("id q1", record(4, id="q1", reference=6, response="1"), Candidate("1", None))
        assert gathering.questions["id q1"].references == ["5"]
        assert len(gathering.questions["id q1"].responses) == 3


@pytest.mark.parametrize("in_memory", [0, 1000, 1 << 20])
def test_records_come_back_as_they_were_from_memory_and_from_a_file(monkeypatch, in_memory):
    monkeypatch.setattr(module, "_IN_MEMORY", in_memory)
    rng = random.Random(0)
    lines = [
        b'{"id": "q%d",  "response": "%s\\n\xe2\x80\xa8", "big": 1e400, "tokur": {"token_ids":[1,2],"sample":%d}}'
        % (n % 3, b"x" * rng.randint(0, 300), n)
        for n in range(60)
    ]
    with gather(*(Record.parse(line, "f", 1) for line in lines), whole=True) as gathering:
        assert [gathering.record(r).encode() for r in gathering.in_input_order()] == lines
        responses = list(gathering.in_input_order())
        rng.shuffle(responses)
        assert all(gathering.record(r).encode() == lines[r.sample] for r in responses)
        gathering.clear()
        gathering.add("id q1", Record.parse(lines[5], "f", 1), Candidate(None, None))
        assert [gathering.record(r).encode() for r in gathering.in_input_order()] == [lines[5]]


def test_token_arrays_are_dropped_from_the_text_and_nothing_else_is():
    given = (
        b'{"id":"q","x": 1.10,"tokur":{"tokens":{"eu":[1]},"token_ids":[1],"sample":2,"prompt_token_ids":[1],"run":{}}}'
    )
    with gather(Record.parse(given, "f", 1)) as gathering:
        (response,) = gathering.in_input_order()
        assert gathering.record(response).encode() == b'{"id":"q","x": 1.10,"tokur":{"sample":2,"run":{}}}'


def test_a_full_disk_is_an_error_that_says_what_to_do(monkeypatch):
    def refuse(data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with gather(record(id="q", response="1")) as gathering:
        monkeypatch.setattr(gathering._spool._file, "write", refuse)
        with pytest.raises(TokurError, match=r"No space left.*TMPDIR.*--grouped"):
            gathering.add("id q", record(id="q", response="2"), Candidate("2", None))
