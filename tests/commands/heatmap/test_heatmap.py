"""The heatmap command in this process: what is chosen, scaled, painted, passed on and refused."""

import copy
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import parsed, write_lines
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES

REAL = Path(__file__).parent.parent.parent / "data" / "scored.jsonl"


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch):
    for name in ("COLUMNS", "COLORTERM", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def scored(number=0, *, text="yes no", sample=0, scores=None, **fields):
    """A scored record, a token a character, whose values count up from its number."""
    values = [number + index / 100 for index in range(len(text))]
    tokur = {
        "schema": 1,
        "sample": sample,
        "tokens": {"offsets": [[at, at + 1] for at in range(len(text))], "eu": values, "au": [2 * v for v in values]},
        "scores": {"eu": sum(values), "ll": -sum(values)} if scores is None else scores,
    }
    return {"id": f"q{number}", "question": "Yes or no?", "response": text, **fields, "tokur": tokur}


def without(record, *path):
    record = copy.deepcopy(record)
    inner = record
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return record


def changed(record, value, *path):
    record = copy.deepcopy(record)
    inner = record
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return record


def shown(output):
    """The ids and samples in the headings, in order."""
    return re.findall(r"^── (.+?) · sample \d+ ", output, re.MULTILINE)


def real():
    return [json.loads(line) for line in REAL.read_text(encoding="utf-8").splitlines()]


# ---- what is painted ------------------------------------------------------------------------------------------------


def test_heatmap_shows_scores_and_verdicts_and_all_scores_in_detail(run_tokur):
    code, out, err = run_tokur("heatmap", REAL, "--detail")
    assert (code, err) == (0, "")
    assert [re.search(r"(\w+)? ──$|─$", line)[1] for line in out.split("\n") if line.startswith("── ")] == [
        "correct", "incorrect", "incorrect", "correct", "incorrect"
    ]  # fmt: skip
    brief = run_tokur("heatmap", REAL)[1]
    for record in real():
        scores = record["tokur"]["scores"]
        assert all(f"{name} {value:.4g}" in out for name, value in scores.items())
        line = f"eu {scores['eu']:.4g} · ll_sum {scores['ll_sum']:.4g} · {len(record['tokur']['tokens']['eu'])} tokens"
        assert f"reference {record['reference']} · {line}" in brief
        assert f"pe_sum {scores['pe_sum']:.4g}" not in brief


def test_the_scale_is_that_of_the_whole_input_whatever_is_shown(run_tokur):
    everything = np.concatenate([record["tokur"]["tokens"]["eu"] for record in real()])
    end = np.quantile(everything, 0.99, method="lower")
    legends = []
    for choice in ([], ["--id", "word-004"], ["--only", "correct"], ["--limit", 1], ["--compare"]):
        _, out, _ = run_tokur("heatmap", REAL, *choice)
        legends.append(out.split("── ")[0].split("Lena has 8 books and")[0])
    assert len(set(legends)) == 1
    assert f"of {len(everything)} tokens" in " ".join(legends[0].split())
    assert float(re.search(r"([\d.]+) uncertain", legends[0])[1]) == pytest.approx(end, rel=0.006)
    assert float(re.search(r"▁(\S+)", legends[0])[1]) == pytest.approx(everything.min(), abs=1e-3)


def test_heatmap_paints_log_probabilities_by_itself_where_there_is_no_eu(run_tokur, tmp_path):
    record = scored()
    tokens = record["tokur"]["tokens"]
    both = record["tokur"] | {"tokens": tokens | {"logprob": tokens["eu"]}}
    logged = record["tokur"] | {"tokens": {"offsets": tokens["offsets"], "logprob": tokens["eu"]}}
    for tokur, name in [(both, "eu"), (logged, "logprob")]:
        path = write_lines(tmp_path / "in.jsonl", [record | {"tokur": tokur}])
        code, out, err = run_tokur("heatmap", path)
        assert (code, err) == (0, "")
        assert out.startswith(f"{name}  ")


def test_heatmap_range_replaces_the_ends_of_the_input(run_tokur):
    _, out, _ = run_tokur("heatmap", REAL, "--range", "0.1,0.9")
    assert "certain ▁0.10 ▂0.20 ▃0.30 ▄0.40 ▅0.50 ▆0.60 ▇0.70 █0.80  0.90 uncertain" in out
    assert "0.1 to 0.9 of 177 tokens" in " ".join(out.split())
    assert "lowest value to 0.058 of 177" in " ".join(run_tokur("heatmap", REAL, "--range", ",0.058")[1].split())
    for ends in ("1,0", "nan,1", "0,inf", "1", "1,1"):
        code, out, err = run_tokur("heatmap", REAL, "--range", ends)
        assert (code, out) == (2, "")
        assert f"--range {ends}: give the lowest and the highest value" in err


def test_heatmap_step_with_a_null_token_has_no_sum_as_in_steps(run_tokur, tmp_path):
    text = "So 2 + 2 = 4. Then 5."
    tokens = {"offsets": [[0, 13], [13, 18], [18, 21]], "eu": [0.5, None, 0.25]}
    record = {"id": "q", "response": text, "tokur": {"tokens": tokens, "scores": {}}}
    path = write_lines(tmp_path / "null.jsonl", [record])
    _, out, _ = run_tokur("heatmap", path)
    assert re.search(r"▶ 1 +1 +0\.50+ +0\.50+ ", out)
    assert re.search(r" 2 +2 +· +· +Then 5\.", out)
    run_tokur("heatmap", path, "--html", tmp_path / "page.html")
    sums = page_data(tmp_path / "page.html")[2]["sums"][0]
    assert sums[1] == [None, 0, False]


# ---- colour ---------------------------------------------------------------------------------------------------------


# ---- the choice -----------------------------------------------------------------------------------------------------


@pytest.fixture
def various(tmp_path):
    """q0 right, q1 wrong, q2 right (by quality), q3 unknown, q4 wrong with no ll, two samples of q1."""
    records = [
        scored(0, correct=True),
        scored(1, correct=False),
        scored(2, quality=1.0),
        scored(3, correct=None, quality=0.5),
        scored(4, correct=False, scores={"eu": 100.0, "ll": None}),
        scored(1, sample=3, correct=True),
    ]
    return write_lines(tmp_path / "various.jsonl", records)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["q0", "q1", "q2", "q3", "q4", "q1"]),
        (["--id", "q1"], ["q1", "q1"]),
        (["--id", "q3", "--id", "q0"], ["q0", "q3"]),
        (["--sample", 3], ["q1"]),
        (["--id", "q1", "--sample", 0], ["q1"]),
        (["--only", "correct"], ["q0", "q2", "q1"]),
        (["--only", "incorrect"], ["q1", "q4"]),
        (["--limit", 2], ["q0", "q1"]),
        (["--only", "incorrect", "--limit", 1], ["q1"]),
        (["--by", "eu"], ["q4", "q3", "q2", "q1", "q1", "q0"]),
        (["--by", "ll"], ["q3", "q2", "q1", "q1", "q0", "q4"]),  # a confidence: the lowest first; none at all last
        (["--by", "eu", "--limit", 2], ["q4", "q3"]),
    ],
)
def test_choice_and_order(run_tokur, various, options, ids):
    code, out, err = run_tokur("heatmap", various, *options)
    assert (code, err) == (0, "")
    assert shown(out) == ids


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=1, max_size=8), limit=st.integers(1, 9))
def test_sorting_is_stable_with_missing_scores_last(run_tokur, tmp_path, values, limit):
    if all(value is None for value in values):
        return
    records = [scored(number, scores={"pe": value}) for number, value in enumerate(values)]
    path = write_lines(tmp_path / "sorted.jsonl", records)
    _, out, _ = run_tokur("heatmap", path, "--by", "pe", "--limit", limit)
    known = [(-value, number) for number, value in enumerate(values) if value is not None]
    unknown = [number for number, value in enumerate(values) if value is None]
    assert shown(out) == [f"q{number}" for number in [*(number for _, number in sorted(known)), *unknown][:limit]]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--id", "q9"], 1, "none of the 6 responses matches --id q9"),
        (["--sample", 7, "--only", "correct"], 1, "matches --sample 7 --only correct"),
        (["--by", "size"], 2, "--by size: there is no such score; there are: tu, au, eu"),
        (["--by", "deepconf"], 1, 'no response has the score "deepconf"'),
        (["--id", "q0", "--compare"], 1, "no question has two responses"),
        (["--limit", 0], 2, "--limit"),
    ],
)
def test_a_choice_of_nothing_says_why(run_tokur, various, options, code, said):
    ended, out, err = run_tokur("heatmap", various, *options)
    assert (ended, out) == (code, "")
    assert said in err


