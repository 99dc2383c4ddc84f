"""``tokur evaluate --scaling``: the accuracy of votes among N responses."""

from tests.commands.evaluate.rows import samples, scored


def test_scaling_takes_the_most_confident_and_the_whole_set_has_no_spread(evaluate):
    _, (row, plain), _ = evaluate(samples(), options=["--scaling", "4,1", "--keep", "25%", "--repeats", 5])
    assert plain["score"] is None
    points = {(point["method"], point["n"]): point for point in row["scaling"] + plain["scaling"]}
    assert points["maj", 4] == {"method": "maj", "n": 4, "mean": 1.0, "std": 0.0, "accuracies": [1.0] * 5}
    assert points["wbon", 4]["mean"] == 1.0
    assert points["pass@1", 4]["mean"] == 0.5
    assert points["pass@n", 4]["mean"] == 1.0
    assert 0 <= points["pass@1", 1]["mean"] <= 1
    assert points["majority", 4]["mean"] == 0.5  # 2 : 2 votes, a tie without a score


def test_scaling_is_the_vote_of_select(evaluate, run_tokur, tmp_path):
    """Unscored responses rank last and vote; a tie goes to the more confident, and without a score to nobody."""
    rows = [
        (question, sample, answer, score)
        for question in range(4)
        for sample, (answer, score) in enumerate(
            [(7, 0.5), (5, None), (5, None)] if question % 2 else [(7, 0.5), (5, 0.1)]
        )
    ]
    records = [
        {"id": f"q{q}", "question": f"{q}?", "reference": "5", "response": f"The answer is {answer}.",
         "tokur": {"sample": sample, "scores": {"eu": score}}}
        for q, sample, answer, score in rows
    ]  # fmt: skip
    options = ["--scaling", "3", "--keep", "10%,16", "--scores", "eu", "--repeats", 1, "--stop-at", "0.9"]
    _, (row, plain), _ = evaluate(records, options=options)
    points = {point["method"]: point["mean"] for point in row["scaling"] + plain["scaling"]}
    assert (points["maj"], points["majority"]) == (1.0, 0.75)
    assert plain["stopping"][0]["accuracy"]["value"] == 0.75
    _, _, err = run_tokur("select", tmp_path / "in0.jsonl", "--by", "eu")
    assert "accuracy 100.00%, majority 75.00%" in err


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
    assert "The vote ends when it is settled, at most N = 8 (%, 95 % CI, too narrow for fewer" in text
    assert "stop at 0.95" in text
