"""Attention of one step of generation over keys and values in pages: three ways to the same numbers.

On a CPU under Linux, ``attention.c`` is compiled for this processor and this size of heads by the user's C compiler
when it is first needed, in 0.2 to 0.4 s, and no file stays. On a GPU it is PyTorch's ``varlen_attn``. Everywhere else,
operations gather each response's pages, which reads and writes all keys and values once more.
"""

from __future__ import annotations

import ctypes
import inspect
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tokur_cli.engine.varlen import has_flash, tried

_SCALARS = {torch.bfloat16: ["-DBFLOAT16"], torch.float32: []}
_COMPILERS = ("gcc", "cc")  # Clang calls an OpenMP that PyTorch seldom brings
# Sums may be taken in any order; what is not a number stays so, as it would not with -ffast-math
_OPTIONS = "-O3 -march=native -fPIC -fopenmp -fno-math-errno -fno-trapping-math -fno-signed-zeros -fassociative-math"
_SECONDS = 60  # that a compiler may take
_LINE = 16  # float32 in a line of a processor's cache
FLASH_WIDTH = 256  # columns of a page that PyTorch's flash attention takes

_made: dict[tuple[torch.dtype, int | torch.device, int], Callable[..., Tensor] | _Obstacle] = {}


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
    def ends(self) -> tuple[Tensor, Tensor]:
        """Queries and columns of all responses before each, and of all: (R + 1,) int32 both."""
        queries = torch.arange(len(self.used) + 1, dtype=torch.int32, device=self.used.device)
        return queries, nn.functional.pad(self.used.cumsum(0, dtype=torch.int32), (1, 0))

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
    is_right = _is_right(made, torch.empty(0, dtype=dtype), group, size, 2)
    return made if is_right else _Obstacle(f"what {name} makes is wrong")


def _compiler() -> list[str] | None:
    """Return the C compiler's command: ``CC``, or the first that is found."""
    wanted = shlex.split(os.environ.get("CC", ""))
    candidates = [wanted] if wanted else [[name] for name in _COMPILERS]
    return next((command for command in candidates if shutil.which(command[0])), None)


def _run(command: list[str], source: bytes = b"") -> None:
    subprocess.run(command, input=source, capture_output=True, check=True, timeout=_SECONDS)


def _is_right(attend: Callable[..., Tensor], made_of: Tensor, group: int, size: int, width: int) -> bool:
    """Try it on two responses that begin alike, of one full page and of two, with the next column on another."""
    numbers = torch.Generator().manual_seed(0)

    def states(*shape: int) -> Tensor:
        return torch.randn(*shape, size, generator=numbers).to(made_of)

    new = states(2, 2 * group), states(2, 2), states(2, 2)
    table = torch.tensor([[2, 3, 0], [2, 4, 1]], dtype=torch.int32, device=made_of.device)
    rows = Rows(table, torch.tensor([width + 1, 2 * width + 1], dtype=torch.int32, device=made_of.device), width)
    pages = states(5, width, 2).transpose(1, 2), states(5, width, 2).transpose(1, 2)
    by_head = pages[0].contiguous(), pages[1].contiguous()
    exact = (by_head[0].float(), by_head[1].float())
    query, key, value = (part.float() for part in new)
    expected = attention_by_operations(query, key, value, exact, rows, 0.5)
    got = attend(*new, pages if attend is attention_by_varlen else by_head, rows, 0.5)
    return torch.allclose(got.float(), expected, rtol=0, atol=0.02)


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
    from torch.nn.attention.varlen import varlen_attn

    _write(key, value, pages, rows)
    keys, values = (states.transpose(1, 2) for states in pages)
    queries, columns = rows.ends
    most = rows.table.shape[1] * rows.width
    output = varlen_attn(
        query, keys, values, queries, columns, 1, most, scale=scale, enable_gqa=True, seqused_k=rows.used,
        block_table=rows.table,
    )  # fmt: skip
    assert isinstance(output, Tensor)
    return output


def _write(key: Tensor, value: Tensor, pages: tuple[Tensor, Tensor], rows: Rows) -> None:
    """Write the next columns, (R, key heads, d) each."""
    page, column = rows.next
    for states, new in zip(pages, (key, value), strict=True):
        states[page, :, column] = new


def has_pages(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Return whether ``varlen_attn`` takes pages of heads of this size there, tried once.

    It should from PyTorch 2.12 on, where there is flash attention.
    """
    if not has_flash(device, dtype, size):
        return False
    form = dtype, device, size
    if form not in _made:
        why = _obstacle_to_pages(torch.empty(0, dtype=dtype, device=device), size)
        _made[form] = _Obstacle(why) if why else attention_by_varlen
    return not isinstance(_made[form], _Obstacle)


def _obstacle_to_pages(made_of: Tensor, size: int) -> str | None:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return f"PyTorch {torch.__version__} has no attention to pages"
    if "block_table" not in inspect.signature(varlen_attn).parameters:
        return f"PyTorch {torch.__version__} has no attention to pages"
    if type(made_of) is not Tensor:  # stands for one, without numbers
        return None
    return tried(lambda: _is_right(attention_by_varlen, made_of, 2, size, FLASH_WIDTH), "attention to pages")