def test_without_a_label_the_answer_is_compared_with_the_reference(run_tokur, tmp_path):
    """A label wins over the reference, and code is not an answer that could be compared."""
    code_row = {"prompt": "def f():", "test": "assert f()", "entry_point": "f"}
    records = [
        scored(0, response="It is 1/2.", reference="0.5"),
        scored(1, response="It is 3.", reference="4"),
        scored(2, response="It is 4.", reference="4", correct=False),
        scored(3, response="It is 4.", reference="4", quality=None),
        scored(4, response="It is 4.", reference="4", **code_row),
        scored(5, response="It is 4."),
    ]
    for record in records:
        record["tokur"]["tokens"] = {"offsets": [[0, len(record["response"])]], "eu": [0.1]}
    path = write_lines(tmp_path / "in.jsonl", records)
    _, out, _ = run_tokur("heatmap", path)
    headings = [line for line in out.split("\n") if line.startswith("── ")]
    verdicts = [("✓ correct" in line, "✗ incorrect" in line) for line in headings]
    assert verdicts == [(True, False), (False, True), (False, True), (False, False), (False, False), (False, False)]
    assert "answer 1/2" in out
    _, out, _ = run_tokur("heatmap", path, "--only", "incorrect")
    assert shown(out) == ["q1", "q2"]


