"""``Tokur`` from Python does what the commands do: same records, numbers and errors; and heat maps in notebooks."""

import base64
import gc
import shutil
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import pytest
import torch

from tests.helpers import parsed, write_lines
from tokur_cli import Tokur
from tokur_cli.commands.session import model
from tokur_cli.records.errors import RecordError, UsageError

ROWS = [
    {"id": number, "question": f"What is {number} + 1?", "response": f"It is {number + 1}.", "note": {"é": [1.5, None]}}
    for number in range(40)
]


def test_python_imports_no_torch_for_a_mistake():
    code = "import sys, tokur_cli\ntry: tokur_cli.Tokur(scores='no')\nexcept tokur_cli.records.errors.UsageError: "
    code += "print([name for name in ('torch', 'transformers', 'rich') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_python_scores_as_the_command_to_the_last_bit(tiny_folder, tmp_path, run_tokur):
    lines = write_lines(tmp_path / "responses.jsonl", ROWS)
    names = ("--scores", "default,ll", "--targets", "q_proj,k_proj")
    code, out, err = run_tokur("score", lines, "-m", tiny_folder, "--draws", 3, "--sigma", "0.2", "--seed", 7, *names)
    assert code == 0, err
    lists = {"scores": ["default", "ll"], "targets": ("q_proj", "k_proj")}
    tokur = Tokur(str(tiny_folder), draws=3, sigma=0.2, seed=7, **lists)
    assert list(tokur.score(ROWS)) == parsed(out)
    assert list(tokur.score(iter(ROWS))) == parsed(out)  # again, with the model that is loaded


def test_python_generates_as_the_command_with_options_of_a_call_and_of_all(tiny_folder, tmp_path, run_tokur):
    of_all = {"draws": 3, "seed": 4, "scores": "eu"}
    of_call = {"score": True, "scores": "tu,ll", "seed": 2, "sampling": "joint", "no_tokens": True, "max_new_tokens": 8}
    of_call |= {"guide": "eu", "samples": 3, "temperature": 1, "step_tokens": 2}
    words = "--draws 3 --score --scores tu,ll --seed 2 --sampling joint --no-tokens --max-new-tokens 8"
    words += " --guide eu -n 3 --temperature 1 --set step_tokens=2"
    questions = [{"id": who, "question": f"{who}?", "answer": "No one.\n#### 0"} for who in ("Who", "Whose")]
    lines = write_lines(tmp_path / "questions.jsonl", questions)
    code, out, err = run_tokur("generate", lines, "-m", tiny_folder, *words.split())
    assert code == 0, err
    assert list(Tokur(str(tiny_folder), **of_all).generate(questions, **of_call)) == parsed(out)


def test_python_threads_take_turns_and_what_is_not_read_is_closed(tiny_folder):
    tokur = Tokur(str(tiny_folder), draws=2, sigma=0.1)
    expected = list(tokur.score(ROWS))
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(list, [tokur.score(ROWS) for _ in range(3)])) == [expected] * 3
        rows = threads.map(next, [tokur.score([row]) for row in ROWS])  # one waits for what the others score
        assert list(tokur.score(rows)) == expected
    row = {"question": "1?", "responses": ["1", "2", "3"]}
    found = list(Tokur(str(tiny_folder), steps="auto").generate([row], samples=2, temperature=1, max_new_tokens=2))
    assert [record["tokur"]["sample"] for record in found] == [0, 1]
    code = "import sys, tokur_cli\nasked = [{'question': '?'}] * 300\n"
    code += "it = tokur_cli.Tokur(sys.argv[1]).generate(asked, max_new_tokens=2); next(it)"
    done = subprocess.run([sys.executable, "-c", code, str(tiny_folder)], check=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_python_raises_a_bad_record_after_those_before_it(tiny_folder):
    scored = Tokur(str(tiny_folder)).score([*ROWS[:2], {"question": "Why?"}, ROWS[2]])
    assert [next(scored)["id"], next(scored)["id"]] == [0, 1]
    with pytest.raises(RecordError, match=r'^records:3: "response" is missing$'):
        next(scored)


def test_python_refuses_another_model_in_a_call_and_a_single_record():
    with pytest.raises(UsageError, match="give another model, or how it is loaded, to Tokur"):
        Tokur("none").generate([], dtype="float32")
    with pytest.raises(UsageError, match="-n 2 needs --temperature above 0"):
        Tokur("none").generate([], samples=2)
    with pytest.raises(UsageError, match="not of type list: give the folder"):
        Tokur(["none"])
    with pytest.raises(UsageError, match="no option draw from Python; did you mean draws"):
        Tokur(draw=2)
    for name in ("output", "backend"):
        with pytest.raises(UsageError, match=f"no option {name} from Python; there are: model, adapter"):
            Tokur(**{name: "vllm"})
    with pytest.raises(UsageError, match="give a list of records"):
        list(Tokur("none").score(ROWS[0]))
    assert list(Tokur("none").score([])) == [], "and no model is loaded"
    with torch.autocast("cpu", torch.float16), pytest.raises(UsageError, match="autocast is on"):
        next(Tokur("none").score(ROWS))


def test_python_lets_a_model_go_before_another_is_loaded_and_with_its_object(tiny_folder, tmp_path, monkeypatch):
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
    assert seen[-1]() is None


def test_python_record_is_a_picture_that_does_nothing_to_the_page(tiny_folder):
    row = {"question": "Why?", "response": '<script>alert("x")</script> & so on'}
    shown = next(Tokur(str(tiny_folder)).score([row]))._repr_html_()
    image = ElementTree.fromstring(shown.removesuffix(">") + "/>")
    assert (image.tag, row["response"] in image.get("alt")) == ("img", True)
    figure = ElementTree.fromstring(base64.b64decode(image.get("src").partition("base64,")[2]))
    assert not list(figure.iter("{http://www.w3.org/2000/svg}script"))
    without = next(Tokur(str(tiny_folder), scores="ll", no_tokens=True).score([row]))
    assert without._repr_html_() is None
