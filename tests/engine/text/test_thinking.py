"""Responses with reasoning are tokenized as the model's own template writes them; tools go into the template."""

import pytest

from tests.engine.text.chats import MARKS, QUESTION
from tests.tiny import tiny_tokenizer
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.prompt import with_reasoning

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
    expected = tokenizer(rendered[: rendered.rindex(TEXT) + len(TEXT)])["input_ids"]
    located = tok.tokenize(tok.render_chat([QUESTION]), with_reasoning(THOUGHT, TEXT))
    assert [*located.tokens.prompt_ids, *located.tokens.response_ids] == expected


@pytest.mark.parametrize("template", [*(template for template, _, _ in TEMPLATES.values()), R1])
def test_tokenize_each_token_stands_where_its_text_is_in_the_response_as_given(template):
    _, tok = tokenizer_of(template, "<|user|>" if template in (R1, GLM_4) else "<|im_end|>")
    response = with_reasoning(THOUGHT, TEXT)
    located = tok.tokenize(tok.render_chat([QUESTION]), response)
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
    prompt = tok.render_chat([QUESTION])
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
