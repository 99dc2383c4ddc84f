"""What the READMEs print is what their commands print; all of them say ``--dtype float32``, which reproduces."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests.commands.score.test_score import parsed, write_lines
from tests.printed import DECISIONS, EVALUATE, TOUR, arguments, score, scored
from tests.readmes import ROOT, block_with, blocks_of, text_of
from tokur_cli.scores.calibration import read_calibration

pytestmark = [pytest.mark.real_model, pytest.mark.usefixtures("all_threads")]
FRONT, STUDY, REFERENCE = Path("README.md"), Path("samples/steps/README.md"), Path("samples/reference.md")
N16 = "samples/responses_n16.jsonl"
INTERVALS = re.compile(r"\| .*`.*( \| [\d.]+ \[[\d.]+, [\d.]+\]){3} \|")  # a row of three figures


def made_once(factory, name, make):
    """A folder that ``make`` fills; with several processes of tests, in the first that comes."""
    processes = factory.getbasetemp() if "PYTEST_XDIST_WORKER" not in os.environ else factory.getbasetemp().parent
    folder = processes / name
    with FileLock(processes / f"{name}.lock"):
        if not (folder / "made").exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            (folder / "made").touch()
    return folder


@pytest.fixture(scope="module")
def scored_samples(tmp_path_factory):
    """All sample responses, scored as the tour says before its table of scores; the first 40 are beside them, whole."""

    def make(folder):
        anew = scored("responses", folder / "scored.jsonl", [*range(40), *range(40, 172, 12)])
        write_lines(folder / "first.jsonl", [json.dumps(record).encode() + b"\n" for record in anew[:40]])

    return made_once(tmp_path_factory, "scored_samples", make) / "scored.jsonl"


@pytest.fixture(scope="module")
def scored_n16(tmp_path_factory):
    """Sixteen samples a question, scored as is said before the table of choices."""

    def make(folder):
        scored("responses_n16", folder / "scored_n16.jsonl", range(0, 704, 23))

    return made_once(tmp_path_factory, "scored_n16", make) / "scored_n16.jsonl"


def test_the_shortened_record_is_the_first_one(run_tokur, tmp_path):
    first = (ROOT / "samples" / "responses.jsonl").read_bytes().split(b"\n")[0]
    block = block_with(FRONT, "> scored.jsonl")
    assert "--dtype float32" in block.commands
    code, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", [first]), "--dtype", "float32")
    assert code == 0
    record = parsed(out)[0]
    shown = block.printed
    tokur = record["tokur"]
    numbers = re.findall(r'"(\w+)": (-?\d+\.\d+)[,}]', shown[shown.index('"scores"') : shown.index('"run"')])
    assert len(numbers) == 6
    for name, number in numbers:
        digits = len(number.partition(".")[2])
        assert f"{tokur['scores'][name]:.{digits}f}" == number, name
    for value in (record["id"], record["question"], record["reference"], tokur["run"]["dtype"], tokur["run"]["model"]):
        assert json.dumps(value) in shown
    assert record["response"].startswith(json.loads(re.search(r'"response": (".*?) …', shown).group(1) + '"'))
    assert f'"token_ids": [{", ".join(map(str, tokur["token_ids"][:2]))}, …]' in shown
    assert f'"offsets": [{", ".join(map(str, tokur["tokens"]["offsets"][:2]))}, …]' in shown


@pytest.mark.slow
def test_the_heat_map_is_drawn_as_shown(run_tokur, tmp_path):
    block = block_with(TOUR, "tokur heatmap --sample 8")
    assert block.commands == f"grep word-007 {N16} | tokur score --dtype float32 | tokur heatmap --sample 8\n"
    rows = [line + b"\n" for line in (ROOT / N16).read_bytes().split(b"\n") if b"word-007" in line]
    _, records, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), "--dtype", "float32")
    (tmp_path / "scored.jsonl").write_text(records, encoding="utf-8")
    code, out, _ = run_tokur("heatmap", "--sample", "8", tmp_path / "scored.jsonl")
    assert code == 0
    lines = [line.rstrip() for line in out.splitlines()]
    shown = [line for line in block.printed.splitlines() if line != "…"]
    assert [line for line in shown if line not in lines] == []


def test_the_steps_have_the_figures_shown(run_tokur, tmp_path):
    first = (ROOT / "samples" / "responses.jsonl").read_bytes().split(b"\n")[0]
    block = block_with(TOUR, "--steps --no-tokens")
    words = arguments(block.commands.partition("| ")[2], "tokur score")
    code, out, _ = run_tokur(*words, write_lines(tmp_path / "in.jsonl", [first]))
    assert code == 0
    record = parsed(out)[0]
    shown = re.findall(r'"start": (\d+), "end": (\d+), …, "eu": ({.*?})', block.printed)
    assert len(shown) == len(record["tokur"]["steps"]) == 3
    for (start, end, numbers), step in zip(shown, record["tokur"]["steps"], strict=True):
        assert (int(start), int(end)) == (step["start"], step["end"])
        for name, number in re.findall(r'"(\w+)": ([\d.]+)', numbers):
            assert f"{step['eu'][name]:.{len(number.partition('.')[2])}f}" == number


@pytest.mark.slow
def test_the_program_prints_what_is_shown():
    block = next(block for block in blocks_of(TOUR, "python") if "import Tokur" in block.commands)
    assert 'dtype="float32"' in block.commands
    ended = subprocess.run([sys.executable, "-c", block.commands], check=True, capture_output=True, text=True)
    assert ended.stdout == block.printed


@pytest.mark.slow
@pytest.mark.parametrize("readme", [FRONT, TOUR], ids=str)
def test_the_scores_have_the_figures_shown(run_tokur, scored_samples, readme):
    block = block_with(readme, EVALUATE)
    words = arguments(block.commands, "tokur evaluate")
    code, out, _ = run_tokur(*[scored_samples if word == "scored.jsonl" else word for word in words])
    assert code == 0
    found = {row["score"]: row for row in parsed(out)}
    measures = {
        "Right above wrong (%)": lambda row: [spelling(row[measure]) for measure in ("auroc", "auprc", "acc")],
        "Right above wrong among": lambda row: [spelling(row["auroc_at_length"])],
        "Score − ll_sum": lambda row: [spelling(row["difference"]["auroc"])],
    }
    tables = {title: re.split("\n\n|\n…", block.printed.partition(title)[2])[0] for title in measures}
    assert [title for title, table in tables.items() if table] == list(measures)[: 1 if readme == FRONT else 3]
    for title, table in tables.items():
        rows = {line.split()[0]: line for line in table.splitlines() if "[" in line}
        if rows:
            assert rows.keys() == found.keys() - ({"ll_sum"} if title.startswith("Score") else set())
        for name, line in rows.items():
            assert printed(line) == measures[title](found[name]), name
    verdicts = block.printed.partition("against the length\n")[2].splitlines()[: len(found)]
    assert bool(verdicts) == (readme == FRONT)
    for line in verdicts:
        name, *words = line.replace("–", "").split()
        assert " ".join(words) == " ".join(f"{of['verdict']} {other}" for other, of in found[name]["verdicts"].items())


def printed(line):
    return [" ".join(pair) for pair in re.findall(r"([-\d.]+) +(\[.*?\])", line.replace("+", ""))]


def numbers(cells):
    return [float(number) for cell in cells for number in re.findall(r"-?[\d.]+", cell)]


def spelling(measure, digits=2):
    return f"{100 * measure['value']:.{digits}f} [{100 * measure['low']:.1f}, {100 * measure['high']:.1f}]"


@pytest.mark.slow
def test_the_prose_below_the_scores_has_their_figures(run_tokur, scored_samples, tmp_path):
    tour = " ".join(text_of(TOUR).split())
    code, out, _ = run_tokur("evaluate", scored_samples, "--scores", "eu,neg_length", "--versus", "neg_length")
    assert code == 0
    more = next(row["difference"]["auroc"] for row in parsed(out) if row["score"] == "eu")
    points = "{:.1f} points [{:.1f}, {:.1f}]".format(*(100 * more[part] for part in ("value", "low", "high")))
    assert f"and {points} more than the length alone" in tour
    words = [line for line in scored_samples.read_bytes().splitlines(keepends=True) if b'"id": "word-' in line]
    assert f"the {len(words)} word problems alone" in tour
    path = write_lines(tmp_path / "words.jsonl", words)
    code, out, _ = run_tokur("evaluate", path, "--scores", "eu,ll_sum,neg_length")
    assert code == 0
    auroc = [spelling(row["auroc"], 1) for row in parsed(out)]
    ll_sum, length = (text.split()[0] for text in auroc[1:])
    assert f"the AUROC of `eu` is {auroc[0]}, of `ll_sum` {ll_sum} and of `neg_length` {length}." in tour


@pytest.mark.slow
def test_the_probabilities_are_as_good_as_shown(run_tokur, scored_samples, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    block = block_with(DECISIONS, "--fit calibration.json --as table")
    assert block.commands == "tokur evaluate scored.jsonl --fit calibration.json --as table\n"
    code, out, _ = run_tokur("evaluate", scored_samples, "--fit", tmp_path / "calibration.json", "--as", "table")
    assert code == 0
    assert out.strip() == block.printed.strip()
    code, out, _ = run_tokur("evaluate", scored_samples, "--fit", tmp_path / "default.json", "--by", "default")
    rows = {row["score"]: row for row in parsed(out)}
    auroc, brier = (f"{100 * rows['p_correct'][measure]['value']:.2f}" for measure in ("auroc", "brier"))
    less, more = (rows["eu"]["difference"][measure] for measure in ("auroc", "brier"))  # eu's AUROC is the lower one
    gains = ([-less["value"], -less["high"], -less["low"]], [more["value"], more["low"], more["high"]])
    spelled = ["{:.1f} points [{:.1f}, {:.1f}]".format(*(100 * part for part in gain)) for gain in gains]
    said = f"`p_correct` has an AUROC of {auroc} and a Brier score of {brier}; that is {' and '.join(spelled)} better"
    assert said.replace("-", "−") in " ".join(text_of(REFERENCE).split())


@pytest.mark.slow
def test_the_certificate_is_the_one_shown(run_tokur, scored_samples, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    block = block_with(DECISIONS, "--certify 60% --as table")
    code, out, _ = run_tokur("evaluate", scored_samples, "--certify", "60%", "--as", "table")
    assert code == 0
    shown = [line for line in block.printed.splitlines() if line != "…"]
    assert shown == [line for line in out.splitlines() if not line.startswith("data ")]
    file = tmp_path / "certificate.json"
    assert run_tokur("evaluate", scored_samples, "--certify", "60%", "-o", file)[0] == 0
    certificate = json.loads(file.read_text())
    told = (
        f"At most 60 % are wrong where `eu` is below {certificate['threshold']:.3f}, in "
        f"{100 * certificate['coverage']['value']:.0f} % of the questions"
    )
    assert told in text_of(FRONT)
    code, _, err = run_tokur("evaluate", scored_samples, "--certify", "5%")
    assert (code, "5 % cannot be certified by eu" in err) == (1, True)


@pytest.mark.slow
def test_half_of_the_labels_certify_for_the_other_half_as_shown(run_tokur, scored_samples, tmp_path):
    labelled, words = tmp_path / "labelled.jsonl", tmp_path / "words.jsonl"
    run_tokur("evaluate", scored_samples, "--graded", labelled)
    write_lines(words, [line for line in labelled.read_bytes().splitlines(keepends=True) if b'"id": "word-' in line])
    rows = text_of(DECISIONS).partition("| | promised |")[2].splitlines()[2:5]
    for row in rows:
        promised, *figures = (cell.strip(" %") for cell in row.strip("| ").split("|")[-5:])
        ended = subprocess.run(
            [sys.executable, ROOT / "samples" / "certificate_splits.py", words, "--certify", promised],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        certified, rest = ended.stdout.partition("certified in ")[2].split(" of ", 1)
        coverage, wrong = re.findall(r"([\d.]+)%", rest)
        assert [certified, coverage, wrong, re.search(r"there in (\d+)", rest)[1]] == figures


@pytest.mark.slow
def test_sampled_responses_have_the_probabilities_and_the_coverage_told(run_tokur, scored_n16, tmp_path):
    reference = " ".join(text_of(REFERENCE).split())
    code, out, _ = run_tokur("evaluate", scored_n16, "--fit", tmp_path / "calibration.json")
    assert code == 0
    auroc = {row["score"]: f"{100 * row['auroc']['value']:.2f}" for row in parsed(out)}
    told = (
        f"the AUROC is {auroc['p_correct']} for `p_correct`, {auroc['eu']} for `eu` and {auroc['ll_sum']} for `ll_sum`."
    )
    assert told in reference
    options = "--keep 100% --abstain 0.3"
    _, _, err = run_tokur("select", scored_n16, *options.split())
    answered, questions = re.search(r"answered (\d+) of (\d+) questions", err).groups()
    right, majority = re.search(r"accuracy of what is answered ([\d.]+)%.* majority ([\d.]+)%", err).groups()
    assert (
        f"`tokur select scored_n16.jsonl {options}` answers {answered} of the {questions} questions, {right} % of them "
        f"right, where the majority of all 16 is right in {majority} %."
    ) in reference


@pytest.mark.slow
def test_the_table_beside_the_baselines_agrees(run_tokur, scored_samples):
    """Of its rows those that need nothing but the scoring's own passes."""
    code, out, _ = run_tokur("evaluate", scored_samples, "--scores", "all")
    assert code == 0
    found = {row["score"]: row for row in parsed(out)}
    length, whole = (f"{100 * found['neg_length'][measure]['value']:.1f} %" for measure in ("auroc_at_length", "auroc"))
    assert f"({length} of the 172 sample responses, {whole} of all pairs)" in " ".join(text_of(REFERENCE).split())
    compared = set()
    for line in text_of(REFERENCE).splitlines():
        if not INTERVALS.fullmatch(line):
            continue
        first, *cells = line.strip("| ").split(" | ")
        for name in re.findall(r"`(\w+)`", first):
            if name in found:
                spelled = [spelling(found[name][measure], digits=1) for measure in ("auroc", "auprc", "acc")]
                assert cells == spelled, name
                compared.add(name)
    assert compared == {"llm_check_window_entropy"}
    assert all(found["llm_check_perplexity"][measure] == found["ll"][measure] for measure in ("auroc", "auprc", "acc"))


