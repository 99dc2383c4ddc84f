"""Random cases whose records are hostile: lines, bytes, encodings, archives."""

from __future__ import annotations

import random

from tests.storm import hostile
from tests.storm.cases import RECORDS, Case
from tests.storm.corpus import ALWAYS, Base, Corpus, output_options

VARIANTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "score": ((), (), ("--no-tokens",), ("--scores", "eu,ll"), ("--sampling", "joint"), ("--batch-tokens", "300")),
    "generate": ((), (), ("-n", "2", "--temperature", "0.7"), ("--score",), ("--template", "raw")),
    "select": ((), ("--method", "wbon"), ("--keep", "100%", "--method", "bon")),
    "evaluate": ((), ("--group-by", "level"), ("--scaling", "2"), ("--label-field", "correct")),
    "heatmap": ((), ("--score", "eu,au"), ("--compare",), ("--by", "eu", "--limit", "2")),
    "perturb": ((),),
}
TEXT_OF = {
    "evaluate": (("--as", "table"), ("--as", "latex")),
    "heatmap": ((), ("--marks", "values"), ("--color", "always")),
}
"""Options of the commands that write text for people instead of JSON."""
BOMB_BYTES = 2 << 30


class Inputs:
    """Makes cases of hostile records.

    Args:
        corpus: the good inputs.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._bombs: dict[str, bytes] = {}

    def lines(self, rng: random.Random) -> Case:
        """Some lines are changed, doubled, moved or dropped; the others are good."""
        case, base = self._begin(rng, "lines", in_lines=True)
        return self._with_lines(rng, case, base, hostile.mutate_lines(rng, base.data))

    def bytes(self, rng: random.Random) -> Case:
        """Bytes anywhere in the file are changed."""
        case, base = self._begin(rng, "bytes")
        data = hostile.mutate_bytes(rng, base.data)
        if base.in_lines and b"\n" in data:
            return self._with_lines(rng, case, base, data)
        return self._with(rng, case, base, data)

    def encodings(self, rng: random.Random) -> Case:
        """The whole file is written in another way; the records are good, in so far as any are there."""
        case, base = self._begin(rng, "encodings", in_lines=True)
        return self._with(rng, case, base, hostile.disguise(rng, base.data))

    def archives(self, rng: random.Random) -> Case:
        """The file is an archive, whole, damaged, cut short, or of several members."""
        case, base = self._begin(rng, "archives", in_lines=True)
        pack = rng.choice((hostile.gzipped, hostile.zstandardized, lambda data: hostile.zipped(rng, data)))
        data = base.data
        half = data.index(b"\n", len(data) // 2) + 1
        archive = pack(data[:half]) + pack(data[half:]) if rng.random() < 0.2 else pack(data)
        chance = rng.random()
        if chance < 0.4:
            case.exact = not archive.startswith(b"PK")
        elif chance < 0.5:
            archive = pack(archive)
        elif chance < 0.75:
            archive = archive[: rng.randrange(len(archive))]
        else:
            archive = hostile.mutate_bytes(rng, archive)
        return self._with(rng, case, base, archive)

    def bombs(self, rng: random.Random) -> Case:
        """A small archive of two gigabytes of zeros."""
        case, base = self._begin(rng, "bombs", in_lines=True)
        form = rng.choice(("gzip", "zstd", "zip"))
        if form not in self._bombs:
            self._bombs[form] = hostile.bomb(form, BOMB_BYTES)
        case.codes = (1, 3)
        data = self._bombs[form]
        if form != "zip" and rng.random() < 0.5:
            pack = hostile.gzipped if form == "gzip" else hostile.zstandardized
            data = pack(base.data) + data
        return self._with(rng, case, base, data)

    def _begin(self, rng: random.Random, kind: str, in_lines: bool = False) -> tuple[Case, Base]:
        base = rng.choice([base for base in self._corpus.bases if base.in_lines or not in_lines])
        command = rng.choice(base.commands)
        return Case(kind, command, files=dict(base.companions), base=base), base

    def _with_lines(self, rng: random.Random, case: Case, base: Base, lines: bytes) -> Case:
        """Let the case have these lines, now and then as other programs write them."""
        case.lines = lines
        case.needs_place = case.command in ("score", "generate") and bool(lines.strip())
        chance = rng.random()
        data = lines
        if chance < 0.05:
            data = hostile.gzipped(lines)
        elif chance < 0.1:
            data = hostile.zstandardized(lines)
        elif chance < 0.15:
            data = lines.replace(b"\n", b"\r\n")
        return self._with(rng, case, base, data)

    def _with(self, rng: random.Random, case: Case, base: Base, data: bytes) -> Case:
        """Give the case its input, by path or by pipe, its options and its output."""
        case.input = base.file
        case.files[base.file] = data
        case.stdin = rng.choice(("path", "path", "pipe", "file"))
        case.plain = (*base.options, *ALWAYS[case.command], *rng.choice(VARIANTS[case.command]))
        case.options = [*case.plain, *(("--skip-invalid",) if rng.random() < 0.5 else ())]
        if case.command in TEXT_OF and rng.random() < 0.4:
            self._as_text(rng, case)
        elif case.command == "heatmap" and rng.random() < 0.4:
            case.made = (rng.choice(("page.html", "figure.svg")),)
            case.options += [f"--{case.made[0].rpartition('.')[2]}", case.made[0]]
        else:
            case.text = case.command == "heatmap"
        if case.command in ("select", "evaluate", "heatmap") or rng.random() < 0.5:
            case.options += output_options(case.command)
            case.records = None if case.command == "perturb" else RECORDS
        elif case.command == "perturb":
            case.records = None
        return case

    def _as_text(self, rng: random.Random, case: Case) -> None:
        form = rng.choice(TEXT_OF[case.command])
        case.options = [option for option in case.options if option != "--json"] + list(form)
        case.text = True
