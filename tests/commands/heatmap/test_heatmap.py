"""The heatmap command in this process: what is chosen, scaled, painted, passed on and refused."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.helpers import SCORED, page_data, write_lines
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES
from tokur_cli.views.heatmap.style import BACKGROUNDS


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch):
    for name in ("COLUMNS", "COLORTERM", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def real():
    return [json.loads(line) for line in SCORED.read_text(encoding="utf-8").splitlines()]


def test_heatmap_the_scale_is_that_of_the_whole_input_whatever_is_shown(run_tokur):
    everything = np.concatenate([record["tokur"]["tokens"]["eu"] for record in real()])
    end = np.quantile(everything, 0.99, method="lower")
    legends = []
    for choice in ([], ["--id", "word-004"], ["--only", "correct"], ["--limit", 1, "--by", "EU"], ["--compare"]):
        _, out, _ = run_tokur("heatmap", SCORED, *choice)
        legends.append(out.split("── ")[0].split("Lena has 8 books and")[0])
    assert len(set(legends)) == 1
    assert f"of {len(everything)} tokens" in " ".join(legends[0].split())
    assert float(re.search(r"([\d.]+) uncertain", legends[0])[1]) == pytest.approx(end, rel=0.006)
    assert float(re.search(r"▁(\S+)", legends[0])[1]) == pytest.approx(everything.min(), abs=1e-3)


def test_heatmap_a_page_switches_between_all_quantities_with_the_asked_ones_first(run_tokur, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = run_tokur("heatmap", SCORED, "--score", "tu,logprob", "--html", page)
    assert (code, out, err) == (0, "", "")
    head, *lines = page_data(page.read_text(encoding="utf-8"))
    names = [quantity["name"] for quantity in head["quantities"]]
    assert names == ["tu", "logprob", *[name for name in QUANTITIES if name not in {"tu", "logprob", *ON_DEMAND}]]
    assert [line["title"].split(" ")[0] for line in lines[::2]] == [record["id"] for record in real()]
    assert "Heat map of scored.jsonl" in page.read_text(encoding="utf-8")


def test_heatmap_a_figure_is_well_formed_and_holds_the_chosen_text(run_tokur, tmp_path):
    figure = tmp_path / "figure.svg"
    code, out, err = run_tokur("heatmap", SCORED, "--compare", "--limit", 1, "--svg", figure)
    assert (code, out, err) == (0, "", "")
    svg = figure.read_text(encoding="utf-8")
    text = "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")
    assert "✓ correct" in text
    assert "✗ incorrect" in text
    assert set(re.findall('fill="(#[0-9a-f]{6})"', svg)) >= set(BACKGROUNDS["light"][1:4])
    assert svg.count("http") == 1, "the name of SVG: nothing is loaded"


def test_heatmap_step_with_a_null_token_has_no_sum_as_in_steps(run_tokur, tmp_path):
    text = "So 2 + 2 = 4. Then 5."
    tokens = {"offsets": [[0, 13], [13, 18], [18, 21]], "eu": [0.5, None, 0.25]}
    record = {"id": "q", "response": text, "tokur": {"tokens": tokens, "scores": {}}}
    path = write_lines(tmp_path / "null.jsonl", [record])
    _, out, _ = run_tokur("heatmap", path)
    assert re.search(r"▶ 1 +1 +0\.50+ +0\.50+ ", out)
    assert re.search(r" 2 +2 +· +· +Then 5\.", out)
    run_tokur("heatmap", path, "--html", tmp_path / "page.html")
    sums = page_data((tmp_path / "page.html").read_text(encoding="utf-8"))[2]["sums"][0]
    assert sums[1] == "–"


def test_heatmap_a_page_has_no_value_that_is_too_large_for_it(run_tokur, tmp_path):
    tokens = {"offsets": [[0, 1], [1, 2]], "eu": [1e308, 0.5]}
    path = write_lines(tmp_path / "in.jsonl", [{"id": "q", "response": "ab", "tokur": {"tokens": tokens}}])
    code, _, err = run_tokur("heatmap", path, "--html", tmp_path / "page.html")
    assert (code, page_data((tmp_path / "page.html").read_text(encoding="utf-8"))[2]["values"][0][0]) == (0, None), err
