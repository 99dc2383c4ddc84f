"""Attention of one step of generation over keys and values in pages: three ways to the same numbers.

On a CPU under Linux, ``attention.c`` is compiled for this processor and this size of heads by the user's C compiler
when it is first needed, in 0.2 to 0.4 s, and no file stays. On a GPU it is PyTorch's flash attention. Everywhere else,
operations gather each response's pages, which reads and writes all keys and values once more.
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
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from tokur_cli.engine.varlen import Ends, Pages, attend_to_pages, obstacle_to_pages

_SCALARS = {torch.bfloat16: ["-DBFLOAT16"], torch.float32: []}
_COMPILERS = ("gcc", "cc")  # Clang calls an OpenMP that PyTorch seldom brings
# Sums may be taken in any order; what is not a number stays so, as it would not with -ffast-math
_OPTIONS = "-O3 -march=native -fPIC -fopenmp -fno-math-errno -fno-trapping-math -fno-signed-zeros -fassociative-math"
_SECONDS = 60  # that a compiler may take
_LINE = 16  # float32 in a line of a processor's cache

_made: dict[tuple[torch.dtype, int, int], AttentionInC | _Obstacle] = {}


class _Obstacle(NamedTuple):
    why: str


@dataclass(frozen=True)
class Rows:
    """Which pages responses have at a step, on the device of a layer: what follows from it is computed once a step.

    Args:
        table: (R, most) int32, the pages of each, one after another; page 0, which is empty, where it has fewer.
        used: (R,) int32, columns of each, the next one included.
        width: columns of a page.
    """

    table: Tensor
    used: Tensor
    width: int

    @cached_property
    def next(self) -> tuple[Tensor, Tensor]:
        """Page and column (R,) that the next column is written to."""
        last = self.used.long() - 1
        page = self.table.gather(1, (last // self.width)[:, None])[:, 0]
        return page.long(), last % self.width

    @cached_property
    def beyond(self) -> Tensor:
        """Which columns of the pages are not the response's: (R, most · width)."""
        return torch.arange(self.table.shape[1] * self.width, device=self.used.device) >= self.used[:, None]

    @cached_property
    def for_varlen(self) -> tuple[Ends, Pages]:
        """Where the responses' queries end, of which each has one, and where their keys stand."""
        queries = torch.arange(len(self.used) + 1, dtype=torch.int32, device=self.used.device)
        return Ends(queries, 1), Pages.of(self.table, self.used)

    def by_head(self, key_heads: int) -> Tensor:
        """Return where the pages of each key head stand among all: (R · key heads · most,)."""
        if key_heads not in self._by_head:
            heads = torch.arange(key_heads, device=self.table.device)[:, None]
            self._by_head[key_heads] = (self.table.long()[:, None] * key_heads + heads).flatten()
        return self._by_head[key_heads]

    @cached_property
    def _by_head(self) -> dict[int, Tensor]:
        return {}