def test_comparing_puts_the_right_one_left_of_the_wrong_one(run_tokur, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = run_tokur("heatmap", REAL, "--compare")
    assert code == 0
    headings = [line for line in out.split("\n") if line.startswith("── ")]
    assert len(headings) == 2, "a question with one response is left out"
    for heading in headings:
        assert re.match(
            r"── word-\d+ · sample \d ─+ ✓ correct ──  ?│ ── word-\d+ · sample \d ─+ ✗ incorrect ──", heading
        )
    assert [re.findall(r"sample (\d)", heading) for heading in headings] == [["3", "2"], ["0", "2"]]


def test_comparing_takes_questions_with_right_and_wrong_first_and_else_the_first_two(run_tokur, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    records = [
        scored(0, sample=0), scored(0, sample=1), scored(0, sample=2),
        scored(1, sample=0, correct=True), scored(1, sample=1, correct=True), scored(1, sample=2, correct=False),
    ]  # fmt: skip
    path = write_lines(tmp_path / "pairs.jsonl", records)

    def pairs(*options):
        _, out, _ = run_tokur("heatmap", path, "--compare", *options)
        return [tuple(re.findall(r"(q\d · sample \d)", line)) for line in out.split("\n") if line.startswith("── ")]

    contrast, first_two = ("q1 · sample 0", "q1 · sample 2"), ("q0 · sample 0", "q0 · sample 1")
    assert pairs() == [contrast, first_two]
    assert pairs("--limit", 1) == [contrast]
    assert pairs("--id", "q0", "--sample", 1, "--sample", 2) == [("q0 · sample 1", "q0 · sample 2")]
    assert pairs("--by", "ll") == [contrast, first_two]
    assert pairs("--only", "correct") == [("q1 · sample 0", "q1 · sample 1")]


# ---- bad records ----------------------------------------------------------------------------------------------------

BAD = [
    (b"{nonsense\n", "is not valid JSON"),
    ({"question": "?", "answer": "It is 2. #### 2"}, "run it through tokur score first"),
    (without(scored(), "tokur", "tokens"), "score it without --no-tokens"),
    (changed(scored(), [], "tokur", "tokens"), '"tokur.tokens" is a list'),
    (without(scored(), "tokur", "tokens", "eu"), 'no "eu" per token here; available: au (--score au)'),
    (
        changed(scored(), {"offsets": []}, "tokur", "tokens"),
        'no "eu" per token here: score the responses with it first',
    ),
    (without(scored(), "tokur", "tokens", "offsets"), '"tokur.tokens.offsets" is null'),
    (changed(scored(), [0, 1], "tokur", "tokens", "offsets", 2), "before the span"),
    (changed(scored(), [2, 90], "tokur", "tokens", "offsets", 2), "outside the response"),
    (changed(scored(), [2, 3.0], "tokur", "tokens", "offsets", 2), '"tokur.tokens.offsets"[2] is not [start, end]'),
    (changed(scored(), [1, True], "tokur", "tokens", "offsets", 1), '"tokur.tokens.offsets"[1] is not [start, end]'),
    (changed(scored(), "high", "tokur", "tokens", "eu", 1), '"tokur.tokens.eu"[1] is a string, not a finite number'),
    (changed(scored(), 10**400, "tokur", "tokens", "eu", 1), '"tokur.tokens.eu"[1] is a number, not a finite number'),
    (changed(scored(), {}, "tokur", "tokens", "eu"), '"tokur.tokens.eu" is an object'),
    (changed(scored(), [0.5], "tokur", "tokens", "eu"), '"eu" has 1 token values but there are 6 tokens'),
    (changed(scored(), [], "tokur", "scores"), '"tokur.scores" is a list'),
    (changed(scored(), "low", "tokur", "scores", "eu"), '"tokur.scores.eu" is a string'),
    (changed(scored(), -1, "tokur", "sample"), '"tokur.sample" is -1'),
    (changed(scored(), 99, "tokur", "schema"), "update tokur"),
    (without(scored(), "response"), '"response" is missing'),
]


@pytest.mark.parametrize(("bad", "said"), BAD, ids=[said for _, said in BAD])
def test_a_bad_record_is_named_by_file_and_line_or_skipped_and_counted(run_tokur, tmp_path, bad, said):
    path = write_lines(tmp_path / "bad.jsonl", [scored(1), bad, scored(2)])
    code, out, err = run_tokur("heatmap", path)
    assert (code, out) == (1, "")
    assert err.startswith(f"tokur heatmap: {path}:2: ")
    assert said in err
    code, out, err = run_tokur("heatmap", path, "--skip-invalid")
    assert code == 3
    assert shown(out) == ["q1", "q2"]
    assert "skipped 1 invalid record\n" in err


# ---- records that go on ---------------------------------------------------------------------------------------------

ODD = (
    b'{"z": 1.10, "n": 123456789012345678901234567890, "t": "\\u00e9\\ud83d\\ude00 \xe2\x80\xa8", "id":"a"'
    b' , "response":"ab","tokur":{"schema":1,"tokens":{"offsets":[[0,1],[1,2]],"eu":[0.10,2e-1]},"extra":[1.0]}}\n'
)


def test_heatmap_passes_records_on_and_the_picture_to_standard_error(run_tokur, tmp_path):
    path = tmp_path / "odd.jsonl"
    path.write_bytes(ODD + REAL.read_bytes())
    code, out, err = run_tokur("heatmap", path, "-o", "-", "--limit", 1)
    assert code == 0
    assert parsed(out) == parsed(path.read_text(encoding="utf-8"))
    assert err.startswith("eu  epistemic uncertainty")
    assert "── a ─" in err


def test_what_cannot_be_painted_is_passed_on_when_it_is_skipped_and_ends_the_run_otherwise(run_tokur, tmp_path):
    bare = without(scored(1), "tokur", "tokens")
    unscored = {"question": "Why?", "answer": "So. #### 2"}
    path = write_lines(tmp_path / "bare.jsonl", [scored(0), bare, unscored, b"broken\n", scored(2)])
    code, out, err = run_tokur("heatmap", path, "-o", "-", "--skip-invalid")
    assert code == 3
    assert parsed(out) == parsed(path.read_text().replace("broken\n", ""))
    assert "skipped 3 invalid records" in err
    assert shown(err) == ["q0", "q2"]
    code, out, err = run_tokur("heatmap", path, "-o", "-")
    assert code == 1
    assert parsed(out) == parsed(path.read_text().split("\n")[0]), "all earlier records are written"


# ---- pages and figures ----------------------------------------------------------------------------------------------


def page_data(path):
    text = path.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/x-ndjson" id="data">(.*?)</script>', text, re.DOTALL)[1]
    return [json.loads(line) for line in data.strip().split("\n")]


def test_a_page_switches_between_all_quantities_with_the_asked_ones_first(run_tokur, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = run_tokur("heatmap", REAL, "--score", "tu,logprob", "--html", page)
    assert (code, out, err) == (0, "", "")
    head, *lines = page_data(page)
    names = [quantity["name"] for quantity in head["quantities"]]
    assert names == ["tu", "logprob", *[name for name in QUANTITIES if name not in {"tu", "logprob", *ON_DEMAND}]]
    assert [line["title"].split(" ")[0] for line in lines[::2]] == [record["id"] for record in real()]
    assert "Heat map of scored.jsonl" in page.read_text(encoding="utf-8")


def test_a_page_tells_with_what_the_responses_were_scored(run_tokur, tmp_path):
    def told(*records):
        run_tokur("heatmap", write_lines(tmp_path / "in.jsonl", records), "--html", tmp_path / "page.html")
        return re.search(r'<p id="scored">(.*)</p>', (tmp_path / "page.html").read_text(encoding="utf-8"))[1]

    first, second, *_ = real()
    words = "smollm2-135m-instruct in bfloat16, σ 0.1, rank 8, draws 2, stepwise, seed 0"
    assert told(first, second) == f"Scored with {words}."
    others = changed(second, 7, "tokur", "run", "seed")
    assert told(first, others) == f"Scored with {words}, the others with other settings."
    assert told(without(first, "tokur", "run")) == ""
    own = changed(first, {"model": "<b>me</b>", "sigma": None, "draws": 0}, "tokur", "run")
    assert told(own) == "Scored with &lt;b>me&lt;/b>, draws 0."


def test_a_figure_is_well_formed_and_holds_the_chosen_text(run_tokur, tmp_path):
    figure = tmp_path / "figure.svg"
    code, out, err = run_tokur("heatmap", REAL, "--compare", "--limit", 1, "--svg", figure)
    assert (code, out, err) == (0, "", "")
    text = "".join(ET.parse(figure).getroot().itertext()).replace("\xa0", " ")
    assert "✓ correct" in text
    assert "✗ incorrect" in text


def test_a_figure_of_too_many_responses_is_refused_and_leaves_no_file(run_tokur, tmp_path):
    path = write_lines(tmp_path / "many.jsonl", [scored(number) for number in range(13)])
    code, _, err = run_tokur("heatmap", path, "--svg", tmp_path / "figure.svg")
    assert code == 1
    assert "13 responses are too many for one figure" in err
    assert not (tmp_path / "figure.svg").exists()
    assert run_tokur("heatmap", path, "--svg", tmp_path / "figure.svg", "--limit", 12)[0] == 0


# ---- hard text ------------------------------------------------------------------------------------------------------


def test_heatmap_shows_what_a_certificate_withholds(run_tokur, tmp_path):
    records = [scored(0, correct=True), scored(1, correct=False), scored(2, correct=False), scored(3)]
    for record, withheld in zip(records, (False, False, True, None), strict=True):
        record["tokur"] |= {} if withheld is None else {"withheld": withheld}
    path = write_lines(tmp_path / "certified.jsonl", records)
    _, out, err = run_tokur("heatmap", path)
    assert [line.split(" ─")[0] for line in out.split("\n") if "withheld" in line] == ["── q2 · sample 0 · withheld"]
    assert err == "tokur heatmap: 2 of 3 answers given, 1 incorrect.\n"
    run_tokur("heatmap", path, "--html", tmp_path / "page.html")
    assert [line.get("withheld") for line in page_data(tmp_path / "page.html")[1::2]] == [False, False, True, None]
    assert "2 of 3 answers given, 1 incorrect." in (tmp_path / "page.html").read_text(encoding="utf-8")
