"""``Tokur`` from Python does what the commands do: same records, numbers and errors; and heat maps in notebooks."""

import base64
import gc
import re
import shutil
import subprocess
import sys
import weakref
from xml.etree import ElementTree

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers import parsed, write_lines
from tokur_cli import Tokur
from tokur_cli.commands.session import model
from tokur_cli.records.errors import RecordError, TokurError, UsageError

ROWS = [
    {"id": number, "question": f"What is {number} + 1?", "response": f"It is {number + 1}.", "note": {"é": [1.5, None]}}
    for number in range(40)
]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_neither_importing_the_package_nor_a_mistake_imports_torch():
    heavy = "print([name for name in ('torch', 'transformers', 'typer') if name in sys.modules])"
    assert python(f"import sys, tokur_cli; {heavy}") == "[]"
    refused = "\ntry: tokur_cli.Tokur(scores='no')\nexcept tokur_cli.records.errors.UsageError: "
    assert python(f"import sys, tokur_cli{refused}{heavy}") == "['typer']"


def test_scores_are_those_of_the_command_to_the_last_bit(tiny_folder, tmp_path, run_tokur):
    lines = write_lines(tmp_path / "responses.jsonl", ROWS)
    code, out, err = run_tokur("score", lines, "-m", tiny_folder, "--draws", 3, "--sigma", "0.2", "--seed", 7)
    assert code == 0, err
    tokur = Tokur(str(tiny_folder), draws=3, sigma=0.2, seed=7)
    assert list(tokur.score(ROWS)) == parsed(out)
    assert list(tokur.score(iter(ROWS))) == parsed(out)  # again, with the model that is loaded
    _, out, _ = run_tokur("score", lines, "-m", tiny_folder, "--scores", "ll", "--no-tokens")
    assert list(Tokur(str(tiny_folder), scores="ll", no_tokens=True).score(ROWS)) == parsed(out)


def test_a_question_is_asked_as_a_text(tiny_folder):
    tokur = Tokur(str(tiny_folder))
    (response,) = tokur.generate("What is 7 × 8?", max_new_tokens=4)
    assert [response] == list(tokur.generate([{"question": "What is 7 × 8?"}], max_new_tokens=4))
    with pytest.raises(UsageError, match="give a list of records, not a single one"):
        list(tokur.score("What is 7 × 8?"))


def test_responses_are_those_of_the_command_and_can_be_scored(tiny_folder, tmp_path, run_tokur):
    questions = [{"question": f"{who}?", "answer": "No one.\n#### 0"} for who in ("Who", "Whose")]  # as GSM8K has them
    options = {"samples": 2, "temperature": 0.9, "max_new_tokens": 6, "seed": 5}
    arguments = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", value)]
    lines = write_lines(tmp_path / "questions.jsonl", questions)
    code, out, err = run_tokur("generate", lines, "-m", tiny_folder, *arguments, "--stop", "a", "--stop", "b")
    assert code == 0, err
    tokur = Tokur(str(tiny_folder))
    responses = list(tokur.generate(questions, **options, stop=["a", "b"]))
    assert responses == parsed(out)
    assert responses[0]["reference"] == "0"
    assert all(scored["tokur"]["scores"]["eu"] >= 0 for scored in tokur.score(responses))


GUIDED = {"guide": "eu", "samples": 3, "temperature": 1, "step_tokens": 2, "max_new_tokens": 8}


def arguments(options):
    flags = {f"--{name.replace('_', '-')}": value for name, value in options.items() if name != "step_tokens"}
    rare = ["--set", f"step_tokens={options['step_tokens']}"] if "step_tokens" in options else []
    return [*rare, *(text for flag, value in flags.items() for text in ([flag] if value is True else [flag, value]))]