class Common(NamedTuple):
    """Products with keys that many responses have in common, computed for all of them at once."""

    products: Tensor  # (G · key heads, M · query heads to each, columns) of M responses in each of G groups
    member: Tensor  # (R,) int32: which of G · M a response is
    columns: Tensor  # (R,) int32: how many of its first columns these are; 0 if it is in no group


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
        pages: tuple[Tensor, Tensor],
        rows: Rows,
        scale: float,
        common: Common | None = None,
    ) -> Tensor:
        """Write the responses' next column and attend to all that are there.

        Args:
            query: (R, heads, d).
            key: (R, key heads, d) of the next column.
            value: the same of the values.
            pages: keys and values (pages, key heads, columns, d) of all responses.
            rows: which of them each has.
            scale: of the scores.
            common: products with keys of first columns, if they are there. What is returned lacks what these columns'
                values add then, and their weights stand in place of the products.

        Returns:
            (R, heads, d).
        """
        (count, heads, _), most = key.shape, rows.table.shape[1]
        threads = torch.get_num_threads()
        stride = -(-most * rows.width // _LINE) * _LINE
        scores = torch.empty(threads * self.group * stride, dtype=torch.float32)
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        output = torch.empty_like(query)
        self._function(
            *map(_address, (query, key, value, *pages)),
            ctypes.c_int64(rows.width),
            _address(rows.table),
            ctypes.c_int64(most),
            _address(rows.used),
            ctypes.c_float(scale * math.log2(math.e)),
            *self._common(common),
            _address(output),
            *map(ctypes.c_int64, (count, heads)),
            _address(scores),
            ctypes.c_int64(stride),
            ctypes.c_int(threads),
        )
        return output

    def _common(self, common: Common | None) -> tuple[object, ...]:
        if common is None:
            return None, ctypes.c_int64(0), ctypes.c_int64(0), None, None
        products, member, columns = common
        sizes = products.shape[1] // self.group, products.shape[2]
        return _address(products), *map(ctypes.c_int64, sizes), _address(member), _address(columns)


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
    return next((made.why for made in _made.values() if isinstance(made, _Obstacle)), obstacle_to_pages())


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
    return made if _is_right(made, dtype, size) else _Obstacle(f"what {name} makes is wrong")


def _compiler() -> list[str] | None:
    """Return the C compiler's command: ``CC``, or the first that is found."""
    wanted = shlex.split(os.environ.get("CC", ""))
    candidates = [wanted] if wanted else [[name] for name in _COMPILERS]
    return next((command for command in candidates if shutil.which(command[0])), None)


def _run(command: list[str], source: bytes = b"") -> None:
    subprocess.run(command, input=source, capture_output=True, check=True, timeout=_SECONDS)


def _is_right(attend: AttentionInC, dtype: torch.dtype, size: int) -> bool:
    """Try it on two responses that begin alike, of one full page and of two, with the next column on another."""
    numbers = torch.Generator().manual_seed(0)

    def states(*shape: int) -> Tensor:
        return torch.randn(*shape, size, generator=numbers).to(dtype)

    new, pages = (states(2, 2 * attend.group), states(2, 2), states(2, 2)), (states(5, 2, 2), states(5, 2, 2))
    table = torch.tensor([[2, 3, 0], [2, 4, 1]], dtype=torch.int32)
    rows = Rows(table, torch.tensor([3, 5], dtype=torch.int32), 2)
    query, key, value = (part.float() for part in new)
    expected = attention_by_operations(query, key, value, (pages[0].float(), pages[1].float()), rows, 0.5)
    return torch.allclose(attend(*new, pages, rows, 0.5).float(), expected, rtol=0, atol=0.02)


def _address(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def attention_by_operations(
    query: Tensor, key: Tensor, value: Tensor, pages: tuple[Tensor, Tensor], rows: Rows, scale: float
) -> Tensor:
    """Do what ``AttentionInC`` does, on any device, by as many operations whatever the responses."""
    _write(key, value, pages, rows)
    (count, heads, size), key_heads = query.shape, key.shape[1]
    by_head = rows.by_head(key_heads)
    keys, values = (
        states.flatten(0, 1).index_select(0, by_head).view(count, key_heads, -1, states.shape[-1]) for states in pages
    )
    # What another response has left in the last page may be no number, which times a weight of 0 is none either
    every, last = torch.arange(count, device=query.device), (rows.used.long() - 1) // rows.width
    by_page = values.view(count, key_heads, -1, rows.width, values.shape[-1])
    left = torch.arange(rows.width, device=query.device) > rows.next[1][:, None]
    by_page[every, :, last] = by_page[every, :, last].masked_fill_(left[:, None, :, None], 0.0)
    # Unscaled, products may exceed float16; a power of two rounds nothing, the rest of the scale comes in float32
    power = 2.0 ** math.floor(math.log2(scale))
    scores = torch.matmul(query.view(count, key_heads, -1, size) * power, keys.transpose(2, 3))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if scale != power:
        scores *= scale / power
    weights = scores.masked_fill_(rows.beyond[:, None, None], float("-inf")).softmax(-1).to(values.dtype)
    return torch.matmul(weights, values).view(count, heads, -1)


def attention_by_varlen(
    query: Tensor, key: Tensor, value: Tensor, pages: tuple[Tensor, Tensor], rows: Rows, scale: float
) -> Tensor:
    """Do what ``AttentionInC`` does by one call of PyTorch's flash attention, where ``has_pages``."""
    _write(key, value, pages, rows)
    keys, values = (states.transpose(1, 2) for states in pages)
    return attend_to_pages(query, keys, values, *rows.for_varlen, scale)


def _write(key: Tensor, value: Tensor, pages: tuple[Tensor, Tensor], rows: Rows) -> None:
    """Write the next columns, (R, key heads, d) each."""
    page, column = rows.next
    for states, new in zip(pages, (key, value), strict=True):
        states[page, :, column] = new
