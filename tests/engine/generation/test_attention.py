"""The function in C beside the same sums in float64, and what happens where there is none."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from tests.tiny import tiny_model
from tokur_cli.engine.generation import attention
from tokur_cli.engine.generation.attention import AttentionInC, Common, Rows, attention_in_c, obstacle
from tokur_cli.engine.generation.paged import PagedCache

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a compiler is asked on Linux alone")
needs_compiler = pytest.mark.skipif(attention._compiler() is None, reason="there is no C compiler")
ROUNDED = {torch.float32: 2**-23, torch.bfloat16: 2**-8}  # what is added up in float32 is rounded once
WIDTH = 5


@pytest.fixture
def nothing_made(monkeypatch):
    """As in a process that has asked for nothing yet."""
    monkeypatch.setattr(attention, "_made", {})


def inputs(dtype, heads, group, size, *, used, alike=0, seed=0, spread=1.0):
    """Arguments of a step at which responses have so many columns, the next one included, the first pages in common."""
    numbers = torch.Generator().manual_seed(seed)

    def states(*shape):
        return torch.randn(*shape, size, generator=numbers).to(dtype)

    count, most = len(used), -(-max(used) // WIDTH)
    pages = torch.randperm(count * most + 1, generator=numbers)[1:].view(count, most)
    pages[:, :alike] = pages[0, :alike]
    for row, columns in zip(pages, used, strict=True):
        row[-(-columns // WIDTH) :] = 0
    total = count * most + 1
    rows = Rows(pages.int(), torch.tensor(used, dtype=torch.int32), WIDTH)
    both = states(total, heads, WIDTH), states(total, heads, WIDTH)
    return states(count, heads * group) * spread, states(count, heads), states(count, heads), both, rows, 0.3


def whole(query, key, value, pages, rows, scale):
    """What each response attends to, (heads, columns, d) of keys and of values, in float64."""
    for row, (own, used) in enumerate(zip(rows.table.tolist(), rows.used.tolist(), strict=True)):
        yield [
            torch.cat([torch.cat([*states[own].unbind()], dim=1)[:, : used - 1], new[row][:, None]], dim=1).double()
            for states, new in zip(pages, (key, value), strict=True)
        ]


def expected(query, key, value, pages, rows, scale):
    outputs = []
    for asked, (keys, values) in zip(query, whole(query, key, value, pages, rows, scale), strict=True):
        grouped = asked.double().view(keys.shape[0], -1, keys.shape[-1])
        outputs.append(((grouped @ keys.mT * scale).softmax(-1) @ values).flatten(0, 1))
    return torch.stack(outputs)


def function(query, key):
    made = attention_in_c(query, key.shape[1])
    assert made is not None, obstacle()
    return made


CASES = {
    "one column": {"used": [1]},
    "samples": {"used": [11, 12, 14, 11], "alike": 2},
    "several pages": {"used": [53, 24, 6, 47]},
    "full pages": {"used": [10, 5, 15]},
}


@needs_compiler
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("heads", "group", "size"), [(3, 3, 64), (2, 1, 64), (1, 8, 128), (2, 2, 7), (1, 1, 1), (1, 71, 16)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("spread", [1.0, 20.0])
def test_it_is_attention(dtype, heads, group, size, case, spread):
    step = inputs(dtype, heads, group, size, spread=spread, **CASES[case])
    query, key, value, pages, rows, _ = step
    want = expected(*step)
    before = [states.clone() for states in pages]
    got = function(query, key)(*step)
    assert got.dtype == dtype
    assert got.shape == query.shape
    torch.testing.assert_close(got.double(), want, rtol=ROUNDED[dtype], atol=2e-6 * spread)
    # The next columns are written, and nothing else
    for states, new in zip(before, (key, value), strict=True):
        for row, used in enumerate(rows.used.tolist()):
            states[rows.table[row, (used - 1) // WIDTH], :, (used - 1) % WIDTH] = new[row]
    for states, as_before in zip(pages, before, strict=True):
        torch.testing.assert_close(states, as_before, rtol=0, atol=0)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_with_common_columns_can_be_given_and_their_weights_come_back(dtype):
    """The third response of four has nothing in common with the others; the longest columns are another group's."""
    step = inputs(dtype, 2, 3, 64, used=[24, 18, 9, 31], alike=2)
    bound = {"rtol": 0, "atol": {torch.float32: 2e-6, torch.bfloat16: 0.02}[dtype]}  # the products are rounded, too
    query, key, _, (keys, values), rows, scale = step
    groups, members, longest, columns = 2, 3, 15, torch.tensor([10, 10, 0, 10], dtype=torch.int32)
    member = torch.tensor([0, 2, 0, 4], dtype=torch.int32)
    products = torch.full((groups * 2, members * 3, longest), 0.25, dtype=dtype)
    grouped = query.view(4, 2, 3, 64)
    of_first = [torch.cat([*states[rows.table[0, :2]].unbind()], dim=1) for states in (keys, values)]
    places = products.view(groups, 2, members, 3, longest)
    for row in (0, 1, 3):
        places[member[row] // members, :, member[row] % members, :, :10] = grouped[row] @ of_first[0].mT
    untouched = places[0, :, 1].clone()
    want, attended = expected(*step), [keys for keys, _ in whole(*step)]
    got = function(query, key)(*step, Common(products, member, columns)).double()
    for row in (0, 1, 3):
        weights = (grouped[row].double() @ attended[row].mT * scale).softmax(-1)[..., :10]
        back = places[member[row] // members, :, member[row] % members].double()
        torch.testing.assert_close(back[..., :10], weights, **bound)
        assert (back[..., 10:] == 0).all()
        got[row] += (back[..., :10] @ of_first[1].double()).flatten(0, 1)
    torch.testing.assert_close(got, want, **bound)
    assert torch.equal(places[0, :, 1], untouched)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_response_is_the_same_to_the_last_bit_whatever_stands_beside_it(dtype):
    step = inputs(dtype, 3, 3, 64, used=[49, 31, 40, 22, 35, 60, 21], alike=4)
    query, key, value, pages, rows, scale = step
    attend = function(query, key)
    together = attend(*step)
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            torch.testing.assert_close(attend(*step), together, rtol=0, atol=0)
    finally:
        torch.set_num_threads(threads)
    for row in range(len(query)):
        one = slice(row, row + 1)
        alone = Rows(rows.table[one].contiguous(), rows.used[one], WIDTH)
        got = attend(query[one], key[one], value[one], pages, alone, scale)
        torch.testing.assert_close(got[0], together[row], rtol=0, atol=0)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("where", ["query", "page", "new"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_stays_so_and_reaches_no_other_response(dtype, where, number):
    step = inputs(dtype, 1, 2, 64, used=[17, 28, 28])
    query, key, _, (keys, _), rows, _ = step
    attend = function(query, key)
    usual = attend(*step)
    {"query": query[0], "page": keys[rows.table[0, 1], 0], "new": key[0]}[where][0, 3] = number
    want = expected(*step)
    got = attend(*step)
    torch.testing.assert_close(got[0].double(), want[0], rtol=ROUNDED[dtype], atol=1e-6, equal_nan=True)
    assert want[0].isnan().any()
    torch.testing.assert_close(got[1:], usual[1:], rtol=0, atol=0)


@needs_compiler
def test_scores_far_apart_lose_nothing():
    """Beyond float32's exponents, where all weight is one column's; and none below another."""
    query, keys = torch.full((1, 1, 4), 1e3), torch.full((3, 1, WIDTH, 4), -1.0)
    keys[2, 0, 2] = 1.0
    values = torch.arange(3 * WIDTH * 4.0).view(3, 1, WIDTH, 4)
    rows = Rows(torch.tensor([[1, 2]], dtype=torch.int32), torch.tensor([2 * WIDTH], dtype=torch.int32), WIDTH)
    new = torch.zeros(1, 1, 4)
    got = function(query, new)(query, new, new, (keys, values), rows, 1.0)
    torch.testing.assert_close(got[0, 0], values[2, 0, 2], rtol=0, atol=0)


@needs_compiler
def test_a_bfloat16_between_two_is_rounded_as_pytorch_does():
    """Equal weights of two neighbours: half-way, to the even one."""
    pairs = torch.tensor([[1, 1 + 2**-7], [1 + 2**-7, 1 + 2**-6], [-1, -1 - 2**-7], [-1 - 2**-7, -1 - 2**-6]])
    values = pairs.T.to(torch.bfloat16).contiguous()  # (columns, d)
    zeros = torch.zeros(1, 1, 4, dtype=torch.bfloat16)
    pages = torch.zeros(1, 1, WIDTH, 4, dtype=torch.bfloat16), torch.zeros(1, 1, WIDTH, 4, dtype=torch.bfloat16)
    pages[1][0, 0, 0] = values[0]
    rows = Rows(torch.tensor([[0]], dtype=torch.int32), torch.tensor([2], dtype=torch.int32), WIDTH)
    got = function(zeros, zeros)(zeros, zeros, values[None, 1:], pages, rows, 1.0)
    assert torch.equal(got[0, 0], pairs.mean(dim=1).to(torch.bfloat16))


@needs_compiler
def test_it_runs_on_pytorchs_threads_and_leaves_no_file(tmp_path):
    """A second OpenMP would have threads of its own."""
    script = """
import os, re, sys, tempfile, torch
from tokur_cli.engine.generation.attention import attention_in_c
def loaded():
    return {line.split()[-1] for line in open("/proc/self/maps") if re.search("gomp|iomp|libomp", line)}
torch.ones(300, 300) @ torch.ones(300, 300)
before = loaded()
assert attention_in_c(torch.ones(2, 6, 8), 2) is not None
assert loaded() == before and before, loaded()
assert os.listdir(tempfile.gettempdir()) == []
"""
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True)


def program(folder, text):
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("nothing_made")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no C compiler"),
        ("echo 'no room for this' >&2; exit 3", "compiler fails (no room for this)"),
        ("exit 3", "compiler fails (3)"),
        ("exit 0", "compiler makes nothing that can be used ("),
        ("exec sleep 20", "compiler makes nothing that can be used ("),
        pytest.param('exec cc "$@" -DBFLOAT16', "is wrong", marks=needs_compiler),  # where float32 is wanted
        pytest.param('exec cc "$@" -march=none-such', "compiler fails (", marks=needs_compiler),
    ],
)
def test_without_a_working_compiler_the_operations_generate_and_it_is_said_why(monkeypatch, tmp_path, text, why):
    monkeypatch.setenv("CC", "no-such-compiler" if text is None else program(tmp_path, text))
    monkeypatch.setattr(attention, "_SECONDS", 1)
    assert obstacle() is None
    logits = first_steps(tiny_model("llama"))
    assert why in obstacle()
    assert not any(isinstance(made, AttentionInC) for made in attention._made.values())
    monkeypatch.delenv("CC")
    assert torch.equal(logits, first_steps(tiny_model("llama")))  # a compiler is asked once
    monkeypatch.setattr(attention, "_made", {})
    torch.testing.assert_close(logits, first_steps(tiny_model("llama")), rtol=0, atol=1e-4)


@needs_compiler
@pytest.mark.usefixtures("nothing_made")
def test_where_no_file_can_be_written_the_operations_generate(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none such"))
    assert attention_in_c(torch.ones(1, 4, 8), 2) is None
    assert "none such" in obstacle()


def first_steps(model):
    cache = PagedCache(model, None)
    with torch.inference_mode():
        cache.join([[7] * 9, [9] * 5], [2, 1])
        return torch.stack([cache.step(torch.tensor([token, 8, 30])) for token in range(20, 26)])


@needs_compiler
@pytest.mark.usefixtures("nothing_made")
def test_the_compiler_is_the_one_that_is_asked_for(monkeypatch, tmp_path):
    noted = tmp_path / "noted"
    monkeypatch.setenv("CC", program(tmp_path, f'echo "$@" >> {noted}; exec cc "$@"') + " -O1 '-DMEANS=two words'")
    assert attention_in_c(torch.ones(1, 4, 8), 2) is not None
    assert noted.read_text().count("-O1 -DMEANS=two words") == 2


@needs_compiler
@pytest.mark.usefixtures("nothing_made")
def test_each_size_is_compiled_once(monkeypatch):
    made = [attention_in_c(torch.ones(rows, 4, 8), key_heads) for rows in (1, 3) for key_heads in (2, 4)]
    assert all(isinstance(one, AttentionInC) for one in made)
    assert made[0] is made[2] is not made[1] is made[3]


@pytest.mark.usefixtures("nothing_made")
def test_what_it_cannot_do_is_left_to_the_operations(monkeypatch):
    assert attention_in_c(torch.ones(1, 4, 8, dtype=torch.float16), 2) is None
    assert attention_in_c(torch.ones(1, 4, 8, dtype=torch.float64), 2) is None
    assert attention_in_c(torch.ones(1, 4, 8, device="meta"), 2) is None
    assert attention_in_c(torch.nn.Parameter(torch.ones(1, 4, 8)), 2) is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert attention_in_c(torch.ones(1, 4, 8), 2) is None
    assert obstacle() is None
