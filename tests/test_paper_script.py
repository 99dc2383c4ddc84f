"""The scripts that make the paper's tables and figures."""

import json
import os
import re
import statistics
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sklearn.metrics import roc_auc_score

from tests.commands.score.test_score import parsed, write_lines
from tests.readmes import ROOT, blocks_of, text_of
from tokur_cli.scores.catalogue import CATALOGUE, DEFAULT, choose_scores
from tokur_cli.views.heatmap.colours import HEX_STEPS

PAPER = ROOT / "samples" / "paper"
BASELINES = {"pe", "ll", "self_certainty", "deepconf", "tu", "au", "eu", "ll_sum", "neg_length"}
QUICK = {"LIMIT": "2", "TOKENS": "12", "TEMPLATE": "chat", "DTYPE": "float32", "FORM": "jsonl", "SEEDS": "0"}


def start(folder, script, programs, **settings):
    """Run a script in a folder that has the samples, with the ``tokur`` of another folder."""
    if not (folder / "samples").exists():
        (folder / "samples").symlink_to(ROOT / "samples")
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **settings}
    command = ["sh", f"samples/paper/{script}"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def model(roomy_folder):
    return roomy_folder


@pytest.fixture
def make(model, programs, tmp_path):
    """Run a script as QUICK says on two of three questions, the first of which the model is said to answer rightly."""
    rows = [{"id": f"q{n}", "question": f"{n}+{n}?", "reference": str(2 * n), "correct": n == 0} for n in range(3)]
    asked = write_lines(tmp_path / "asked.jsonl", rows)

    def run(script, **settings):
        defaults = {"MODEL": str(model), "INPUT": str(asked)}
        done = start(tmp_path, script, programs, **QUICK | defaults | settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def results(out):
    """What ``evaluate --as jsonl`` wrote, under the titles that stand before it."""
    found, rows = {}, []
    for line in filter(None, out.splitlines()):
        if line.startswith("{"):
            rows.append(json.loads(line))
        else:
            rows = found[line] = []
    return found


def records_of(path):
    return parsed(path.read_text(encoding="utf-8"))


def test_the_scripts_are_portable_and_sound():
    subprocess.run(
        ["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", *(path.name for path in PAPER.glob("*.sh"))],
        cwd=PAPER,
        env={**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])},
        check=True,
    )


def test_the_readme_has_every_script_and_only_variables_that_they_take():
    readme = Path("samples/paper/README.md")
    lines = [line for block in blocks_of(readme) for line in block.lines()]
    table = re.search(r"^\| variable .*?\n\n", text_of(readme), flags=re.MULTILINE | re.DOTALL)
    told = set(re.findall(r"`([A-Z_]+)`", table[0]))
    text = {path.name: path.read_text(encoding="utf-8") for path in PAPER.glob("*.sh")}
    taken = {
        name for script in text.values() for name in re.findall(r"^([A-Z_]+)=\$\{\1:-", script, flags=re.MULTILINE)
    }
    assert told == taken | {"INPUT"}
    run = [re.fullmatch(r"((?:\w+=\S+ )*)sh samples/paper/(\w+\.sh)", line) for line in lines]
    assert {found[2] for found in run if found} == text.keys() - {"common.sh"}
    for line in lines:
        assert set(re.findall(r"\b([A-Z_]+)=", line)) <= told, line


MATH500, GSM8K = "hf:HuggingFaceH4/MATH-500:test", "hf:openai/gsm8k/main:train"
DEEPSCALER = "hf:agentica-org/DeepScaleR-Preview-Dataset:train"
GYM = [f"gym:{task}?size=100&seed=1" for task in ("zebra_puzzles", "leg_counting", "color_cube_rotation")]
LLAMA, QWEN = "meta-llama/Llama-3.2-1B-Instruct", "Qwen/Qwen2.5-3B-Instruct"
AS_THEY_STAND = {
    "detect": (
        LLAMA,
        [f"{MATH500}[:500]", f"{GSM8K}[:1300]", f"{DEEPSCALER}[:5000]"],
    ),
    "scaling": (LLAMA, [f"{GSM8K}[:1300]", f"{MATH500}[:500]"]),
    "online": (LLAMA, [f"{MATH500}[:500]"]),
    "logic": (QWEN, GYM),
    "code": (QWEN, ["hf:openai/openai_humaneval:test[:164]"]),
    "facts": (
        QWEN,
        ["hf:lvogel123/factscore:train[:1000000]", "facts/facts-asked.jsonl", "facts/verdicts-asked.jsonl"],
    ),
    "difficulty": (LLAMA, ["hf:Open-Reasoner-Zero/orz_math_57k_collection:train[:20000]"]),
    "sigma": (LLAMA, ["hf:openai/gsm8k/main:test[:1319]"]),
    "temperature": (LLAMA, [f"{MATH500}[:500]"]),
    "stepwise": (LLAMA, [f"{MATH500}[:500]"]),
    "cases": (
        LLAMA,
        [
            *(f"{GSM8K}[{row}:{row + 1}]" for row in (1178, 1190)),
            *(f"cases/math500-{number}-question.jsonl" for number in (1298, 260)),
        ],
    ),
}
SAMPLED = {"scaling": ("512", "0.8"), "stepwise": ("512", "0.8"), "online": ("16", "0.8"), "difficulty": ("10", "0.8")}