@pytest.mark.parametrize(
    ("of_all", "of_call"),
    [
        ({}, {"draws": 5, "sigma": 0.5, "seed": 3, **GUIDED}),
        ({"draws": 3, "sigma": 0.5, "seed": 3, "scores": "au"}, {"sigma": 0.3, **GUIDED}),
        ({"seed": 4, "scores": "eu"}, {"score": True, "max_new_tokens": 6}),
        ({"draws": 3, "scores": "eu"}, {"score": True, "scores": "tu,ll", "seed": 2, "no_tokens": True}),
        ({"draws": 3}, {"score": True, "sampling": "joint", **GUIDED}),
        (
            {"over": "samples", "similarity": "jaccard"},
            {"score": True, "scores": "u_deg", "samples": 3, "temperature": 1},
        ),
    ],
    ids=["guided", "defaults", "scored", "scores", "both", "samples"],
)
def test_options_of_a_call_and_of_all_calls_are_those_of_the_command(tiny_folder, tmp_path, run_tokur, of_all, of_call):
    of_call = {"max_new_tokens": 4, **of_call}
    questions = [{"id": who, "question": f"{who}?"} for who in ("Who", "Whose")]
    lines = write_lines(tmp_path / "questions.jsonl", questions)
    said = {**of_all, **of_call}
    if "score" not in of_call:
        said.pop("scores", None)  # from Python it is for tokur.score, too; the command refuses it
    code, out, err = run_tokur("generate", lines, "-m", tiny_folder, *arguments(said))
    assert code == 0, err
    assert list(Tokur(str(tiny_folder), **of_all).generate(questions, **of_call)) == parsed(out)


def test_a_kept_posterior_keeps_its_seed_and_the_call_gives_that_of_the_samples(tiny_folder, tmp_path, run_tokur):
    kept = tmp_path / "posterior"
    assert run_tokur("perturb", "-m", tiny_folder, "-o", kept, "--sigma", "0.3", "--seed", 5)[0] == 0
    options = {"posterior": str(kept), "seed": 3, "score": True, **GUIDED}
    questions = [{"id": "Who", "question": "Who?"}]
    lines = write_lines(tmp_path / "questions.jsonl", questions)
    code, out, err = run_tokur("generate", lines, *arguments(options))
    assert code == 0, err
    assert list(Tokur().generate(questions, **options)) == parsed(out)
    del options["posterior"]
    assert list(Tokur(posterior=str(kept)).generate(questions, **options)) == parsed(out)
    with pytest.raises(UsageError, match="--sigma contradicts --posterior"):
        Tokur(posterior=str(kept)).generate(questions, sigma=0.1, **options)


@pytest.mark.parametrize("options", [{"model": "other"}, {"m": "other"}, {"dtype": "float32"}, {"model": "none@main"}])
def test_a_call_has_the_model_that_there_is(options):
    with pytest.raises(UsageError, match="give another model, or how it is loaded, to Tokur"):
        Tokur("none").generate([], **options)


def test_options_that_a_call_cannot_heed_are_refused():
    with pytest.raises(UsageError, match="no backend vllm: run tokur score or tokur generate with --backend vllm"):
        Tokur("none").generate([], backend="vllm")
    with pytest.raises(UsageError, match="no backend vllm"):
        Tokur("none", backend="vllm", sampling="shared")


def test_records_before_a_bad_one_are_given_and_then_its_place(tiny_folder):
    scored = Tokur(str(tiny_folder)).score([*ROWS[:2], {"question": "Why?"}, ROWS[2]])
    assert [next(scored)["id"], next(scored)["id"]] == [0, 1]
    with pytest.raises(RecordError, match=r'^records:3: "response" is missing$'):
        next(scored)
    for row, message in ((3, "is a number, not a JSON object"), ({1: 2}, "keys are strings"), ({"a": {2}}, "set")):
        with pytest.raises(RecordError, match=rf"^records:1: .*{message}"):
            list(Tokur(str(tiny_folder)).score([row]))


