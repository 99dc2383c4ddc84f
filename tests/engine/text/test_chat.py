"""Chats by the templates of many families: what ends a turn, reasoning, tools, dates, and templates that fail."""

import pytest
from tokenizers import pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

from tests.tiny import tiny_tokenizer
from tokur_cli.commands.shared.errors import reporting
from tokur_cli.engine.text.chat import Chat, end_token_ids
from tokur_cli.engine.text.templates import compile_template
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError
from tokur_cli.records.prompt import with_reasoning

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}
{%- for m in messages %}
{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{%- set role = 'model' if m['role'] == 'assistant' else m['role'] %}
{{- '<start_of_turn>' + role + '\n' + m['content'] | trim + '<end_of_turn>\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""
PHI = """{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"""
GLM = """[gMASK]<sop>{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"""
LLAMA_3 = """{{ bos_token }}{% for m in messages %}
{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
QWEN = """{% for m in messages %}{% set words = m['content'].split('</think>')[-1].lstrip('\n') %}
{%- if m['role'] == 'assistant' %}{% set words = '<think>\n\n</think>\n\n' + words %}{% endif %}
{{- '<|im_start|>' + m['role'] + '\n' + words + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
ONE_QUESTION = """{% if messages | length > 1 %}{{ raise_exception('only one turn') }}{% endif %}
{{- '<|user|>' + messages[0]['content'] + '<|assistant|>' }}"""
FAMILIES = {
    # template, the tokenizer's end of sequence, the generation config's end tokens, what ends a turn
    "gemma": (GEMMA, "<eos>", ["<eos>", "<end_of_turn>"], "<end_of_turn>"),
    "phi": (PHI, "<|endoftext|>", ["<|endoftext|>", "<|assistant|>", "<|end|>"], "<|end|>"),
    "glm": (GLM, "<|endoftext|>", ["<|endoftext|>", "<|user|>", "<|observation|>"], "<|user|>"),
    "llama-3": (LLAMA_3, "<|end_of_text|>", ["<|end_of_text|>", "<|eot_id|>"], "<|eot_id|>"),
    "qwen": (QWEN, "<|endoftext|>", ["<|im_end|>", "<|endoftext|>"], "<|im_end|>"),
    "refuses-answers": (ONE_QUESTION, "<|endoftext|>", ["<|endoftext|>", "<|user|>"], "<|endoftext|>"),
}
MARKS = sorted(
    {
        *("<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "</s>", "<|end_of_text|>", "<|eot_id|>", "<|return|>"),
        *("<|start_header_id|>", "<|end_header_id|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|end|>"),
        *("<|start|>", "<|message|>"),
    }
)


def family(name):
    """Return (tokenizer, end ids in the config's order, the id that ends a turn)."""
    template, eos, ends, end = FAMILIES[name]
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS, "eos_token": eos, "bos_token": "<bos>"})
    tokenizer.chat_template = template
    return tokenizer, tokenizer.convert_tokens_to_ids(ends), tokenizer.convert_tokens_to_ids(end)


QUESTION = {"role": "user", "content": "How many?"}
PARTS = """{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}
{%- for part in m['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
BY_TEMPLATE = [name for name, (_, eos, _, end) in FAMILIES.items() if end != eos]


@pytest.mark.parametrize("name", FAMILIES)
def test_tokenize_ends_a_finished_response_with_the_familys_token(name):
    response = "  Seven.\n"
    tokenizer, ends, end = family(name)
    tok = ResponseTokenizer(tokenizer, end_ids=ends)
    prompt = tok.chat.render([QUESTION])
    located = tok.tokenize(prompt, response, finish_reason="stop")
    assert tok.decode(located.tokens.response_ids) == response
    assert located.tokens.response_ids[-1] == end
    assert located.offsets[-1] == (len(response), len(response))
    assert tok.tokenize(prompt, response).tokens.response_ids == located.tokens.response_ids[:-1]
    from_ids = tok.tokenize(tokenizer(prompt)["input_ids"], response, finish_reason="stop")
    assert from_ids.tokens.response_ids[-1] == end, "the same prompt as ids"


@pytest.mark.parametrize("name", BY_TEMPLATE)
def test_ending_of_a_prompt_that_is_no_chat_is_ended_by_the_tokenizers_end_token(name):
    tokenizer, ends, _ = family(name)
    tok = ResponseTokenizer(tokenizer, end_ids=ends)
    for prompt in ("How many?\n", tokenizer("How many?\n")["input_ids"]):
        assert tok.tokenize(prompt, "Seven.", finish_reason="stop").tokens.response_ids[-1] == tokenizer.eos_token_id
    tokenizer.chat_template = None
    tok = ResponseTokenizer(tokenizer, end_ids=ends)
    assert tok.tokenize("How many?", "Seven.", finish_reason="stop").tokens.response_ids[-1] == tokenizer.eos_token_id


def test_end_token_ids_are_the_generation_configs_else_the_models_and_the_tokenizers():
    tokenizer = tiny_tokenizer()
    config = LlamaConfig(eos_token_id=[7, 8])
    assert end_token_ids(GenerationConfig(eos_token_id=[5, 6]), config, tokenizer) == (5, 6, 258)
    assert end_token_ids(GenerationConfig(eos_token_id=258), config, tokenizer) == (258,)
    assert end_token_ids(GenerationConfig(), config, tokenizer) == (7, 8, 258)
    assert end_token_ids(None, config, tokenizer) == (7, 8, 258)
    tokenizer.eos_token = None
    assert end_token_ids(None, config, tokenizer) == (7, 8)
    located = ResponseTokenizer(tokenizer, end_ids=(7, 8)).tokenize("Q", "hi", finish_reason="stop")
    assert located.tokens.response_ids[-1] == 7


QWEN_3 = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}
{%- if m.reasoning_content %}{{ '<think>\n' + m.reasoning_content.strip('\n') + '\n</think>\n\n' }}{% endif %}
{{- m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
GLM_4 = """[gMASK]<sop>{% for m in messages %}{{ '<|' + m.role + '|>' }}
{%- if m.role == 'assistant' %}{{ '\n<think>' + (m.reasoning_content or '') | trim + '</think>' }}{% endif %}
{{- '\n' + m.content }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""
GPT_OSS = """{% for m in messages %}{% if m.role == 'assistant' and 'thinking' in m %}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{% endif %}
{{- '<|start|>' + m.role + ('<|channel|>final' if m.role == 'assistant' else '') + '<|message|>' + m.content }}
{{- '<|return|>' if loop.last and m.role == 'assistant' else '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"""
# drops earlier reasoning, and begins the next one itself
R1 = """{% for m in messages %}{{ '<|' + m.role + '|>' + m.content.split('</think>')[-1] }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|><think>\n' }}{% endif %}"""
TEMPLATES = {
    "qwen-3": (QWEN_3, "<|im_end|>", "reasoning_content"),
    "glm-4": (GLM_4, "<|user|>", "reasoning_content"),
    "gpt-oss": (GPT_OSS, "<|return|>", "thinking"),
}
THOUGHT, TEXT = "6 + 1 is é.\n\nSo it is.", "Seven."


def tokenizer_of(template, end):
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [*MARKS, "<|channel|>"]})
    tokenizer.chat_template = template
    return tokenizer, ResponseTokenizer(tokenizer, end_ids=[tokenizer.convert_tokens_to_ids(end)])


@pytest.mark.parametrize("name", TEMPLATES)
def test_tokenize_prompt_and_response_are_the_beginning_of_the_conversation_as_transformers_renders_it(name):
    template, end, field = TEMPLATES[name]
    tokenizer, tok = tokenizer_of(template, end)
    answer = {"role": "assistant", "content": TEXT, field: THOUGHT}
    rendered = tokenizer.apply_chat_template([QUESTION, answer], tokenize=False)
    for text in (TEXT, ""):  # cut off within the thought
        last = text or THOUGHT
        expected = tokenizer(rendered[: rendered.rindex(last) + len(last)])["input_ids"]
        located = tok.tokenize(tok.chat.render([QUESTION]), with_reasoning(THOUGHT, text))
        assert [*located.tokens.prompt_ids, *located.tokens.response_ids] == expected


@pytest.mark.parametrize("template", [*(template for template, _, _ in TEMPLATES.values()), R1])
def test_tokenize_each_token_stands_where_its_text_is_in_the_response_as_given(template):
    _, tok = tokenizer_of(template, "<|user|>" if template in (R1, GLM_4) else "<|im_end|>")
    response = with_reasoning(THOUGHT, TEXT)
    located = tok.tokenize(tok.chat.render([QUESTION]), response)
    pieces = [tok.decode([index]) for index in located.tokens.response_ids]
    assert (located.offsets[0][0], located.offsets[-1][1]) == (0, len(response))
    assert all(
        end == start for (_, end), (start, _) in zip(located.offsets, located.offsets[1:], strict=False) if end <= start
    )
    text = [response[start:end] for start, end in located.offsets]
    begin = response.index(TEXT)
    assert [piece for piece, (start, _) in zip(pieces, located.offsets, strict=True) if start >= begin] == list(TEXT)
    inside = [(piece, given) for piece, given in zip(pieces, text, strict=True) if piece in "61so" and piece]
    assert all(piece in given for piece, given in inside)
    assert "".join(piece for piece, _ in inside) >= "61so"


@pytest.mark.parametrize(
    ("template", "empty"),
    [
        (R1, "\n</think>\n\n"),
        (R1.replace("<think>\n", "<think>"), "\n\n</think>\n\n"),
        (GLM_4.replace("<|assistant|>' }}{% endif %}", "<|assistant|>\n<think>' }}{% endif %}"), "</think>\n"),
    ],
)
def test_tokenize_puts_a_response_without_a_thought_after_an_empty_one(template, empty):
    _, tok = tokenizer_of(template, "<|user|>")
    prompt = tok.chat.render([QUESTION])
    assert prompt.rstrip().endswith("<think>")
    located = tok.tokenize(prompt, TEXT)
    assert located.without_thought
    assert located.tokens.prompt_ids == tok.tokenize_prompt(prompt + empty)
    assert tok.decode(located.tokens.response_ids) == TEXT
    assert located.offsets[0] == (0, 1)
    as_they_are = [
        tok.tokenize(prompt, TEXT, located.tokens.response_ids),
        tok.tokenize(prompt, TEXT, token_strings=list(TEXT)),
        tok.tokenize(prompt, TEXT, finish_reason="length"),
        tok.tokenize(prompt, f"{THOUGHT}\n</think>\n\n{TEXT}"),
        tok.tokenize("How many?\n<think>\n", TEXT),
    ]
    assert not any(each.without_thought for each in as_they_are)
    assert all(each.tokens.prompt_ids == tok.tokenize_prompt(prompt) for each in as_they_are[:-1])


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
def test_compile_template_names_the_line_of_what_fails(template):
    fields = {"level": "high", "tags": []}
    with pytest.raises(TokurError, match=rf"^{FAILURES[template]}$"):
        compile_template(template)(fields)
    assert fields == {"level": "high", "tags": []}


LLAMA = """{% if not date_string is defined %}{% if strftime_now is defined %}
{% set date_string = strftime_now("%d %b %Y") %}{% else %}{% set date_string = "14 Mar 2025" %}{% endif %}{% endif %}"""


@pytest.mark.parametrize(
    ("template", "text", "date"),
    [
        ("{{ strftime_now('%B %d, %Y %H:%M:%S') }}", "July 26, 2024 00:00:00", "2024-07-26"),
        (LLAMA + "{{ date_string }}", "26 Jul 2024", "2024-07-26"),
        ("{{ messages[0].content }}", "Hi", None),
    ],
)
def test_render_is_the_same_on_every_day(template, text, date):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    assert Chat(tokenizer, ()).render(HI) == text
    found = Chat(tokenizer, ()).date
    assert (found and found.date().isoformat()) == date


def test_render_takes_the_default_of_several_templates():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = {"default": "D{{ messages[0].content }}", "tool_use": "T"}
    assert Chat(tokenizer, ()).render(HI) == "DHi"
    tokenizer.chat_template = {"rag": "R", "tool_use": "T"}
    assert Chat(tokenizer, ()).date is None
    with pytest.raises(TokurError, match=r"multiple chat templates with no default .*\['rag', 'tool_use'\]"):
        Chat(tokenizer, ()).render(HI)


def test_render_gives_parts_to_a_template_that_looks_for_them():
    """As LLaVA's, which has no words for a question that is plain text."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = PARTS
    said = {"role": "user", "content": [{"type": "text", "text": QUESTION["content"]}]}
    rendered = tokenizer.apply_chat_template([said], tokenize=False, add_generation_prompt=True)
    assert Chat(tokenizer, ()).render([QUESTION]) == rendered
    assert QUESTION["content"] in rendered
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}"
    assert Chat(tokenizer, ()).render([QUESTION]) == QUESTION["content"].upper()


def test_render_asks_a_tokenizer_that_renders_by_code_of_its_own():
    class Own(PreTrainedTokenizerFast):
        def apply_chat_template(self, conversation, tokenize=True, add_generation_prompt=False):
            if "refuse" in conversation[0]["content"]:
                raise NotImplementedError("no such turn")
            assert not tokenize
            return f"own:{conversation}:{add_generation_prompt}"

    tokenizer = Own(tokenizer_object=tiny_tokenizer().backend_tokenizer, chat_template="not this")
    text = Chat(tokenizer, ()).render([{"role": "user", "content": "Hi", "name": None}])
    assert text == "own:[{'role': 'user', 'content': 'Hi'}]:True"
    with pytest.raises(TokurError, match=r"^the model's chat template refuses these messages: no such turn$"):
        Chat(tokenizer, ()).render([{"role": "user", "content": "refuse"}])


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
    assert (tok.chat.render(HI, [tool]), tok.chat.render(HI)) == ("addHi", "Hi")