@pytest.mark.parametrize("name", AS_THEY_STAND)
def test_as_they_stand_they_ask_for_the_papers_data_and_settings(name, tmp_path):
    """A program in the place of tokur keeps what it is asked for."""
    published(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tokur"
    program.write_text(
        '#!/bin/sh\nprintf \'%s\\t\' "$@" >> "$ASKED"; echo >> "$ASKED"\n'
        'while [ $# -gt 0 ]; do case $1 in -o | --graded) : > "$2" ;; esac; shift; done\n'
        "echo accuracy 1% majority 1% Pass@1 1% Pass@16 1% >&2\n"
        """echo '{"tu": 1, "au": 1, "eu": 1, "auroc": {"tu": 1, "au": 1, "eu": 1}, "score": "eu_mean", "scaling": """
        """[{"method": "maj", "n": 2, "mean": 1, "std": 0}, {"method": "pass@1", "n": 2, "mean": 1}]}'\n""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    asked = tmp_path / "asked"
    done = start(tmp_path, f"{name}.sh", program.parent, ASKED=str(asked), FORM="latex", HF_HOME=str(tmp_path / "hub"))
    assert done.returncode == 0, done.stderr
    if name == "detect":
        titles = [line for line in done.stdout.splitlines() if line and not line.startswith("{")]
        assert titles == ["% math500", "% gsm8k", "% deepscaler"]
    calls = [line.rstrip("\t").split("\t") for line in asked.read_text(encoding="utf-8").splitlines()]
    made = [call for call in calls if call[0] == "generate"]
    language_model, inputs = AS_THEY_STAND[name]
    assert list(dict.fromkeys(call[1] for call in made)) == inputs
    assert after(made[0], "-m") == language_model
    assert {after(call, "--template") for call in made} == {"math" if language_model == LLAMA else "chat"}
    if name in SAMPLED:
        assert (after(made[-1], "-n"), after(made[-1], "--temperature")) == SAMPLED[name]
    if name in ("detect", "logic", "code"):  # what is greedy needs no seed; the draws have three
        assert not {"-n", "--temperature", "--seed"} & {word for call in made for word in call}
        seeds = [after(call, "--seed") for call in calls if call[0] == "score"]
        assert seeds == ["0", "1", "2"] * len(inputs)
    if name in ("scaling", "stepwise"):
        votes = [call for call in calls if call[0] == "evaluate"]
        assert {after(call, "--scaling") for call in votes} == {"16,32,64,128,256,512"}
        assert {(after(call, "--keep"), after(call, "--repeats")) for call in votes} == {("10%", "10")}


def published(folder):
    """Put data sets in the place of the hub's: rows of GSM8K that name their place, and three of MATH500."""
    rows = [{"question": f"Row {n}: 1+1?", "answer": "1+1=<<1+1=2>>2\n#### 2"} for n in range(1200)]
    identifiers = ["test/prealgebra/260.json", "test/algebra/1298.json", "test/prealgebra/1298.json"]
    asked = [{"problem": f"Of {name}: 1+1?", "answer": "2", "unique_id": name} for name in identifiers]
    for path, lines in (("openai/gsm8k/main/train.jsonl", rows), ("HuggingFaceH4/MATH-500/test.jsonl", asked)):
        (folder / path).parent.mkdir(parents=True)
        write_lines(folder / path, lines)


def after(call, option):
    return call[call.index(option) + 1] if option in call else None


@pytest.mark.slow
def test_detect_evaluates_every_score_under_every_seed_and_goes_on_where_it_was_stopped(make, tmp_path):
    settings = {"SCORES": "default", "SEEDS": "0 1"}
    out = make("detect.sh", **settings)
    rows = {row["score"]: row for row in results(out)["responses"]}
    assert rows.keys() == {score.name for score in choose_scores(DEFAULT)}
    runs = [records_of(tmp_path / "detect" / f"responses-{seed}.jsonl") for seed in (0, 1)]
    for seed, records in enumerate(runs):
        assert [record["id"] for record in records] == ["q0", "q1"]
        run, generation = records[0]["tokur"]["run"], records[0]["tokur"]["generation"]
        assert (run["seed"], run["draws"], run["rank"], run["sigma"], run["sampling"]) == (seed, 2, 8, 0.1, "stepwise")
        assert (generation["temperature"], generation["max_new_tokens"]) == (0, 12)
    for name, row in rows.items():
        sign = 1 if CATALOGUE[name].orientation == "confidence" else -1
        values = [
            roc_auc_score([r["correct"] for r in records], [sign * r["tokur"]["scores"][name] for r in records])
            for records in runs
        ]
        assert row["auroc"]["value"] == pytest.approx(statistics.mean(values))
    last = tmp_path / "detect" / "responses-1.jsonl"
    whole = last.read_bytes()
    last.write_bytes(whole[: len(whole) * 3 // 4])
    assert make("detect.sh", **settings) == out
    assert last.read_bytes() == whole


@pytest.mark.slow
def test_a_bad_row_ends_a_script_before_it_prints_a_table_and_other_settings_are_refused(model, programs, tmp_path):
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"id": "q0", "question": "0+0?", "reference": "0"}\n{"id": "q1", "question": 5}\n')
    settings = QUICK | {"MODEL": str(model), "INPUT": str(asked), "SCORES": "eu"}
    done = start(tmp_path, "detect.sh", programs, **settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert "questions.jsonl:2: " in done.stderr
    done = start(tmp_path, "detect.sh", programs, **settings | {"TOKENS": "13"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "max_new_tokens" in done.stderr


@pytest.mark.slow
def test_scaling_votes_among_n_and_its_halves(make, tmp_path):
    out = make("scaling.sh", N="4")
    rows = [row for row in results(out)["responses-scored"] if row["score"] is not None]
    assert {row["score"] for row in rows} == {"ll", "self_certainty", "deepconf", "tu_mean", "au_mean", "eu_mean"}
    for row in rows:
        points = {(point["method"], point["n"]): point["mean"] for point in row["scaling"]}
        assert points.keys() == {(method, size) for method in ("maj", "wbon") for size in (2, 4)}
        assert set(points.values()) == {0.5}  # every sample of one question is right, every one of the other wrong
    records = records_of(tmp_path / "scaling" / "responses-scored.jsonl")
    assert [record["tokur"]["sample"] for record in records] == [0, 1, 2, 3] * 2
    assert {record["tokur"]["generation"]["temperature"] for record in records} == {0.8}
    plots = {path.name for path in (tmp_path / "scaling" / "responses-scored-plots").iterdir()}
    assert {"scaling-maj.svg", "scaling-wbon.svg"} <= plots


@pytest.mark.slow
def test_the_online_script_prints_the_table_and_goes_on_where_it_was_stopped(make, tmp_path):
    settings = {"N": "3", "SEEDS": "0 1"}
    table = make("online.sh", **settings)
    head, *lines = table.splitlines()
    assert head.split() == ["BoN", "WBoN", "majority", "Pass@1", "Pass@3"]
    assert [re.split("  +", line)[0] for line in lines] == [
        *(f"plain, by {score}" for score in ("ll", "tu_mean", "au_mean", "eu_mean")),
        *(f"guided by {score}" for score in ("ll", "tu", "au", "eu", "eu, recommended")),
    ]
    assert all(len(re.findall(r"\d+\.\d\d ± +\d+\.\d\d", line)) == 5 for line in lines)
    made = sorted((tmp_path / "online").glob("*-[01].jsonl"))
    assert len(made) == 12
    assert all(len(records_of(path)) == 6 for path in made)
    last = tmp_path / "online" / "recommended-1.jsonl"
    last.write_bytes(last.read_bytes()[:2000])
    assert make("online.sh", **settings) == table
    assert len(records_of(last)) == 6


@pytest.mark.slow
def test_logic_asks_and_grades_three_tasks(make, tmp_path):
    found = results(make("logic.sh"))
    assert list(found) == ["zebra_puzzles", "leg_counting", "color_cube_rotation"]
    for task, rows in found.items():
        assert {row["score"] for row in rows} == BASELINES
        assert (rows[0]["labelled"], rows[0]["accuracy"]["value"]) == (2, 0)
        records = records_of(tmp_path / "logic" / f"{task}-0.jsonl")
        assert [record["metadata"]["source_dataset"] for record in records] == [task] * 2
        assert "<answer>" in records[0]["tokur"]["generation"]["system"]


@pytest.mark.slow
def test_code_runs_the_tests_of_humaneval(make):
    rows = results(make("code.sh", INPUT=str(ROOT / "tests" / "data" / "humaneval_rows.jsonl")))["humaneval"]
    assert {row["score"] for row in rows} == BASELINES
    assert rows[0]["outcomes"] == {"incorrect": 2}


def test_facts_are_split_asked_for_and_counted_as_a_hand_counts_them(tmp_path):
    """Ten biographies, what a judge may reply, and what a hand has made of the replies."""
    hand = parsed((ROOT / "tests" / "data" / "facts.jsonl").read_text(encoding="utf-8"))
    responses = write_lines(tmp_path / "responses.jsonl", hand)

    def run(*arguments):
        command = [sys.executable, str(PAPER / "facts.py"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return parsed(done.stdout), done.stderr

    asked, _ = run("split", responses, "Split.")
    assert [row["question"] for row in asked] == [f"Split.\n\n{row['response']}" for row in hand]
    lists = [{**row, "response": of["listed"]} for row, of in zip(asked, hand, strict=True)]
    asked, _ = run("ask", write_lines(tmp_path / "lists.jsonl", lists), responses, "True?")
    facts = [(row["question"], fact) for row in hand for fact in row["facts"]]
    assert [row["question"] for row in asked] == [
        f"True?\n\nQuestion: {question}\nStatement: {fact['fact']}" for question, fact in facts
    ]
    said = [{**row, "response": fact["verdict"]} for row, (_, fact) in zip(asked, facts, strict=True)]
    judged, err = run("quality", responses, write_lines(tmp_path / "verdicts.jsonl", said))
    assert [row["quality"] for row in judged] == pytest.approx([row["quality"] for row in hand])
    assert "1 of 26 verdicts" in err
    assert "1 of 10 responses" in err


@pytest.mark.slow
def test_facts_gives_the_precision_of_the_more_certain_half(make, tmp_path):
    qualities = [0.5, 1.0, 0.25, 0.75, 0.0]
    judged = [
        {"id": f"p{n}", "question": f"Who is {n}?", "response": f"He is {'x' * n}.", "quality": quality}
        for n, quality in enumerate(qualities)
    ]
    rows = results(make("facts.sh", JUDGED=str(write_lines(tmp_path / "judged.jsonl", judged)), LIMIT="4"))["judged"]
    records = records_of(tmp_path / "facts" / "judged-0.jsonl")
    assert len(records) == 4
    assert_precision(rows, records, 0.625)


def assert_precision(rows, records, mean):
    """Compare what evaluate says of the more certain half of four records with their mean over all orders of equals."""
    assert {row["score"] for row in rows} == BASELINES
    for row in rows:
        sign = -1 if CATALOGUE[row["score"]].orientation == "confidence" else 1
        doubts = [(sign * record["tokur"]["scores"][row["score"]], record["quality"]) for record in records]
        orders = [
            order for order in permutations(doubts) if [doubt for doubt, _ in order] == sorted(d for d, _ in order)
        ]
        halves = [(first[1] + second[1]) / 2 for first, second, *_ in orders]
        assert row["acc"]["value"] == pytest.approx(statistics.mean(halves))
        assert row["accuracy"]["value"] == pytest.approx(mean)


JUDGE_FOR_TESTS = """#!{python}
import json, os, sys
words = sys.argv[1:]
if "judge" not in words:
    os.execv("{real}", ["{real}", *words])
with open(words[1]) as asked, open(words[words.index("-o") + 1], "w") as out:
    for line in asked:
        row = json.loads(line)
        number, _, place = row["id"].partition("-")
        said = str(int(number) + int(place) < 3) if place else "- A fact.\\n- Another."
        out.write(json.dumps({{**row, "response": said}}) + "\\n")
"""


@pytest.mark.slow
def test_facts_are_judged_by_a_model_of_ones_choice(model, programs, tmp_path):
    """A judge who calls both facts of two responses true, one of the third, and none of the fourth."""
    stand_in = tmp_path / "bin" / "tokur"
    stand_in.parent.mkdir()
    stand_in.write_text(JUDGE_FOR_TESTS.format(python=sys.executable, real=Path(programs) / "tokur"), encoding="utf-8")
    stand_in.chmod(0o755)
    people = write_lines(tmp_path / "people.jsonl", [{"question": f"Who is {n}?"} for n in range(5)])
    settings = QUICK | {"MODEL": str(model), "INPUT": str(people), "JUDGE": "judge", "LIMIT": "4"}
    done = start(tmp_path, "facts.sh", stand_in.parent, **settings)
    assert done.returncode == 0, done.stderr
    records = records_of(tmp_path / "facts" / "judged-0.jsonl")
    assert [record["quality"] for record in records] == [1, 1, 0.5, 0]
    assert_precision(results(done.stdout)["judged"], records, 0.625)


@pytest.mark.slow
def test_difficulty_is_told_by_another_models_attempts(make, tmp_path, model):
    other = tmp_path / "other"
    other.symlink_to(model)
    rows = [json.loads(line) for line in make("difficulty.sh", JUDGE=str(other), N="3").splitlines()]
    groups = {row["group"]: row["labelled"] for row in rows if "group" in row}
    assert groups == {"0": 1, "3": 1}  # all attempts at one question are right, none at the other
    assert {row["score"] for row in rows} == {"tu", "au", "eu"}
    attempts = records_of(tmp_path / "difficulty" / "attempts.jsonl")
    assert {record["tokur"]["model"] for record in attempts} == {str(other)}
    assert len(attempts) == 6
    responses = records_of(tmp_path / "difficulty" / "scored.jsonl")
    assert {record["tokur"]["model"] for record in responses} == {str(model)}
    assert (tmp_path / "difficulty" / "plots" / "groups.svg").exists()


@pytest.mark.slow
def test_equally_many_questions_of_each_difficulty_are_taken_and_more_are_added(make, tmp_path, model):
    labels = [True, False, None, False, True, False, True, True]
    rows = [{"id": f"q{n}", "question": f"{n}?", "correct": label} for n, label in enumerate(labels)]
    rows[1]["question"] = 'Is "correct": true JSON?'
    settings = {
        "INPUT": str(write_lines(tmp_path / "mixed.jsonl", rows)),
        "N": "2",
        "PER_LEVEL": "2",
        "JUDGE": str(model),
    }
    scored = tmp_path / "difficulty" / "scored.jsonl"
    for limit, groups, chosen in (("4", {"0": 1, "2": 2}, "q0 q1 q3"), ("8", {"0": 2, "2": 2}, "q0 q1 q3 q4")):
        found = [json.loads(line) for line in make("difficulty.sh", LIMIT=limit, **settings).splitlines()]
        assert {row["group"]: row["labelled"] for row in found if "group" in row} == groups
        assert [record["id"] for record in records_of(scored)] == chosen.split()


@pytest.mark.slow
def test_sigma_has_a_row_for_each_strength(make, tmp_path, run_tokur, model):
    head, *rows, ll, ll_sum = make("sigma.sh", SIGMAS="0.1 1").splitlines()
    assert head.split() == ["σ", "TU", "AU", "EU", "AUROC", "TU", "AU", "EU"]
    assert [row.split()[0] for row in rows] == ["0.1", "1"]
    for row in rows:
        sigma, *printed = row.split()
        arguments = ("--sigma", sigma, "--dtype", "float32", "-m", model)
        _, out, _ = run_tokur("score", tmp_path / "sigma" / "responses.jsonl", *arguments)
        scored = parsed(out)
        for name, mean, auroc in zip(("tu", "au", "eu"), printed[:3], printed[3:], strict=True):
            values = [value for record in scored for value in record["tokur"]["tokens"][name]]
            assert float(mean) == pytest.approx(statistics.mean(values), abs=1e-3)
            right, wrong = (record["tokur"]["scores"][name] for record in scored)
            assert float(auroc) == (right < wrong)
    _, out, _ = run_tokur("score", tmp_path / "sigma" / "responses.jsonl", "--scores", "ll,ll_sum", *arguments)
    for line, name in ((ll, "ll"), (ll_sum, "ll_sum")):
        right, wrong = (record["tokur"]["scores"][name] for record in parsed(out))
        assert line.split() == [name, f"{right > wrong:.4f}"]
    assert {"ll", "ll_sum", "σ"} <= words_of(tmp_path / "sigma" / "figure.svg")


def words_of(figure):
    """Return the texts of a figure, which lie beside a PNG of it."""
    assert figure.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    return {
        "".join(text.itertext()).strip() for text in ElementTree.parse(figure).iter("{http://www.w3.org/2000/svg}text")
    }


@pytest.mark.slow
def test_temperature_has_a_row_for_each_temperature(make, tmp_path):
    head, cold, hot, _, *rest = make("temperature.sh", TEMPERATURES="0 1").splitlines()
    assert {"TU", "AU", "EU", "τ"} <= words_of(tmp_path / "temperature" / "figure.svg")
    assert head.split() == ["τ", "TU", "AU", "EU", "AUROC", "TU", "AU", "EU"]
    assert [line.split()[0] for line in (cold, hot)] == ["0", "1"]
    assert all(len(line.split()) == 7 for line in (cold, hot))
    rows = [json.loads(line) for line in rest]
    assert {(row["group"], row["score"]) for row in rows if "group" in row} == {
        (temperature, score) for temperature in ("0.0", "1.0") for score in BASELINES
    }
    for row in rows:
        if row.get("group") and row["score"] in ("tu", "au", "eu"):
            line = cold if row["group"] == "0.0" else hot
            place = ("tu", "au", "eu").index(row["score"])
            assert float(line.split()[4 + place]) == row["auroc"]["value"]


@pytest.mark.slow
def test_stepwise_compares_the_draws_on_the_same_responses(make, tmp_path):
    found = results(make("stepwise.sh", N="2"))
    assert list(found) == ["stepwise", "shared", "joint"]
    scored = {name: records_of(tmp_path / "stepwise" / f"{name}.jsonl") for name in found}
    for name, records in scored.items():
        assert {record["tokur"]["run"]["sampling"] for record in records} == {name}
        assert {row["score"] for row in found[name]} - {None} == {"tu_mean", "au_mean", "eu_mean"}
    texts = [[record["response"] for record in records] for records in scored.values()]
    assert texts[0] == texts[1] == texts[2]
    words = {"Pass@1", "accuracy", "improvement", "efficiency", *found}
    assert words <= words_of(tmp_path / "stepwise" / "figure.svg")


def test_improvement_is_over_one_response_and_efficiency_that_of_a_doubling():
    """By hand: one response is right in 20 %, two in 30 %, eight in 44 %."""
    code = (
        "import figures\npoints = {2: (0.3, 0), 8: (0.44, 0)}\n"
        "print(*figures.improvement(points, 0.2).values(), *figures.efficiency(points, 0.2).values())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PAPER, capture_output=True, text=True, check=True)
    assert [float(word) for word in done.stdout.split()] == pytest.approx([10, 24, 10, 8])


@pytest.mark.slow
def test_the_papers_cases_are_the_rows_that_it_names(model, programs, tmp_path):
    published(tmp_path)
    settings = {"MODEL": str(model), "N": "2", "HF_HOME": str(tmp_path / "hub")}
    done = start(tmp_path, "cases.sh", programs, **QUICK | settings)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "cases"
    for name, asked in (
        ("gsm8k-1178", "Row 1178: 1+1?"),
        ("gsm8k-1190", "Row 1190: 1+1?"),
        ("math500-1298", "Of test/prealgebra/1298.json: 1+1?"),
        ("math500-260", "Of test/prealgebra/260.json: 1+1?"),
    ):
        records = records_of(folder / f"{name}-graded.jsonl")
        assert [record.get("question") or record["problem"] for record in records] == [asked] * 2
        assert asked in (folder / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_cases_are_painted_by_both_uncertainties(make, tmp_path):
    make("cases.sh", N="2")
    figure = ElementTree.parse(tmp_path / "cases" / "solutions.svg").getroot()
    text = "".join(figure.itertext())
    fills = {box.get("fill") for box in figure.iter("{http://www.w3.org/2000/svg}rect")}
    assert fills >= {*HEX_STEPS["red"]["light"], *HEX_STEPS["green"]["light"]}  # those of the legends
    assert not fills & set(HEX_STEPS["cividis"]["light"])
    assert all(shown in text for shown in ("q0 · sample 0", "q0 · sample 1", "aleatoric", "epistemic"))
    assert "q1" not in text
    assert '"q1"' in (tmp_path / "cases" / "solutions.html").read_text(encoding="utf-8")
    assert [record["correct"] for record in records_of(tmp_path / "cases" / "solutions-graded.jsonl")] == [
        *[True] * 2,
        *[False] * 2,
    ]
