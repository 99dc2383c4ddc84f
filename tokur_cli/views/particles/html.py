"""The tree of a question's particles as a page: a drawing of who was copied, and the responses at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from tokur_cli.views.heatmap.html import content_policy, escape, palette_css
from tokur_cli.views.particles.tree import ParticleTree
from tokur_cli.views.visible import paragraphs, picture

_LEFT, _TOP, _ACROSS, _DOWN, _WIDTH, _HEIGHT = 46, 34, 128, 26, 74, 20  # of the drawing, in pixels
_STYLE = """
:root { --page: #f6f6f4; --ink: #1c1d20; --soft: #5d6067; --line: #9a9a96; color-scheme: light; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0b0d11; --ink: #e6e7ea; --soft: #9ba1ad; --line: #5a6170; color-scheme: dark; }
}
body { margin: 24px; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 18px; }
p, summary { color: var(--soft); }
pre { white-space: pre-wrap; max-width: 100ch; font: inherit; }
.drawing { overflow-x: auto; }
svg { font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg text { fill: var(--ink); }
svg .soft { fill: var(--soft); }
svg path { fill: none; stroke: var(--ink); stroke-width: 1.6; }
svg .dropped { opacity: .35; }
svg path.dropped { stroke: var(--line); stroke-width: 1; }
"""


def write_tree(file: IO[str], tree: ParticleTree) -> None:
    """Write the page.

    Args:
        file: a text file in UTF-8.
        tree: what to draw.
    """
    steps = "".join(
        f"svg .node{step}{{fill:var(--step{step})}}svg .ink{step}{{fill:var(--ink{step})}}" for step in range(8)
    )
    style = palette_css() + _STYLE + steps
    title = escape(picture(tree.heading))
    file.write(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{content_policy(style)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body data-palette=cividis>\n<h1>{title}</h1>\n"
        f"<p>{escape(tree.guide.label)}. A line leads from a particle to each slot that went on from it; what is faded "
        "is in no response at the end.</p>\n"
    )
    file.write('<div class="drawing">' + "".join(_drawing(tree)) + "</div>\n")
    for slot, ending in enumerate(tree.endings):
        text = escape(paragraphs(ending.text))
        file.write(f"<details><summary>{slot}: {escape(picture(ending.note))}</summary><pre>{text}</pre></details>\n")
    file.write("</body>\n</html>\n")


def _drawing(tree: ParticleTree) -> Iterator[str]:
    rounds, count = len(tree.scores), len(tree.endings)
    bottom = _TOP + count * _DOWN + 18
    yield f'<svg width="{_LEFT + rounds * _ACROSS + 260}" height="{bottom + 6}" role="img">'
    for round_ in range(rounds):
        yield f'<text class="soft" x="{_LEFT + round_ * _ACROSS}" y="16">round {round_}</text>'
    for round_, size in enumerate(tree.ess):
        yield f'<text class="soft" x="{_LEFT + round_ * _ACROSS}" y="{bottom}">ESS {size:.2f}</text>'
    for round_, ancestors in enumerate(tree.ancestors):
        edges = [(slot in tree.lasting[round_ + 1], slot, source) for slot, source in enumerate(ancestors)]
        for lasts, slot, source in sorted(edges):  # those that last lie on top
            x, y = _corner(round_, source)
            to_x, to_y = _corner(round_ + 1, slot)
            x, y, to_y = x + _WIDTH, y + _HEIGHT // 2, to_y + _HEIGHT // 2
            middle = (x + to_x) // 2
            faded = "" if lasts else ' class="dropped"'
            yield f'<path{faded} d="M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}"/>'
    yield from _nodes(tree)
    for slot, ending in enumerate(tree.endings):
        x, y = _corner(rounds, slot)
        yield f'<text x="0" y="{y + 15}" class="soft">{slot}</text>'
        yield f'<text x="{x - _ACROSS + _WIDTH + 12}" y="{y + 15}">{escape(picture(ending.note))}</text>'
    yield "</svg>"


def _nodes(tree: ParticleTree) -> Iterator[str]:
    scale = tree.scale
    for round_, scores in enumerate(tree.scores):
        for slot, score in enumerate(scores):
            x, y = _corner(round_, slot)
            step = scale.step(score)
            faded = "" if slot in tree.lasting[round_] else ' class="dropped"'
            yield (
                f'<g{faded}><rect class="node{step}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
                f'<text class="ink{step}" x="{x + 6}" y="{y + 14}">{scale.format(score)}</text></g>'
            )


def _corner(round_: int, slot: int) -> tuple[int, int]:
    return _LEFT + round_ * _ACROSS, _TOP + slot * _DOWN
