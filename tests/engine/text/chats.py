"""Chat templates in the style of the families that end a turn with a token of their own."""

from tests.tiny import tiny_tokenizer

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