@pytest.mark.slow
def test_fisher_has_the_figures_shown(run_tokur, tmp_path):
    path = tmp_path / "scored.jsonl"
    scored("responses-fisher", path, range(0, 172, 12))
    code, out, _ = run_tokur("evaluate", path, "--scores", "eu,ll_sum", "--versus", "ll_sum")
    assert code == 0
    row = next(row for row in parsed(out) if row["score"] == "eu")
    reference = " ".join(text_of(REFERENCE).split())
    figures = [spelling(row[measure]) for measure in ("auroc", "auprc", "acc")]
    assert f"`eu` has {figures[0]}, {figures[1]} and {figures[2]}." in reference
    difference = spelling(row["difference"]["auroc"], 1).replace("-", "−").replace("[", "points [")
    assert f"Its AUROC is {difference} above that of" in reference


@pytest.mark.slow
def test_the_choices_are_right_as_often_as_shown(run_tokur, scored_n16):
    """The tables of choices: each row's scores with the accuracy of what the command chose by them, in both ways."""
    shown, beside = {}, {}
    tables = (text_of(DECISIONS).partition(head)[2] for head in ("| | all 16", "| | accuracy |"))
    first, second = (table.partition("\n\n")[0] for table in tables)
    for line in first.splitlines()[2:]:
        title, *accuracies = line.strip("| ").split(" | ")
        shown |= dict.fromkeys(re.findall(r"`(\w+)`", title), accuracies)
    for line in second.splitlines()[2:]:
        title, accuracy = line.strip("| ").split(" | ")
        beside[title] = accuracy.strip("*")
    loop = re.search(r"for by in (.*?); do", block_with(DECISIONS, "for by in").commands)[1].split()
    titles = ["majority of all 16", "Pass@1, the mean of all responses", "Pass@16, an oracle"]
    assert set(loop) == shown.keys()
    assert set(titles) == beside.keys()
    summary = re.compile(
        r"accuracy ([\d.]+)%, majority ([\d.]+)%, Pass@1 ([\d.]+)%, Pass@16 ([\d.]+)% \(44 questions\)"
    )
    for name in loop:
        for options, accuracy in zip(([], ["--keep", "10%"]), shown[name], strict=True):
            code, _, err = run_tokur("select", scored_n16, "--by", name, *options)
            assert code == 0
            right = [round(float(number) * 7.04) for number in summary.search(err).groups()]  # of 704 responses
            chosen, *others = (f"{100 * count / 704:.1f} %" for count in right)
            assert chosen == accuracy, name
            assert others == [beside[title] for title in titles]
        assert float(shown[name][1][:4]) < float(beside["majority of all 16"][:4]) <= float(shown[name][0][:4])
    told = (
        f"{shown['eu_mean'][0]} right of 16 responses, a plain majority {beside[titles[0]]}, a single response "
        f"{beside[titles[1]]}; the paper's 10 %, here a vote of two, {shown['eu_mean'][1]} (44 questions"
    )
    assert told in text_of(FRONT)


