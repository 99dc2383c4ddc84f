"""The programs of the study in ``samples/steps``: labels by hand, and figures that find an effect only where one is."""

import importlib.util
import json
import re
import sys
import zlib

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.readmes import ROOT


def program(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "samples" / "steps" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where its dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("marked", "labels"),
    [
        ((6, 10), [True, True, False, None]),
        ((7, 13), [True, True, False, False]),
        ((2, 7), [True, False, None, None]),  # the blank before "c" is no part of it
        (None, [True, True, True, True]),
    ],
)
def test_steps_that_share_text_with_the_marked_one_are_wrong_and_later_ones_not_known(marked, labels):
    steps = list(program("make_champ").labelled_steps("a.\nbb.\nccc.\nd.", marked, "lines"))
    assert [step["correct"] for step in steps] == labels


def test_equations_are_labelled_by_arithmetic(monkeypatch, capsys):
    said = {
        "8 books + 2 more books = 10": True,
        "7 x 8 = 54": False,
        "1,000 - 1 = 999": True,
        "$5 * 3 = $15": True,
        "10 / 3 = 3.33": True,
        "10 / 3 = 3": False,
        "7 \\times 8 = 56": True,
        "4 ÷ 0 = 0": None,
    }
    response = ". ".join([*said, "2 + 3 + 4 = 9, so 1 + 2 = 3 + 4 and 3 = 3"])
    monkeypatch.setattr(sys, "stdin", [json.dumps({"response": response}), json.dumps({"response": "no equation"})])
    program("make_equations").main()
    (record,) = map(json.loads, capsys.readouterr().out.splitlines())
    found = {response[claim["start"] : claim["end"]]: claim["correct"] for claim in record["claims"]}
    assert found == {**said, "1 + 2 = 3": True}
    assert [response[claim["start"] : claim["end"]] for claim in record["results"]][:3] == ["10", "54", "999"]


def solutions(study, effect, count=300, seed=0):
    """Solutions whose doubt falls from step to step and grows with length, wrong steps with an effect of their own."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        steps = int(rng.integers(2, 9))
        length = rng.integers(4, 12, steps).astype(float)
        wrong = np.zeros(steps, dtype=bool)
        wrong[-1] = number % 4 > 0
        one = 0.2 * length - 0.3 * np.arange(steps) + effect * wrong + rng.normal(size=steps)
        doubt = np.column_stack([one] * (len(study.NAMES) - 1) + [length])
        found.append(study.Response(f"problem {number // 2}", doubt, length, wrong))
    return found


@pytest.mark.parametrize("effect", [0.0, 1.5])
def test_the_study_finds_an_effect_where_there_is_one_and_none_where_only_length_and_place_count(monkeypatch, effect):
    study = program("analyse")
    monkeypatch.setattr(study, "RESAMPLES", 100)
    pairs = study.Pairs(solutions(study, effect))
    value, (low, high) = study.study(pairs, 0, np.random.default_rng(0))
    within, beyond, partial = value[0, 0], (low[3, 0], high[3, 0]), (low[4, 0], high[4, 0])
    if effect:
        assert min(beyond) > 0
        assert min(partial) > 0
    else:
        assert within < 0.45  # the trend alone says that wrong steps are surer
        assert beyond[0] < 0 < beyond[1]
        assert partial[0] < 0 < partial[1]


def test_the_share_of_surer_steps_is_counted_by_hand():
    study = program("analyse")
    doubt = np.column_stack([[1.0, 2.0, 3.0, 2.0]] * len(study.NAMES))
    response = study.Response("p", doubt, np.array([10.0, 8.0, 12.0, 10.0]), np.array([False, False, False, True]))
    before = np.arange(3)
    assert study.above(response, 3, before, np.inf)[0] == pytest.approx((1 + 0.5 + 0) / 3)
    assert study.above(response, 3, before, 1.2)[0] == pytest.approx((1 + 0) / 2)  # 8 is a quarter less than 10
    assert np.isnan(study.above(response, 3, before[:0], 2.0)[0])


def test_what_is_chosen_on_one_half_has_its_figures_of_both(monkeypatch, capsys, tmp_path):
    rng, rows = np.random.default_rng(0), []
    for number in range(60):
        wrong = number % 3 == 0
        text = f"So 7 + 5 = {13 if wrong else 12}, that is {number}."
        tokens = {name: rng.exponential(size=len(text)) for name in ("eu", "au", "tu", "entropy")}
        tokens["au"][text.index("=") + 2] += wrong
        tokens["logprob"] = -rng.exponential(size=len(text)) - wrong * (np.arange(len(text)) > text.index("="))
        offsets = [[place, place + 1] for place in range(len(text))]
        whole, result = ({"start": 3, "end": 13}, {"start": 11, "end": 13, "correct": not wrong})
        arrays = {name: values.tolist() for name, values in tokens.items()}
        record = {"id": f"q{number // 2}", "response": text, "claims": [whole], "results": [result]}
        rows.append({**record, "tokur": {"tokens": {"offsets": offsets, **arrays}}})
    path = tmp_path / "equations.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    choose = program("choose")
    monkeypatch.setattr(choose, "RESAMPLES", 20)
    monkeypatch.setattr(sys, "argv", ["choose.py", f"again={path}"])
    choose.main()
    out, err = capsys.readouterr()

    wrong = np.array([not row["results"][0]["correct"] for row in rows])
    half = np.array([zlib.crc32(row["id"].encode()) % 2 for row in rows])
    assert f"half 1: {sum(half == 0)} equations, {sum(wrong[half == 0])} wrong," in err
    spans = {"equation": range(3, 13), "digits": (3, 7, 11, 12), "result": (11, 12), "first": (11,), "after": (10,)}

    def by_hand(row, kind, quantity, how):
        values = np.array(row["tokur"]["tokens"][quantity]) * (-1 if quantity == "logprob" else 1)
        if kind == "change":
            return values[11:13].mean() - values[3:9].mean()
        chosen = sorted(values[list(spans[kind])])
        of_all = {"sum": sum(chosen), "mean": np.mean(chosen), "max": chosen[-1], "top5": np.mean(chosen[-5:])}
        return of_all[how or "sum"]

    def aurocs(*of):
        found = np.array([by_hand(row, *of) for row in rows])
        return [100 * roc_auc_score(wrong[half == part], found[half == part]) for part in (0, 1)]

    row = re.compile(r"\| (\w+)(?:, (\w+))? \| `(\w+)`, again \| ([\d.]+) \| ([\d.]+) \[(.*?), (.*?)\] \| (\S+) ")
    shown = row.findall(out)
    assert len(shown) == 6 * 5
    assert [float(row[3]) for row in shown] == sorted((float(row[3]) for row in shown), reverse=True)
    beside = aurocs("result", "logprob", "sum")[1]
    for kind, how, quantity, first, second, low, high, gain in shown:
        expected = aurocs(kind, quantity, how)
        assert (first, second) == tuple(f"{value:.1f}" for value in expected)
        assert float(gain) == pytest.approx(expected[1] - beside, abs=0.051)
        assert float(low) <= expected[1] <= float(high)
        if how:
            assert expected[0] == max(aurocs(kind, quantity, other)[0] for other in ("sum", "mean", "max", "top5"))
