"""Attention of one step of generation on a CPU, in C.

PyTorch's operations read keys and values at half of memory's speed and write the scores down several times. On Linux,
``attention.c`` is compiled for this processor and this size of heads by the user's C compiler when it is first needed,
in 0.2 to 0.4 s, and no file stays. Where there is no compiler, PyTorch's operations do the same.
"""

from __future__ import annotations

import ctypes
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

_SCALARS = {torch.bfloat16: ["-DBFLOAT16"], torch.float32: []}
_COMPILERS = ("gcc", "cc")  # Clang calls an OpenMP that PyTorch seldom brings
# Sums may be taken in any order; what is not a number stays so, as it would not with -ffast-math
_OPTIONS = "-O3 -march=native -fPIC -fopenmp -fno-math-errno -fno-trapping-math -fno-signed-zeros -fassociative-math"
_SECONDS = 60  # that a compiler may take
_LINE = 16  # float32 in a line of a processor's cache

_made: dict[tuple[torch.dtype, int, int], AttentionInC | _Obstacle] = {}


class _Obstacle(NamedTuple):
    why: str


class Prompts(NamedTuple):
    """Keys and values of prompts (Q, key heads, P, d), what of them counts, and who continues them."""

    keys: Tensor
    values: Tensor
    lengths: Tensor  # (Q,) int64
    owners: Tensor  # (N,) int64: a response's prompt


class AttentionInC:
    """The compiled function for a dtype and a size of heads.

    Args:
        path: of the shared library, not read later.
        group: query heads to a key head.
    """

    def __init__(self, path: Path, group: int) -> None:
        self.group = group
        # GOMP_parallel and omp_get_thread_num are found among what PyTorch has loaded: another OpenMP would have
        # threads of its own, which would take turns with PyTorch's
        self._function = ctypes.CDLL(str(path)).attend
        self._function.restype = None

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prompts: Prompts,
        pieces: Sequence[tuple[Tensor, Tensor]],
        column: Tensor,
        scale: float,
        shared: Tensor | None = None,
    ) -> Tensor:
        """Write the responses' next column and attend to all that are there.

        Args:
            query: (N, heads, d).
            key: (N, key heads, d) of the next column.
            value: as the keys.
            prompts: theirs.
            pieces: keys and values (≥ N, key heads, width, d) of their columns, contiguous; all in use but in the last
                piece, which is written to.
            column: (1,) int64, the next one's place in the last piece.
            scale: of the scores.
            shared: (N, heads, P) products of queries and prompts' keys, if they are there. What is returned lacks what
                the prompts' values add then, and their weights stand here.

        Returns:
            (N, heads, d).
        """
        (rows, heads, _), longest, width = key.shape, prompts.keys.shape[2], pieces[0][0].shape[2]
        threads = torch.get_num_threads()
        stride = -(-(longest + len(pieces) * width) // _LINE) * _LINE
        scores = torch.empty(threads * self.group * stride, dtype=torch.float32)
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        output = torch.empty_like(query)
        every = ctypes.c_void_p * len(pieces)
        self._function(
            *map(_address, (query, key, value, prompts.keys, prompts.values)),
            ctypes.c_int64(longest),
            *map(_address, (prompts.lengths, prompts.owners)),
            *(every(*(states.data_ptr() for states in part)) for part in zip(*pieces, strict=True)),
            *map(ctypes.c_int64, (len(pieces), width)),
            _address(column),
            ctypes.c_float(scale * math.log2(math.e)),
            None if shared is None else _address(shared),
            _address(output),
            *map(ctypes.c_int64, (rows, heads)),
            _address(scores),
            ctypes.c_int64(stride),
            ctypes.c_int(threads),
        )
        return output


def attention_in_c(query: Tensor, key_heads: int) -> AttentionInC | None:
    """Return the function for queries (N, heads, d); None where PyTorch's operations are to do it."""
    # A tensor of another class may stand for one, without numbers
    if sys.platform != "linux" or type(query) is not Tensor or query.device.type != "cpu":
        return None
    if query.dtype not in _SCALARS:
        return None
    form = query.dtype, query.shape[1] // key_heads, query.shape[2]
    if form not in _made:
        _made[form] = _compile(*form)
    made = _made[form]
    return made if isinstance(made, AttentionInC) else None


def obstacle() -> str | None:
    """Return why a function that was asked for is not there."""
    return next((made.why for made in _made.values() if isinstance(made, _Obstacle)), None)


def _compile(dtype: torch.dtype, group: int, size: int) -> AttentionInC | _Obstacle:
    """Compile, load and try the function."""
    compiler = _compiler()
    if compiler is None:
        return _Obstacle("there is no C compiler")
    source = resources.files(__package__).joinpath("attention.c").read_bytes()
    options = [*_OPTIONS.split(), *_SCALARS[dtype], f"-DGROUP={group}", f"-DSIZE={size}"]
    name = shlex.join(compiler)
    try:
        with tempfile.TemporaryDirectory(prefix="tokur-", ignore_cleanup_errors=True) as folder:
            compiled, library = Path(folder, "attention.o"), Path(folder, "attention.so")
            _run([*compiler, *options, "-x", "c", "-c", "-", "-o", str(compiled)], source)
            _run([*compiler, "-shared", str(compiled), "-o", str(library)])  # without OpenMP, which is there
            made = AttentionInC(library, group)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        return _Obstacle(f"{name} fails ({said[0] if said else error.returncode})")
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Obstacle(f"{name} makes nothing that can be used ({error})")
    return made if _is_right(made, dtype, group, size) else _Obstacle(f"what {name} makes is wrong")


def _compiler() -> list[str] | None:
    """Return the C compiler's command: ``CC``, or the first that is found."""
    wanted = shlex.split(os.environ.get("CC", ""))
    candidates = [wanted] if wanted else [[name] for name in _COMPILERS]
    return next((command for command in candidates if shutil.which(command[0])), None)


def _run(command: list[str], source: bytes = b"") -> None:
    subprocess.run(command, input=source, capture_output=True, check=True, timeout=_SECONDS)


def _is_right(attend: AttentionInC, dtype: torch.dtype, group: int, size: int) -> bool:
    """Try it on two responses of four columns that continue the second of two prompts."""
    numbers = torch.Generator().manual_seed(0)

    def states(columns: int) -> Tensor:
        return torch.randn(2, 1, columns, size, generator=numbers).to(dtype)

    query, keys, values = states(group)[:, 0], states(4), states(4)
    prompts = Prompts(states(3), states(3), torch.tensor([2, 3]), torch.tensor([1, 1]))
    got = attend(query, keys[:, :, 3], values[:, :, 3], prompts, [(keys, values)], torch.tensor([3]), 0.5)
    all_keys, all_values = (
        torch.cat([before[[1, 1]], own], dim=2)[:, 0].double()
        for before, own in ((prompts.keys, keys), (prompts.values, values))
    )
    expected = (query.double() @ all_keys.mT * 0.5).softmax(-1) @ all_values
    return torch.allclose(got.double(), expected, rtol=0, atol=0.02)


def _address(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())