@pytest.mark.slow
def test_votes_that_are_settled_save_as_much_as_shown(run_tokur, scored_n16):
    words = arguments(block_with(DECISIONS, "--stop-at 0.8").commands, "tokur evaluate")
    code, out, _ = run_tokur(*[scored_n16 if word == "scored_n16.jsonl" else word for word in words], "--scores", "eu")
    assert code == 0
    rows = text_of(DECISIONS).partition("| stop at | accuracy")[2].partition("\n\n")[0].splitlines()[2:]
    for row, of in zip(rows, parsed(out)[-1]["stopping"], strict=True):
        level, difference, tokens, settled = row.replace("−", "-").strip("| ").split(" | ")
        low, value, high = (round(100 * of["difference"][part], 1) + 0.0 for part in ("low", "value", "high"))
        assert (float(level), difference) == (of["stop_at"], f"{value} [{low}, {high}]")
        assert [tokens, settled.removesuffix(" of the questions")] == [
            f"{100 * of[part]['value']:.1f} %" for part in ("tokens", "settled")
        ]


@pytest.mark.slow
def test_votes_weighted_by_a_probability_save_as_much_as_told(run_tokur, scored_samples, scored_n16, tmp_path):
    sampled = parsed(scored_n16.read_text(encoding="utf-8"))
    names = {record["id"] for record in sampled}
    others = [record for record in parsed(scored_samples.read_text(encoding="utf-8")) if record["id"] not in names]
    file = tmp_path / "calibration.json"
    code, _, _ = run_tokur("evaluate", write_lines(tmp_path / "others.jsonl", others), "--fit", file, "--bootstrap", 0)
    assert (code, len(others)) == (0, 128)
    calibration = read_calibration(str(file))
    for record in sampled:
        scores = record["tokur"]["scores"]
        scores["p_correct"] = calibration.probability([scores[name] for name in calibration.scores])
    words = arguments(block_with(DECISIONS, "--stop-at 0.8").commands, "tokur evaluate")
    path = write_lines(tmp_path / "with_p.jsonl", sampled)
    code, out, _ = run_tokur(*[path if word == "scored_n16.jsonl" else word for word in words], "--scores", "p_correct")
    assert code == 0
    (of,) = (of for of in parsed(out)[-1]["stopping"] if (of["stop_at"], of["by"]) == (0.95, "p_correct"))
    low, value, high = (f"{100 * of['difference'][part]:.1f}".replace("-", "−") for part in ("low", "value", "high"))
    told = f"{of['tokens']['value']:.1%} of the tokens are drawn, and the accuracy is {value} [{low}, {high}] points"
    assert told.replace("%", " %") in " ".join(text_of(DECISIONS).split())


