"""Templates are filled as jinja and transformers fill them, and one that fails or does not end is an error."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from transformers import PreTrainedTokenizerFast

from tests.engine.test_turns import FAMILIES, family
from tests.tiny import tiny_tokenizer
from tokur_cli.engine.templates.rendering import TemplateProcess
from tokur_cli.engine.turns import render
from tokur_cli.records.errors import TokurError

SECONDS = 1.5
MEMORY = 100_000_000

FAILURES = {
    "{{ level + 1 }}": r'TypeError: can only concatenate str \(not "int"\) to str \(line 1 of the template\)',
    "a\n{{ 1 / 0 }}": r"ZeroDivisionError: division by zero \(line 2 of the template\)",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": r"RecursionError: .*",
    "{% include 'x' %}": r"TypeError: no loader .*",
    "{{ nothing }}": r"'nothing' is undefined \(line 1 of the template\)",
    "{{ level.nothing }}": r"'str object' has no attribute 'nothing' \(line 1 of the template\)",
    "{{ [][0] }}": r".* has no element 0 .*",
    "{{ 'abc' | nothing }}": r"No filter named 'nothing'\. \(line 1 of the template\)",
    "{% for %}": r".* \(line 1 of the template\)",
    "{{ level.__class__.__mro__ }}": r"access to attribute '__class__' of 'str' object is unsafe.*",
    "{% for i in range(10**9) %}x{% endfor %}": r"OverflowError: Range too big.*",
    "{{ dict(level=1).x.y }}": r"'dict object' has no attribute 'x' .*",
}
BOMBS = {
    "a string in one step": "{{ 'x' * 10**10 }}",
    "a list in one step": "{{ ([1] * 10**10) | length }}",
    "by a filter": "{{ 'x' | center(10**10) }}",
    "by a format": "{{ '%9999999999d' | format(1) }}",
    "by a method": "{{ '{:>9999999999}'.format(1) }}",
    "by doubling": "{% set n = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "bit by bit": "{% for i in range(99999) %}{% for j in range(9999) %}xxxxxxxx{% endfor %}{% endfor %}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a power": "{{ 9 ** (9 ** (5 + level | length)) }}",
    "a power of literals": "{{ 9 ** (9 ** 9) }}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a loop that calls itself": "{% for i in [99] recursive %}{{ loop(range(99)) }}{{ loop(range(99)) }}{% endfor %}",
    "a long error": "{{ ('x' * 10**7)[level] }}",
}


@pytest.fixture(scope="module")
def templates():
    process = TemplateProcess(SECONDS, MEMORY)
    yield process
    process.close()


@pytest.mark.parametrize("template", FAILURES)
def test_whatever_fails_is_an_error_that_names_the_line(templates, template):
    with pytest.raises(TokurError, match=rf"^{FAILURES[template]}$"):
        templates.fill(template, {"level": "high"})
    assert templates.fill("{{ level }}", {"level": "high"}) == "high"


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_template_that_does_not_end_or_fills_memory_is_stopped(templates, name):
    began = time.monotonic()
    with pytest.raises(TokurError) as caught:
        templates.fill(BOMBS[name], {"level": "high"})
    assert time.monotonic() - began < SECONDS + 5
    assert len(str(caught.value)) < 1100
    assert templates.fill("{{ level }}", {"level": "high"}) == "high"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a string in one step", "loops", "by doubling"])
def test_chat_templates_are_stopped_too(templates, name):
    with pytest.raises(TokurError, match=r"takes too much memory|takes longer than"):
        templates.fill_chat(BOMBS[name], [{"role": "user", "content": "Hi"}], {}, True)
    assert (
        templates.fill_chat("{{ bos_token }}!", [{"role": "user", "content": "Hi"}], {"bos_token": "B"}, True) == "B!"
    )


@pytest.mark.slow
def test_a_text_that_is_too_long_is_an_error():
    process = TemplateProcess(20, 1_000_000_000)
    with pytest.raises(TokurError, match="it makes 70,000,000 characters, more than 64,000,000"):
        process.fill("{{ 'x' * 70000000 }}", {})
    assert len(process.fill("{{ 'é' * 60000000 }}", {})) == 60_000_000
    process.close()


@pytest.mark.parametrize("name", FAMILIES)
def test_chats_read_as_transformers_renders_them(name):
    tokenizer, _, _ = family(name)
    for content in ("How many?", "  ↵\u2028\U0001f600\n", "<|im_end|>"):
        messages = [{"role": "user", "content": content, "name": None}]
        expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert render(tokenizer, messages, answer_follows=True) == expected


def test_fields_reach_a_template_as_they_are(templates):
    fields = {"text": "é\ud800\u2028\"'", "big": 10**30, "small": 1.10, "list": [None, True, {"a": [1]}], "inf": 1e400}
    template = "{{ text }}|{{ big }}|{{ small }}|{{ list }}|{{ inf }}|{{ list[2].a[0] + 1 }}\n"
    expected = SandboxedEnvironment(undefined=StrictUndefined).from_string(template).render(fields)
    assert templates.fill(template, fields) == expected


def test_values_that_are_nested_too_deeply_are_an_error(templates):
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TokurError, match="its values are nested too deeply"):
        templates.fill("{{ a }}", {"a": value})
    while value:  # Python 3.10 runs out of stack where it frees them all at once
        value = value[0]


def test_a_process_that_was_killed_is_replaced(templates):
    templates.fill("a", {})
    process = templates._process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert templates.fill("b", {}) == "b"


def test_closing_ends_the_process_and_the_next_template_starts_another():
    templates = TemplateProcess(SECONDS, MEMORY)
    templates.close()
    assert templates.fill("a", {}) == "a"
    process = templates._process
    templates.close()
    assert process.returncode == -signal.SIGKILL
    assert templates.fill("b", {}) == "b"
    templates.close()


def test_who_is_interrupted_over_a_template_gets_the_next_ones_text():
    templates = TemplateProcess(60, MEMORY)
    templates.fill("a", {})
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            templates.fill("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}late", {})
        assert templates.fill("b", {}) == "b"
    finally:
        signal.signal(signal.SIGALRM, before)
        templates.close()


@pytest.mark.slow
def test_a_template_outlives_no_parent(tmp_path):
    """The parent is killed over a template that does not end: the kernel's timer ends its process too."""
    code = textwrap.dedent("""
        import sys
        from tokur_cli.engine.templates.rendering import TemplateProcess
        templates = TemplateProcess(3, 10**8)
        templates.fill("a", {})
        print(templates._process.pid, flush=True)
        templates.fill(sys.argv[1], {})
    """)
    parent = subprocess.Popen([sys.executable, "-c", code, BOMBS["loops"]], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    os.kill(child, 0)  # still at it
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{child}/stat", encoding="utf-8") as stat:
                if stat.read().split()[2] == "Z":  # nobody waits for it here
                    return
        except FileNotFoundError:
            return
        time.sleep(0.1)
    pytest.fail("the process is still there")


def test_the_tokenizers_template_of_several_is_the_one_that_transformers_takes():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = {"default": "D{{ messages[0].content }}", "tool_use": "T"}
    assert render(tokenizer, [{"role": "user", "content": "Hi"}], answer_follows=True) == "DHi"


def test_a_tokenizer_that_renders_chats_by_code_of_its_own_is_asked():
    class Own(PreTrainedTokenizerFast):
        def apply_chat_template(self, conversation, tokenize=True, add_generation_prompt=False, **_):
            if "refuse" in conversation[0]["content"]:
                raise NotImplementedError("no such turn")
            assert not tokenize
            return f"own:{conversation}:{add_generation_prompt}"

    tokenizer = Own(tokenizer_object=tiny_tokenizer().backend_tokenizer, chat_template="not this")
    text = render(tokenizer, [{"role": "user", "content": "Hi", "name": None}], answer_follows=True)
    assert text == "own:[{'role': 'user', 'content': 'Hi'}]:True"
    with pytest.raises(TokurError, match=r"^the model's chat template refuses these messages: no such turn$"):
        render(tokenizer, [{"role": "user", "content": "refuse"}], answer_follows=True)


def test_named_templates_without_a_default_are_an_error():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = {"rag": "R", "tool_use": "T"}
    with pytest.raises(TokurError, match=r"multiple chat templates with no default .*\['rag', 'tool_use'\]"):
        render(tokenizer, [{"role": "user", "content": "Hi"}], answer_follows=True)


def test_chat_templates_have_what_transformers_gives_them():
    """The date, marks around the assistant's words, and tools and documents that are none."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{{ strftime_now('%Y') | length }}{% generation %}{{ messages[0].content }}{% endgeneration %}"
        "{{ tools is none }}{{ documents is none }}{% if undefined_name %}x{% endif %}{{ [1] | tojson }}{{ eos_token }}"
    )
    messages = [{"role": "user", "content": "Hi"}]
    expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert render(tokenizer, messages, answer_follows=True) == expected == "4HiTrueTrue[1]<|im_end|>"
