"""``tokur evaluate --scaling``: the accuracy of votes among N responses."""

import pytest

from tests.commands.evaluate.rows import samples, scored, without_id


def test_scaling_takes_the_most_confident_and_the_whole_set_has_no_spread(evaluate):
    _, (row, plain), _ = evaluate(samples(), options=["--scaling", "4,1", "--keep", "25%", "--repeats", 5])
    assert plain["score"] is None
    points = {(point["method"], point["n"]): point for point in row["scaling"] + plain["scaling"]}
    assert points["maj", 4] == {"method": "maj", "n": 4, "mean": 1.0, "std": 0.0, "accuracies": [1.0] * 5}
    assert points["wbon", 4]["mean"] == 1.0
    assert points["pass@1", 4]["mean"] == 0.5
    assert points["pass@n", 4]["mean"] == 1.0
    assert 0 <= points["pass@1", 1]["mean"] <= 1
    # 2 : 2 votes; the class with the more confident response wins for a score, the lower sample without one:
    # of question a that is 7, of b, whose samples are numbered backwards, also 7
    assert points["majority", 4]["mean"] == 1.0


def test_a_score_that_few_responses_have_is_missing_at_small_n_and_drawn_at_large_n(evaluate, tmp_path):
    pytest.importorskip("matplotlib")
    records = [
        {**scored(0, 0.1, response="7", reference="7"), "tokur": {"sample": sample, "scores": {"ll": -sample}}}
        for sample in range(64)
    ]
    records[0]["tokur"]["scores"]["eu"] = 0.1
    options = ["--scaling", "1,64", "--repeats", 1, "--as", "latex", "--plot", tmp_path / "plots"]
    code, text, _ = evaluate(records, options=options)
    assert code == 0
    assert [line for line in text.split("\n") if line.startswith("eu &")][-2:] == ["eu & -- & 100.00 \\\\"] * 2
    assert (tmp_path / "plots" / "scaling-maj.svg").exists()


def test_numbers_of_responses_are_taken_once_and_in_order(evaluate):
    _, rows, _ = evaluate(samples(), options=["--scaling", "4, 1,4,2,1", "--repeats", 3])
    for row in rows:
        sizes = {}
        for point in row["scaling"]:
            assert len(point["accuracies"]) == 3
            sizes.setdefault(point["method"], []).append(point["n"])
        assert all(found == [1, 2, 4] for found in sizes.values())


def test_scaling_needs_to_know_the_question(evaluate):
    records = [{"correct": True, "response": "7", "tokur": {"scores": {"eu": 1}}}]
    code, _, err = evaluate(records, options=["--scaling", "2"])
    assert code == 1
    assert 'in0.jsonl:1: has no "id", "question", "messages" or "prompt"' in err


def test_scaling_knows_questions_without_ids_by_their_prompts(evaluate):
    options = ["--scaling", "4,2", "--keep", "50%"]
    _, by_id, _ = evaluate(samples(), options=options)
    _, by_prompt, _ = evaluate(without_id(samples()), options=options)
    assert by_prompt == by_id


def test_scaling_without_any_labelled_question_is_an_error(evaluate):
    records = list(samples())
    records[0]["reference"] = records[4]["reference"] = None
    code, _, err = evaluate(records, options=["--scaling", "2"])
    assert code == 1
    assert "every question has a response without a label" in err


def settled_and_not(questions=10):
    """Eight samples each: of even questions all agree and are right, of odd ones two answers come in turn."""
    for number in range(questions):
        for sample in range(8):
            answer = "7" if number % 2 == 0 or sample % 2 else "5"
            record = scored(0, 0.1 * sample, response=f"The answer is {answer}", reference="7")
            record["tokur"] |= {"sample": sample}
            record["tokur"]["scores"]["neg_length"] = -10.0
            yield {**record, "id": f"q{number}"}


def test_votes_that_are_settled_end(evaluate):
    options = ["--scaling", "2,8", "--stop-at", "0.95,0.99", "--scores", "eu"]
    _, (row, plain), _ = evaluate(settled_and_not(), options=options)
    assert "stopping" not in row
    first, second = plain["stopping"]
    assert (first["stop_at"], second["stop_at"], first["n"]) == (0.95, 0.99, 8)
    assert 0.5 <= first["settled"]["value"] <= 0.7
    assert first["samples"]["value"] == first["tokens"]["value"] >= (4 + 6) / 16
    assert 0.5 <= second["accuracy"]["value"] <= 1
    assert {"value", "low", "high", "p"} <= first["difference"].keys()
    _, text, _ = evaluate(settled_and_not(), options=[*options, "--as", "table"])
    assert "The vote ends when it is settled, at most N = 8 (%) with 95 % intervals" in text
    assert "stop at 0.95" in text


def test_unsure_responses_end_where_tokens_tell(evaluate):
    """The unsure responses are wrong and most; a quarter of the median of 36 tokens is a window of 9."""
    records = list(settled_and_not())
    for place, record in enumerate(records):
        count, confidence = (12, 4.0) if place % 8 < 3 else (36, 2.9)
        text = f"The answer is {7 if confidence == 4 else 5}"
        record["response"] = text + "." * (count - len(text)) if count > len(text) else text
        spans = [[min(n, len(record["response"])), min(n + 1, len(record["response"]))] for n in range(count)]
        record["tokur"]["tokens"] = {"offsets": spans, "deepconf": [confidence] * count}
        record["tokur"]["scores"]["neg_length"] = -float(count)
    options = ["--scaling", "8", "--stop-at", "0.95", "--scores", "eu", "--repeats", "200"]
    _, (_, plain), _ = evaluate(records, options=options)
    _, high, low = plain["stopping"]
    assert [high[name] for name in ("stop_at", "by", "whole", "window")] == [0.1, "deepconf", 4, 9]
    assert (low["stop_at"], high["settled"]["value"], high["samples"]["value"]) == (0.9, None, 1)
    # A sure one is among the first four but for C(5, 4) of C(8, 4) orders: then all others end, and it is right
    assert high["accuracy"]["value"] == pytest.approx(65 / 70, abs=0.05)
    assert high["tokens"]["value"] < low["tokens"]["value"] <= 1
    _, text, _ = evaluate(records, options=[*options, "--as", "table"])
    assert "DeepConf, 10 %" in text
    assert "4 responses are drawn whole" in text
    del records[5]["tokur"]["tokens"]
    _, (_, plain), _ = evaluate(records, options=options)
    assert len(plain["stopping"]) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scaling", "4", "--stop-at", "95"], "--stop-at 95: give probabilities between 0.5 and 1, such as 0.9,0.95"),
        (["--scaling", "4", "--stop-at", "0.9,x"], "--stop-at 0.9,x: give probabilities"),
        (["--scaling", "4", "--stop-at", ""], "--stop-at : give probabilities"),
    ],
)
def test_what_is_not_a_way_to_stop_is_refused(evaluate, options, said):
    code, _, err = evaluate(settled_and_not(1), options=options)
    assert code == 2
    assert said in err