@pytest.mark.slow
def test_questions_are_told_apart_as_well_as_told(run_tokur, scored_n16):
    code, out, _ = run_tokur("evaluate", scored_n16, "--level", "question")
    assert code == 0
    auroc = {row["score"]: spelling(row["auroc"], 1) for row in parsed(out)}
    told = (
        f"the AUROC of `share` is {auroc['share']}, of `eu` {auroc['eu']} and of `neg_length` {auroc['neg_length']}: 44"
    )
    assert told in " ".join(text_of(REFERENCE).split())


@pytest.mark.slow
def test_the_equations_of_the_study_are_told_apart_as_shown(run_tokur, tmp_path):
    block = block_with(STUDY, "make_equations")
    made = subprocess.run(
        [sys.executable, ROOT / "samples" / "steps" / "make_equations.py"],
        stdin=(ROOT / "samples" / "responses.jsonl").open(),
        capture_output=True,
        check=True,
    )
    assert "make_equations.py < samples/responses.jsonl | head -65 | tokur score --dtype float32 >" in block.commands
    records = score(["score", "--dtype", "float32"], made.stdout.splitlines()[:65])
    path = write_lines(tmp_path / "scored.jsonl", [json.dumps(record).encode() + b"\n" for record in records])

    def evaluated(words):
        code, out, err = run_tokur(*[path if word == "equations.jsonl" else word for word in words])
        assert code == 0, err
        return {row["score"]: row for row in parsed(out)}

    found = evaluated(arguments(block.commands, "tokur evaluate"))
    first, _, second = block.printed.partition("Score − ")
    # Two of 65 equations that are equal up to rounding may change places
    shown = {line.split()[0]: numbers(printed(line)) for line in first.splitlines() if "[" in line}
    assert shown == {
        name: pytest.approx(numbers(spelling(row[m]) for m in ("auroc", "auprc", "acc")), abs=0.11)
        for name, row in found.items()
    }
    shown = {line.split()[0]: numbers(printed(line)) for line in second.splitlines() if "[" in line}
    assert shown == {
        name: pytest.approx(numbers(spelling(row["difference"][m]) for m in ("auroc", "within")), abs=0.11)
        for name, row in found.items()
        if name != "eu_sum"
    }
    prose = " ".join(text_of(STUDY).split())
    (command,) = [line for line in block_with(STUDY, "--tokens").lines() if line.startswith("tokur")]
    rows = evaluated(shlex.split(command)[1:])
    of_tu, of_logprob = (
        [spelling(rows[name + part]["auroc"], 1) for part in ("", "@digits")] for name in ("tu_mean", "logprob_mean")
    )
    assert f"AUROC of `tu_mean` rises from {of_tu[0]} to {of_tu[1]}" in prose
    assert f"`logprob_mean` from {of_logprob[0].split()[0]} to {of_logprob[1].split()[0]}." in prose
