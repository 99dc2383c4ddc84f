"""``tokur generate --guide``: records, options, resuming, and what the other commands make of it."""

import pytest

from tests.helpers import parsed, questions, write_lines

STEPS = [
    *["--set", "step_end=a", "--set", "step_end=e", "--set", "step_tokens=6"],
    *["--max-new-tokens", "20", "--dtype", "float32"],
]
GUIDED = ["-n", "4", *STEPS, "--guide"]


@pytest.fixture
def asked(tmp_path):
    return write_lines(tmp_path / "questions.jsonl", questions())


def particles(out):
    """The records of each question."""
    by_question = {}
    for record in parsed(out):
        by_question.setdefault(record["id"], []).append(record["tokur"])
    return by_question


def test_guide_records_tell_how_they_came_about(run_tokur, tiny_folder, asked):
    code, out, err = run_tokur("generate", asked, "-m", tiny_folder, *GUIDED, "eu", "--guide-temperature", "auto")
    assert code == 0
    assert [(r["id"], r["tokur"]["sample"]) for r in parsed(out)] == [(f"q{n}", s) for n in range(5) for s in range(4)]
    copied = 0
    for records in particles(out).values():
        generation = records[0]["generation"]
        assert (generation["guide"], generation["guide_temperature"], generation["temperature"]) == ("eu", "auto", 0.8)
        assert generation["posterior"]["draws"] == 2
        rounds = len(records[0]["particle"]["ends"])
        lineages = [record["particle"] for record in records]
        for slot, record in enumerate(records):
            particle = record["particle"]
            assert len(particle["ends"]) == len(particle["scores"]) == len(particle["slot_scores"]) == rounds
            assert len(particle["ancestors"]) == len(particle["ess"]) == rounds - 1
            assert particle["ends"] == sorted(particle["ends"])
            assert particle["ends"][-1] == len(record["token_ids"])
            assert particle["scores"][-1] == particle["slot_scores"][-1]
            assert all(1 <= size <= 4 for size in particle["ess"])
            # Back from the last round: what a slot holds began as what its ancestor held
            places = [slot]
            for round_ in reversed(range(rounds - 1)):
                places.insert(0, lineages[places[0]]["ancestors"][round_])
            assert places[0] == particle["root"]
            for round_, place in enumerate(places):
                assert lineages[place]["slot_scores"][round_] == particle["scores"][round_]
            for other, other_record in enumerate(records):
                if particle["root"] != other_record["particle"]["root"]:
                    continue
                its = [other]
                for round_ in reversed(range(rounds - 1)):
                    its.insert(0, lineages[its[0]]["ancestors"][round_])
                common = sum(a == b for a, b in zip(places, its, strict=True))
                end = particle["ends"][common - 1]
                assert record["token_ids"][:end] == other_record["token_ids"][:end]
                copied += other != slot
            same = [other["token_ids"] for other in records].count(record["token_ids"])
            assert particle["copies"] == same
    assert copied
    assert "of 4 lineages are left at the end" in err


@pytest.mark.parametrize(("guide", "score"), [("eu", "eu_mean"), ("tu", "tu"), ("ll", "ll_sum")])
def test_guide_scoring_the_output_gives_the_last_score_again(run_tokur, tiny_folder, asked, tmp_path, guide, score):
    over = "sum" if score == "tu" or score.endswith("_sum") else "mean"
    _, out, _ = run_tokur("generate", asked, "-m", tiny_folder, *GUIDED, guide, "--guide-over", over)
    path = write_lines(tmp_path / "particles.jsonl", parsed(out))
    code, scored, err = run_tokur("score", path, "--dtype", "float32")
    assert (code, err) == (0, "")
    for record in parsed(scored):
        last = record["tokur"]["particle"]["scores"][-1]
        assert last == pytest.approx(record["tokur"]["scores"][score], rel=1e-4, abs=1e-6)
