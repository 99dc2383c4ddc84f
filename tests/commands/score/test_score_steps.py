"""``tokur score --steps``: what is said of each step is what its tokens say."""

import pytest

from tests.helpers import parsed, write_lines

TEXT = "We add. 2 + 3 = 5\nSo 5.\n\nDone"
BY = {
    "auto": ["We add. ", "2 + 3 = 5\n", "So 5.\n\n", "Done"],
    "lines": ["We add. 2 + 3 = 5\n", "So 5.\n\n", "Done"],
    r"\n\n": ["We add. 2 + 3 = 5\nSo 5.\n\n", "Done"],
}
LESS_SURE = {"eu": 1, "au": 1, "tu": 1, "entropy": 1, "logprob": -1, "self_certainty": -1, "deepconf": -1}


@pytest.fixture
def response(tmp_path):
    return write_lines(tmp_path / "response.jsonl", [{"question": "2 + 3?", "response": TEXT}])


@pytest.mark.parametrize("by", BY)
def test_each_step_says_what_its_tokens_say(run_tokur, tiny_folder, response, by):
    code, out, err = run_tokur("score", response, "-m", tiny_folder, f"--steps={by}")
    assert code == 0, err
    tokur = parsed(out)[0]["tokur"]
    assert list(tokur) == ["schema", "tokens", "step_by", "steps", "scores", "run"]
    assert tokur["step_by"] == by
    assert [TEXT[step["start"] : step["end"]] for step in tokur["steps"]] == BY[by]
    tokens = tokur["tokens"]
    for step in tokur["steps"]:
        own = [place for place, (start, _) in enumerate(tokens["offsets"]) if step["start"] <= start < step["end"]]
        assert set(step) == {"start", "end", *LESS_SURE}
        for name, sign in LESS_SURE.items():
            values = [tokens[name][place] for place in own]
            least_sure = sorted(values, key=lambda value, sign=sign: -sign * value)[:5]
            assert step[name]["sum"] == pytest.approx(sum(values), rel=1e-5)
            assert step[name]["mean"] == pytest.approx(sum(values) / len(values), rel=1e-5)
            assert step[name]["max"] == pytest.approx(least_sure[0], rel=1e-5)
            assert step[name]["top5"] == pytest.approx(sum(least_sure) / len(least_sure), rel=1e-5)