def test_lists_of_names_are_given_as_such(tiny_folder):
    options = {"no_tokens": True, "seed": 1}
    texts = list(Tokur(str(tiny_folder), scores="eu,ll", targets="q_proj", **options).score(ROWS[:2]))
    assert list(Tokur(str(tiny_folder), scores=["eu", "ll"], targets=("q_proj",), **options).score(ROWS[:2])) == texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "--draws"),
        ({"estimator": "best"}, "'best' is not one of 'paper', 'kl', 'fisher'"),
        ({"sigma": -1}, "must be a number from 0"),
        ({"scores": "eu,nothing"}, "unknown score nothing"),
        ({"template": "/nowhere"}, "--template /nowhere: neither"),
        ({"posterior": "/nowhere"}, "there is no such file"),
        ({"output": "file"}, "no option output from Python; there are: model, m, adapter"),
        ({"temperature": 1}, "tokur score has no option temperature"),
    ],
)
def test_an_option_that_the_command_refuses_is_an_exception(options, message):
    with pytest.raises(TokurError, match=re.escape(message)):
        Tokur("none", **options)


def test_options_of_generate_are_refused_when_it_is_called():
    with pytest.raises(UsageError, match="-n 2 needs --temperature above 0"):
        Tokur("none").generate([], samples=2)


def test_a_single_record_is_refused():
    record = {"question": "a", "response": "b"}
    for ask, one in ((Tokur("none").score, record), (Tokur("none").generate, record), (Tokur("none").score, "What?")):
        with pytest.raises(UsageError, match="give a list of records"):
            list(ask(one))


def test_a_model_is_let_go_before_another_is_loaded_and_with_its_object(tiny_folder, tmp_path, monkeypatch):
    other = shutil.copytree(tiny_folder, tmp_path / "other")
    seen, load = [], model.load_language_model

    def watched(*arguments, **options):
        assert not any(before() for before in seen)
        loaded = load(*arguments, **options)
        seen.append(weakref.ref(loaded.model))
        return loaded

    monkeypatch.setattr(model, "load_language_model", watched)
    tokur = Tokur()
    for folder in (tiny_folder, other):
        rows = [{**row, "tokur": {"model": str(folder)}} for row in ROWS[:2]]
        assert len(list(tokur.score(rows))) == 2
    assert [before() is None for before in seen] == [True, False]
    del tokur
    gc.collect()
    tokur = Tokur(str(tiny_folder))
    assert len(list(tokur.generate(ROWS[:2], score=True, max_new_tokens=3))) == 2
    assert [before() is None for before in seen] == [True, True, False]
    del tokur
    gc.collect()
    assert seen[-1]() is None


def test_no_records_load_no_model():
    assert list(Tokur("none").score([])) == []
    assert list(Tokur("none").generate([])) == []


def test_a_scored_record_is_a_picture_of_its_tokens_that_does_nothing_to_the_page(tiny_folder):
    row = {"question": "Why?", "response": '<script>alert("x")</script> & so on'}
    shown = next(Tokur(str(tiny_folder)).score([row]))._repr_html_()
    image = ElementTree.fromstring(shown.removesuffix(">") + "/>")
    assert image.tag == "img"
    assert row["response"] in image.get("alt")
    figure = ElementTree.fromstring(base64.b64decode(image.get("src").partition("base64,")[2]))
    drawn = "".join("".join(text.itertext()) for text in figure.iter("{http://www.w3.org/2000/svg}text"))
    assert "<script>" in drawn
    assert "epistemic\xa0uncertainty" in drawn
    assert not list(figure.iter("{http://www.w3.org/2000/svg}script"))
    without = next(Tokur(str(tiny_folder), scores="ll", no_tokens=True).score([row]))
    assert without._repr_html_() is None
    without["tokur"] = 3
    assert without._repr_html_() is None


@pytest.mark.slow
def test_a_notebook_shows_a_heat_map(tiny_folder):
    code = f"from tokur_cli import Tokur\nnext(Tokur({str(tiny_folder)!r}).score([{ROWS[0]!r}]))"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    results = [output for output in notebook.cells[0].outputs if output.output_type == "execute_result"]
    assert results[0].data["text/html"].startswith('<img alt="Heat map of the epistemic uncertainty in: It is 1."')
