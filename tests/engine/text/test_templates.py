"""Templates are filled as jinja and transformers fill them, on one date, and one that fails is an error."""

import pytest
from tokenizers import pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.engine.text.chats import PARTS, QUESTION
from tests.tiny import tiny_tokenizer
from tokur_cli.commands.shared.errors import reporting
from tokur_cli.engine.text.chat import render
from tokur_cli.engine.text.templates import fill_template
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError

HI = [{"role": "user", "content": "Hi"}]
FAILURES = {
    "a\n{{ 1 / 0 }}": r"ZeroDivisionError: division by zero \(line 2 of the template\)",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": r"RecursionError: .*",
    "{{ nothing }}": r"UndefinedError: 'nothing' is undefined \(line 1 of the template\)",
    "{% for %}": r"TemplateSyntaxError: .* \(line 1 of the template\)",
    "{{ level.__class__.__mro__ }}": r"SecurityError: access to attribute '__class__' of 'str' object is unsafe.*",
    "{{ tags.append('new') }}": r".*unsafe.*|.*not safely callable.*",
}


@pytest.mark.parametrize("template", FAILURES)
def test_fill_template_names_the_line_of_what_fails(template):
    fields = {"level": "high", "tags": []}
    with pytest.raises(TokurError, match=rf"^{FAILURES[template]}$"):
        fill_template(template, fields)
    assert fields == {"level": "high", "tags": []}


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


def test_render_gives_parts_to_a_template_that_looks_for_them():
    """As LLaVA's, which has no words for a question that is plain text."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = PARTS
    said = {"role": "user", "content": [{"type": "text", "text": QUESTION["content"]}]}
    rendered = tokenizer.apply_chat_template([said], tokenize=False, add_generation_prompt=True)
    assert render(tokenizer, [QUESTION], answer_follows=True) == rendered
    assert QUESTION["content"] in rendered
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}"
    assert render(tokenizer, [QUESTION], answer_follows=True) == QUESTION["content"].upper()


def test_render_asks_a_tokenizer_that_renders_by_code_of_its_own():
    class Own(PreTrainedTokenizerFast):
        def apply_chat_template(self, conversation, tokenize=True, add_generation_prompt=False):
            if "refuse" in conversation[0]["content"]:
                raise NotImplementedError("no such turn")
            assert not tokenize
            return f"own:{conversation}:{add_generation_prompt}"

    tokenizer = Own(tokenizer_object=tiny_tokenizer().backend_tokenizer, chat_template="not this")
    text = render(tokenizer, [{"role": "user", "content": "Hi", "name": None}], answer_follows=True)
    assert text == "own:[{'role': 'user', 'content': 'Hi'}]:True"
    with pytest.raises(TokurError, match=r"^the model's chat template refuses these messages: no such turn$"):
        render(tokenizer, [{"role": "user", "content": "refuse"}], answer_follows=True)


def test_tokenizing_makes_a_panic_in_rust_an_error_of_its_text_and_elsewhere_one_line(capsys):
    """Python does not count it among its exceptions."""
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.FixedLength(length=0)
    why = "chunk size must be non-zero"
    with pytest.raises(TokurError, match=f"tokenizer fails on this text: {why}"):
        ResponseTokenizer(tokenizer).tokenize_prompt("What is 2 + 3?")
    with pytest.raises(SystemExit, match=r"^1$"), reporting("score"):
        tokenizer("text")
    assert f"tokur score: PanicException: {why}" in capsys.readouterr().err


def test_render_gives_tools_to_templates_that_have_a_place_for_them():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{{ messages[0].content }}"
    tool = {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}}
    tok = ResponseTokenizer(tokenizer)
    assert (tok.takes_tools, tok.render_chat(HI, [tool]), tok.render_chat(HI)) == (True, "addHi", "Hi")
    tokenizer.chat_template = "{{ messages[0].content }}"
    assert not tok.takes_tools
