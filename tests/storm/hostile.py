"""Mutations: of JSON values, of lines, of bytes, of whole files, and archives around them."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

import zstandard

MARKUP = "<script>storm()</script>"

TEXTS = (
    *("", " ", "\n", "\r\n", "a\nb", "\t", "\x00", "\x07\x08", "\x1b[2J", "\x1b]52;c;c3Rvcm0=\x07", "\x9b31m", "\x85"),
    *("\u202eabc", "\u2066x", "\u2028", "\ufeff", "\ufffe", "e\u0301\u0301", "👩‍👩‍👧", "日本語", "١٢", "\U000e0041"),
    *(MARKUP, "]]>", "&amp;", "<svg onload=storm()>", "=1+1", "-2+3", "@SUM(A1)", "\\input{/etc/passwd}", "a_b$c%d"),
    *(
        "../../etc/passwd",
        "%s%n",
        "{{ 7 * 7 }}",
        "{% for %}",
        "__class__",
        "null",
        "NaN",
        "1e5",
        "0x10",
        "[red]",
        "[/]",
    ),
    *("x" * 3000, "9" * 400, "\\boxed{", "\\frac{1}{0}", "####", "9^{9^{9^9}}"),
)
JSON_VALUES = (
    *("null", "true", "false", "0", "-0", "-1", "1", "8", "2.5", "-0.0", "1e400", "-1e400", "1e-400", "1E5", "0.1e1"),
    *("NaN", "Infinity", "-Infinity", str(2**31), str(2**63), str(2**64), "-" + str(2**63), str(10**25), "9" * 5000),
    *('""', "[]", "{}", "[null]", "[[]]", '[1,"a",null]', '{"a":1}', '{"":{}}', "[-1]", "[1e9]", f"[{2**70}]", "[0.5]"),
    *('"\\ud800"', '"\\udc00x"', '"a\\ud83d"', '"\\u0000"', '"\\u001b[31m"', '"\\u202e"', '["\\ud800"]'),
    *(
        "[" * 50 + "]" * 50,
        "[" * 3000 + "]" * 3000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 20_000 + "1" + "}" * 20_000,
    ),
    *('[{"role":"user","content":"x"}]', '[{"role":1}]', '[["a","b"]]', '{"schema":2}', '{"schema":1}', "[3,4,5]"),
    *("[" + ",".join(["7"] * 600) + "]", "[" + ",".join(["null"] * 40) + "]", '"' + "ab " * 2000 + '"'),
)
BYTES = (
    *(
        b"\x00",
        b"\xff",
        b"\xfe\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
        b"\xef\xbb\xbf",
        b"\x1b[2J",
        b"\x7f",
    ),
    *(
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\xe2\x80\xa8",
        b"\x1e",
        b"\x0c",
        b",",
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
    ),
    *(
        b"NaN",
        b"1e999",
        b"\\ud800",
        b"\\u0000",
        b'{"a":1}',
        b"null",
        b"[]",
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
    ),
)
LINES = (
    *(
        b"",
        b" ",
        b"\t",
        b"\r",
        b"{}",
        b"[]",
        b"null",
        b"1",
        b'"a"',
        b"{",
        b"[{",
        b"not json",
        b"\xff\xfe{",
        b'{"id":1}',
    ),
    *(
        b'{"id":1,"id":2}',
        b'{"question":"q"}',
        b'{"response":"r"}',
        b'{"question":"q","response":"r"}',
        b"\xef\xbb\xbf{}",
    ),
    *(b'{"question":"' + b"q" * 5000 + b'","response":"r"}', b'{"tokur":{"schema":2}}', b"\x1e{}", b"[" * 100_000),
    *(b'{"prompt":"p","completion":"c"}', b'{"error":{"message":"\\u001b[31m"},"custom_id":"x","response":null}'),
)

_RAW = "storm-raw-value"


def json_text(rng: random.Random) -> str:
    """Return a JSON value that is seldom expected."""
    return (
        rng.choice(JSON_VALUES)
        if rng.random() < 0.6
        else json.dumps(rng.choice(TEXTS), ensure_ascii=rng.random() < 0.5)
    )


def mutate_json(rng: random.Random, text: str) -> str:
    """Change something within a JSON text: a value, a key, or where something stands."""
    value = json.loads(text)
    places = list(_places(value))
    if not places:
        return json_text(rng)
    parent, key = rng.choice(places)
    raw = json_text(rng)
    chance = rng.random()
    if chance < 0.6:
        parent[key] = _RAW
    elif chance < 0.7:
        del parent[key]
    elif chance < 0.8:
        other, other_key = rng.choice(places)
        parent[key] = json.loads(json.dumps(other[other_key]))
    elif isinstance(parent, dict):
        if chance < 0.9:
            parent[rng.choice(TEXTS) if rng.random() < 0.5 else _RAW + "-key"] = parent.pop(key)
        else:  # the key twice, with another value first
            parent[_RAW + "-twice"] = _RAW
            return (
                json.dumps(value).replace(json.dumps(_RAW + "-twice"), json.dumps(key)).replace(json.dumps(_RAW), raw)
            )
    else:
        parent.insert(key, _RAW)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).replace(json.dumps(_RAW), raw)


def _places(value: Any, depth: int = 0) -> list[tuple[Any, Any]]:
    """Return (container, key) of everything within; of a long list only the first and last elements."""
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys if len(keys) < 40 else [*keys[:2], keys[-1]]:
        found += [(value, key)] * (3 if depth == 0 else 1)
        found += _places(value[key], depth + 1)
    return found


def mutate_line(rng: random.Random, line: bytes) -> bytes:
    """Change a line; what comes out may be several lines, or none."""
    if rng.random() < 0.7:
        try:
            return mutate_json(rng, line.decode()).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            pass
    return rng.choice(LINES) if rng.random() < 0.3 else mutate_bytes(rng, line)


def mutate_lines(rng: random.Random, data: bytes) -> bytes:
    """Change, move, double or drop one line or a few."""
    lines = data.split(b"\n")[:-1]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not lines:
            break
        place = rng.randrange(len(lines))
        chance = rng.random()
        if chance < 0.75:
            lines[place] = mutate_line(rng, lines[place])
        elif chance < 0.85:
            lines.insert(place, rng.choice(LINES))
        elif chance < 0.9:
            lines.insert(rng.randrange(len(lines)), lines[place])
        elif chance < 0.95:
            lines.insert(rng.randrange(len(lines)), lines.pop(place))
        else:
            del lines[place]
    return b"".join(line + b"\n" for line in lines)


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flip bits, cut, splice, double, insert."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place, length = rng.randrange(len(changed) + 1), int(rng.paretovariate(0.5))
        chance = rng.random()
        if chance < 0.3 and changed:
            changed[min(place, len(changed) - 1)] ^= 1 << rng.randrange(8)
        elif chance < 0.45:
            del changed[place : place + length]
        elif chance < 0.55:
            del changed[place:]
        elif chance < 0.7:
            start = rng.randrange(len(changed) + 1)
            changed[place:place] = changed[start : start + min(length, 10_000)]
        else:
            changed[place:place] = rng.choice(BYTES)
    return bytes(changed)


def disguise(rng: random.Random, data: bytes) -> bytes:
    """Return the same lines as other programs write them: line ends, byte-order marks, blank lines, encodings."""
    return rng.choice(_DISGUISES)(data)


_DISGUISES: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: data.replace(b"\n", b"\r\n"),
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data.replace(b"\n", b"\n\n \n"),
    lambda data: data.removesuffix(b"\n"),
    lambda data: b"\n\n" + data,
    lambda data: data.decode("utf-8", "replace").encode("utf-16"),
    lambda data: b"[" + b",".join(data.split(b"\n")[:-1]) + b"]",
    lambda data: b"[\n" + b",\n".join(data.split(b"\n")[:-1]) + b"\n]\n",
    lambda data: b"\x1e" + data.replace(b"\n", b"\n\x1e"),
    lambda data: b"",
    lambda data: b"\n",
    lambda data: data + data,
)


def gzipped(data: bytes) -> bytes:
    """Return a gzip archive, the same for the same data."""
    return gzip.compress(data, mtime=0)


def zstandardized(data: bytes) -> bytes:
    """Return a zstd frame with a checksum."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def zipped(rng: random.Random, data: bytes) -> bytes:
    """Return a zip archive: the data as a file of its own, or as a sample of an Inspect log."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        archive.writestr(rng.choice(("input.jsonl", "samples/1_epoch_1.json", "samples/../../x.json")), data)
    return file.getvalue()


def bomb(form: str, size: int) -> bytes:
    """Return an archive of so many zeros, a multiple of 16 MiB."""
    block = bytes(1 << 24)
    if form == "gzip":
        return gzip.compress(block, mtime=0) * (size >> 24)
    if form == "zstd":
        compressor = zstandard.ZstdCompressor(level=1).compressobj()
        return b"".join(compressor.compress(block) for _ in range(size >> 24)) + compressor.flush()
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("samples/1_epoch_1.json", "w", force_zip64=True) as member,
    ):
        for _ in range(size >> 24):
            member.write(block)
    return file.getvalue()
