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


def test_guide_records_tell_how_they_came_about(run_tokur, tiny_folder, asked):
    code, out, err = run_tokur("generate", asked, "-m", tiny_folder, *GUIDED, "eu", "--guide-temperature", "auto")
    assert code == 0
    records = parsed(out)
    assert [(r["id"], r["tokur"]["sample"]) for r in records] == [(f"q{n}", s) for n in range(5) for s in range(4)]
    for record in records:
        generation, particle = record["tokur"]["generation"], record["tokur"]["particle"]
        assert (generation["guide"], generation["guide_temperature"], generation["temperature"]) == ("eu", "auto", 0.8)
        assert generation["posterior"]["draws"] == 2
        assert len(particle["ends"]) == len(particle["ancestors"]) + 1
        assert particle["ends"][-1] == len(record["tokur"]["token_ids"])
    assert len({(record["id"], record["tokur"]["particle"]["root"]) for record in records}) < len(records)
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
