"""Kernels in Triton by its interpreter, and compiled for GPUs that are not here."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from tests.engine.oracle import reference_quantities
from tokur_cli.engine.uncertainty import vocabulary
from tokur_cli.engine.uncertainty.distributions import Distributions
from tokur_cli.engine.uncertainty.vocabulary import token_quantities

pytest.importorskip("triton", reason="Triton is not installed")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("Triton computes without a GPU where TRITON_INTERPRET is 1", allow_module_level=True)
from triton.runtime.interpreter import InterpreterBuilder

fused = pytest.importorskip("tokur_cli.engine.uncertainty.fused")

CPU = torch.device("cpu")


@pytest.fixture
def _by_kernels(monkeypatch):
    monkeypatch.setattr(vocabulary, "fused_for", lambda logits: fused.FusedDistributions)


def logits_of(members, tokens, size, dtype=torch.float32, spread=5.0):
    numbers = torch.Generator().manual_seed(size)
    base = spread * torch.randn(1, tokens, size, generator=numbers)
    draws = base + 0.5 * torch.randn(members - 1, tokens, size, generator=numbers)
    return torch.cat([base, draws]).to(dtype)


def reduce(logits, targets, starts, **options):
    got = token_quantities(lambda states: states, logits, torch.tensor(targets), torch.tensor(starts), **options)
    return {name: values.double().numpy() for name, values in got.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("size", "draws"), [(21, 1), (252, 0), (1283, 3), (2500, 5)])
@pytest.mark.parametrize(("joint", "estimator"), [(False, "paper"), (True, "kl"), (True, "paper"), (False, "fisher")])
@pytest.mark.usefixtures("_by_kernels")
def test_triton_gives_the_float64_numbers(size, draws, joint, estimator, dtype):
    sizes, starts = (3, 4), [0, 0, 0, 3, 3, 3, 3]
    logits = logits_of(1 + draws, 7, size, dtype)
    targets = torch.randint(size, (7,), generator=torch.Generator().manual_seed(1)).tolist()
    kept = logits.clone()
    got = reduce(logits, targets, starts, joint=joint and draws > 0, estimator=estimator)
    assert torch.equal(logits, kept), "nothing is written over"
    log_p = logits.double().log_softmax(-1)
    for first, count in zip((0, 3), sizes, strict=True):
        part = slice(first, first + count)
        expected = reference_quantities(log_p[0, part], [*log_p[1:, part]], targets[part], joint, estimator)
        assert set(expected) == set(got)
        for name, values in expected.items():
            assert got[name][part] == pytest.approx(values, abs=5e-6, rel=2e-6), name


@pytest.mark.parametrize(("draws", "size"), [(2, 2500), (5, 5000)])
@pytest.mark.usefixtures("_by_kernels")
def test_triton_reads_each_logit_twice(draws, size, monkeypatch):
    """With the head's own write, 6 bytes a logit in bfloat16: what the interpreter loads and stores is counted."""
    moved = []
    for name, values in (
        ("create_masked_load", lambda pointers, mask, *_: mask),
        ("create_masked_store", lambda *a: a[2]),
    ):
        own = getattr(InterpreterBuilder, name)

        def counted(builder, pointers, *rest, own=own, values=values):
            moved.append(int(values(pointers, *rest).data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8)
            return own(builder, pointers, *rest)

        monkeypatch.setattr(InterpreterBuilder, name, counted)
    logits = logits_of(1 + draws, 3, size, torch.bfloat16)
    reduce(logits, [1, 2, 3], [0, 0, 0])
    written_by_head = 2
    assert 6 <= sum(moved) / logits.numel() + written_by_head < 6.1


@pytest.mark.usefixtures("_by_kernels")
def test_triton_gives_all_estimators_and_alternatives_that_pytorch_gives(monkeypatch):
    logits = logits_of(4, 6, 6001, torch.bfloat16)
    options = {"on_demand": ("eu_kl", "eu_fisher"), "alternatives": 5}
    got = reduce(logits.clone(), [1, 2, 3, 4, 5, 6], [0] * 6, **options)
    monkeypatch.setattr(vocabulary, "fused_for", lambda logits: None)
    expected = reduce(logits.clone(), [1, 2, 3, 4, 5, 6], [0] * 6, **options)
    assert list(got) == list(expected)
    for name, values in expected.items():
        assert got[name] == pytest.approx(values, abs=1e-5), name


@pytest.mark.usefixtures("_by_kernels")
def test_triton_counts_nothing_for_entries_that_are_impossible_and_shows_a_broken_model():
    logits = logits_of(3, 3, 300)
    padded = torch.cat([logits, torch.full((3, 3, 200), -torch.inf)], dim=-1)
    padded[:, 2, 7] = torch.nan
    got, expected = (reduce(values, [1, 2, 3], [0] * 3) for values in (padded, logits))
    for name in ("logprob", "entropy", "tu", "au", "eu", "deepconf"):
        assert got[name][:2] == pytest.approx(expected[name][:2], abs=2e-6), name
        assert np.isnan(got[name][2]), name
    assert np.isposinf(got["self_certainty"][:2]).all(), "the mean of log p over the vocabulary is −∞"
    nothing = torch.full((3, 1, 300), -torch.inf)
    assert all(np.isnan(values).all() for values in reduce(nothing, [1], [0]).values())


@pytest.mark.usefixtures("_by_kernels")
def test_triton_finds_that_equal_draws_disagree_by_no_more_than_rounding():
    for spread in (0.5, 2.0, 6.0):
        logits = logits_of(1, 8, 49_152, spread=spread).repeat(3, 1, 1)
        assert reduce(logits, [0] * 8, [0] * 8)["eu"].max() < 1e-6


def test_what_triton_gives_is_tried_before_it_counts(monkeypatch):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert vocabulary._tried(CPU, dtype) is fused.FusedDistributions
    monkeypatch.setattr(fused.FusedDistributions, "mean", lambda self: self._mean + 0.01)
    assert "wrong" in vocabulary._tried(CPU, torch.float32)

    def broken(self, logits):
        raise ValueError("no compiler\nand more")

    monkeypatch.setattr(fused.FusedDistributions, "__init__", broken)
    assert vocabulary._tried(CPU, torch.float32) == "Triton's kernels cannot be compiled (ValueError: no compiler)"


def test_triton_is_asked_for_tensors_on_a_gpu_alone():
    assert vocabulary.fused_for(torch.zeros(2, 3, 4)) is None
    assert isinstance(Distributions(torch.zeros(2, 3, 4)), Distributions)


COMPILED = """
    import re, subprocess, sys, tempfile
    from pathlib import Path
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from tokur_cli.engine.uncertainty import fused

    numbers = {name: "*fp32" for name in "largest_of total_of mean_of maxima_of weight_of entropy_of spread_of".split()}
    numbers |= {"divergence_of": "*fp32", "variance_of": "*fp32", "of_member": "i64", "of_token": "i32"}
    numbers |= {"size": "i32", "tokens": "i32", "groups": "i32", "draws": "i32"}
    forms = [(fused._normalise, {"BLOCK": 2048, "GROUP": 64})]
    for draws in (2, 8):
        forms += [(fused._reduce, {"DRAWS": draws, "BLOCK": 2048 // draws, "BESIDE_BASE": True})]
    assemblers = sorted(Path(triton.__file__).parent.glob("backends/nvidia/bin/ptxas*"))
    for capability in (80, 90):
        for function, constants in forms:
            signature = {n: "constexpr" if n in constants else numbers.get(n, "*bf16") for n in function.arg_names}
            source = ASTSource(fn=function, signature=signature, constexprs=constants)
            options = {"num_warps": fused._WARPS, "enable_fp_fusion": True}
            code = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"]
            with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
                file.write(code)
                file.flush()
                name = re.search(r"\\.target (\\w+)", code).group(1)
                command = ["-v", "--gpu-name", name, file.name, "-o", "/dev/null"]
                ran = [subprocess.run([each, *command], capture_output=True, text=True) for each in assemblers]
            print(next(run.stderr for run in ran if run.returncode == 0))  # an older one may not know the code
"""


@pytest.mark.slow
def test_triton_compiles_for_gpus_without_spilling_registers(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-c", textwrap.dedent(COMPILED)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", run.stdout) == [("0", "0")] * 6
    registers = [int(count) for count in re.findall(r"Used (\d+) registers", run.stdout)]
    assert max(registers) <= 128, "two programs of 256 threads at once"
