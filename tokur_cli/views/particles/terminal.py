"""The tree of a question's particles on a terminal: a row a slot, a column a round."""

from __future__ import annotations

from rich.style import Style

from tokur_cli.views.heatmap.blocks import Block, StyledLine, below, flow
from tokur_cli.views.heatmap.look import BARS, Look, step_styles
from tokur_cli.views.heatmap.terminal import swatches
from tokur_cli.views.particles.tree import ParticleTree
from tokur_cli.views.visible import picture, shorten

_DIM, _BOLD = Style(dim=True), Style(bold=True)
_LEGEND = "4› filled from slot 4 before the round   ×2 two slots go on from it   dim: in no response at the end"


def tree_view(tree: ParticleTree, look: Look) -> Block:
    """Return the tree, cut into bands of rounds that fit the width."""
    scale = tree.scale
    texts = [[scale.format(score) for score in scores] for scores in tree.scores]
    slot_width = len(str(len(tree.endings) - 1))
    score_width = max(len(text) for row in texts for text in row)
    cell_width = slot_width + 1 + score_width + 1 + 1 + slot_width + 2  # 4›0.0081 ×2 and a gap
    each = max(1, (look.columns - slot_width - 3) // cell_width)
    blocks = [flow([tree.heading], look.columns, _BOLD), swatches(scale, look, look.columns)]
    blocks.append(flow(_LEGEND.split("   "), look.columns, _DIM, between="   "))
    for first in range(0, len(tree.scores), each):
        rounds = range(first, min(first + each, len(tree.scores)))
        blocks.append(_band(tree, texts, rounds, (slot_width, score_width, cell_width), look))
    endings = [
        shorten(f"{slot:>{slot_width}}   {ending.note} · {picture(' '.join(ending.text.split()))}", look.columns)
        for slot, ending in enumerate(tree.endings)
    ]
    return below([*blocks, Block([StyledLine().add(text) for text in endings])], gap=1)


def _band(tree: ParticleTree, texts: list[list[str]], rounds: range, widths: tuple[int, int, int], look: Look) -> Block:
    slot_width, score_width, cell_width = widths
    styles = step_styles(look.colours, look.theme)
    scale = tree.scale
    head = StyledLine().add(" " * (slot_width + 3))
    foot = StyledLine().add(f"{'ESS':<{slot_width + 3}}", _DIM)
    for round_ in rounds:
        head.add(f"{' ' * (slot_width + 1)}round {round_}".ljust(cell_width)[:cell_width], _DIM)
        size = f"{tree.ess[round_]:.2f}" if round_ < len(tree.ess) else ""
        foot.add(f"{' ' * (slot_width + 1)}{size}".ljust(cell_width), _DIM)
    lines = [head]
    for slot in range(len(tree.endings)):
        line = StyledLine().add(f"{slot:>{slot_width}}   ", _DIM)
        for round_ in rounds:
            source = tree.ancestors[round_ - 1][slot] if round_ else slot
            step = scale.step(tree.scores[round_][slot])
            bar = BARS[step] if look.drawn_marks == "bars" else " "
            style = styles[step] if slot in tree.lasting[round_] else _DIM
            copies = tree.copies(round_, slot) if round_ < len(tree.ancestors) else 1
            line.add(f"{source}›".rjust(slot_width + 1) if source != slot else " " * (slot_width + 1), _DIM)
            line.add(f"{texts[round_][slot]:>{score_width}}{bar}", style)
            line.add((f"×{copies}" if copies != 1 else "").ljust(slot_width + 3), _DIM)
        lines.append(line)
    return Block([*lines, foot])
