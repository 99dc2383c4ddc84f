"""Templates are filled as jinja and transformers fill them, on one date, and one that fails is an error."""

import pytest
from transformers import PreTrainedTokenizerFast

from tests.engine.text.test_chat import FAMILIES, family
from tests.tiny import tiny_tokenizer
from tokur_cli.engine.text.chat import render
from tokur_cli.engine.text.templates import fill_template
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError

HI = [{"role": "user", "content": "Hi"}]
FAILURES = {
    "{{ level + 1 }}": r'TypeError: can only concatenate str \(not "int"\) to str \(line 1 of the template\)',
    "a\n{{ 1 / 0 }}": r"ZeroDivisionError: division by zero \(line 2 of the template\)",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": r"RecursionError: .*",
    "{{ nothing }}": r"'nothing' is undefined \(line 1 of the template\)",
    "{{ 'abc' | nothing }}": r"No filter named 'nothing'\. \(line 1 of the template\)",
    "{% for %}": r".* \(line 1 of the template\)",
    "{{ level.__class__.__mro__ }}": r"access to attribute '__class__' of 'str' object is unsafe.*",
    "{{ tags.append('new') }}": r".*unsafe.*|.*not safely callable.*",
}


@pytest.mark.parametrize("template", FAILURES)
def test_fill_template_names_the_line_of_what_fails(template):
    fields = {"level": "high", "tags": []}
    with pytest.raises(TokurError, match=rf"^{FAILURES[template]}$"):
        fill_template(template, fields)
    assert fields == {"level": "high", "tags": []}


@pytest.mark.parametrize("name", FAMILIES)
def test_render_reads_as_transformers_renders(name):
    tokenizer, _, _ = family(name)
    for content in ("How many?", "  ↵\u2028\U0001f600\n", "<|im_end|>"):
        messages = [{"role": "user", "content": content, "name": None}]
        expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert render(tokenizer, messages, answer_follows=True) == expected


def test_render_gives_templates_what_transformers_gives_them():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ messages[0].content }}{% endgeneration %}{{ x }}"
        "{{ tools is none }}{{ documents is none }}{% if undefined_name %}x{% endif %}{{ ['<é'] | tojson(indent=1) }}"
        "{% for m in messages %}{{ m.thinking }}{{ m.reasoning_content }}{% break %}{% endfor %}{{ eos_token }}\n"
    )
    messages = [{"role": "user", "content": "Hi", "reasoning": "Hm"}]
    expected = tokenizer.apply_chat_template(messages, tokenize=False)
    assert render(tokenizer, messages, answer_follows=False) == expected
    assert expected == 'Hi1TrueTrue[\n "<é"\n]HmHm<|im_end|>'


LLAMA = """{% if not date_string is defined %}{% if strftime_now is defined %}
{% set date_string = strftime_now("%d %b %Y") %}{% else %}{% set date_string = "14 Mar 2025" %}{% endif %}{% endif %}"""


@pytest.mark.parametrize(
    ("template", "text", "date"),
    [
        ("{{ strftime_now('%B %d, %Y %H:%M:%S') }}", "July 26, 2024 00:00:00", "2024-07-26"),
        (LLAMA + "{{ date_string }}", "14 Mar 2025", "2025-03-14"),
        ("{{ messages[0].content }}", "Hi", None),
    ],
)
def test_render_is_the_same_on_every_day(template, text, date):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    assert render(tokenizer, HI, answer_follows=True) == text
    assert ResponseTokenizer(tokenizer).chat_date == date


def test_render_takes_the_default_of_several_templates():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = {"default": "D{{ messages[0].content }}", "tool_use": "T"}
    assert render(tokenizer, HI, answer_follows=True) == "DHi"
    tokenizer.chat_template = {"rag": "R", "tool_use": "T"}
    assert ResponseTokenizer(tokenizer).chat_date is None
    with pytest.raises(TokurError, match=r"multiple chat templates with no default .*\['rag', 'tool_use'\]"):
        render(tokenizer, HI, answer_follows=True)


def test_render_asks_a_tokenizer_that_renders_by_code_of_its_own():
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
