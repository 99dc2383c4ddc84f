"""``tokur heatmap``: scored responses in, a picture out of where the model was unsure."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Literal

from tokur_cli.commands.arguments import InputOptions
from tokur_cli.commands.gallery import ChoiceOptions, Gallery
from tokur_cli.commands.heatmap_records import heatmap_response
from tokur_cli.commands.pictures import PictureFile, columns_of, standard_picture
from tokur_cli.commands.reporting import Invalid, say
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.formats import NATIVE
from tokur_cli.records.reader import read_records
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.quantities import TOKEN_QUANTITIES, TokenQuantity, choose_quantities
from tokur_cli.views.blocks import Block
from tokur_cli.views.html import write_html
from tokur_cli.views.look import Look, Marks, detect_colours, detect_theme, heatmap_console
from tokur_cli.views.response import HeatmapResponse, Quantity
from tokur_cli.views.scale import Scale, ScaleBuilder
from tokur_cli.views.svg import svg_figure
from tokur_cli.views.terminal import compare_view, legend, response_view

COMMAND = "heatmap"
FIGURE_RESPONSES = 12
"""More than these make a figure that nobody can print."""
FIGURE_COLUMNS = 72


@dataclass(frozen=True)
class ScaleOptions:
    """What is painted, and the ends of its scale.

    Args:
        quantities: comma-separated names of token quantities.
        vmin: the lowest value on the scale; None for the lowest there is.
        vmax: the highest value on the scale; None for one that few tokens are beyond.
    """

    quantities: str = "eu"
    vmin: float | None = None
    vmax: float | None = None


@dataclass(frozen=True)
class PictureOptions:
    """The picture: a page, a figure or, with neither, text; and how text looks.

    Args:
        html: the file of a page.
        svg: the file of a figure.
        colour: whether text is coloured; ``auto`` where a terminal shows it.
        theme: the background that text and figure are for; ``auto`` is what the terminal says, and light in a figure.
        marks: what stands beside colour, see `Look`.
        width: columns of text, or of one text in a figure; None for the terminal's.
        top: how many of the least sure tokens are listed.
        steps: how many reasoning steps are listed.
        pager: whether long text on a terminal goes through a pager.
    """

    html: str | None = None
    svg: str | None = None
    colour: Literal["auto", "always", "never"] = "auto"
    theme: Literal["auto", "dark", "light"] = "auto"
    marks: Marks = "auto"
    width: int | None = None
    top: int = 5
    steps: int = 12
    pager: bool = True


def heatmap(
    source: InputOptions,
    scaling: ScaleOptions,
    choice: ChoiceOptions,
    picture: PictureOptions,
    passthrough: str | None,
) -> None:
    """Paint scored responses.

    All records are read before anything is painted, since one scale holds for all of them.

    Args:
        source: the records.
        scaling: what they are painted by.
        choice: which of them are painted.
        picture: what is painted.
        passthrough: where the records go on to, unchanged; None for nowhere.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    asked = choose_quantities(scaling.quantities)
    _check(source, scaling, picture, passthrough)
    # A page can be switched to what else the records have
    others = [quantity for quantity in TOKEN_QUANTITIES.values() if quantity not in asked] if picture.html else []
    invalid = Invalid(COMMAND, source.skip_invalid)
    with ExitStack() as stack:
        page, figure = (
            stack.enter_context(PictureFile(path)) if path else None for path in (picture.html, picture.svg)
        )
        gallery = stack.enter_context(Gallery(choice))
        scales = _Scales(asked, others)
        writer = open_output(passthrough, inputs=[source.path]) if passthrough else None
        with writer or nullcontext():
            _read(source, scales, gallery, invalid, writer)
        if not scales.responses:
            say(COMMAND, f"{display_name(source.path)}: holds no responses: there is nothing to paint")
        else:
            gallery.check()
            chosen = [scales.scale(quantity, scaling.vmin, scaling.vmax) for quantity in asked]
            if page:
                every = chosen + [scale for quantity in others if (scale := scales.scale_if_common(quantity))]
                with page.writing() as file:
                    write_html(file, gallery.responses(), every, title=_title(source.path), compare=choice.compare)
            if figure:
                _write_figure(figure, gallery, chosen, picture, choice.compare)
            if not (page or figure):
                _print(gallery, chosen, picture, choice.compare, records_on_standard_output=passthrough == STDIN)
    invalid.finish()


def _check(source: InputOptions, scaling: ScaleOptions, picture: PictureOptions, passthrough: str | None) -> None:
    for name, value in (("--vmin", scaling.vmin), ("--vmax", scaling.vmax)):
        if value is not None and not math.isfinite(value):
            raise UsageError(f"{name} {value}: is not a finite number")
    outputs = [path for path in (picture.html, picture.svg, passthrough) if path is not None]
    named = [path if path == STDIN else os.path.realpath(path) for path in outputs]
    for path, name in zip(outputs, named, strict=True):
        if named.count(name) > 1:
            what = "standard output" if path == STDIN else path
            raise UsageError(f"{what} can take only one of the page, the figure and the records")
        if path != STDIN and source.path != STDIN and name == os.path.realpath(source.path):
            raise UsageError(f"{path}: is also the input and would be written over: give another file")


def _read(
    source: InputOptions, scales: _Scales, gallery: Gallery, invalid: Invalid, writer: RecordWriter | None
) -> None:
    """Pass every record on, count its values for the scales, and keep it if it is one of those to show."""
    for item in read_records(source.path, format=NATIVE.name):
        if isinstance(item, RecordError):
            invalid.met(item)
            continue
        try:
            response = heatmap_response(item, scales.needed, scales.wanted)
            sample = item.sample
        except RecordError as error:
            invalid.met(error)
        else:
            scales.add(response)
            gallery.offer(response, item.id or response.question or response.id, sample)
        if writer:  # one that cannot be painted is a record all the same
            writer.write(item)


class _Scales:
    """The scales of all quantities, gathered at once.

    Args:
        asked: quantities that every response has.
        others: quantities that are given up when a response has them not.
    """

    def __init__(self, asked: Sequence[TokenQuantity], others: Sequence[TokenQuantity]) -> None:
        self.responses = 0
        self.needed, self.wanted = [quantity.name for quantity in asked], [quantity.name for quantity in others]
        self._builders = {quantity.name: ScaleBuilder([_painted(quantity)]) for quantity in (*asked, *others)}

    def add(self, response: HeatmapResponse) -> None:
        self.responses += 1
        self.wanted = [name for name in self.wanted if name in response.values]
        for name in (*self.needed, *self.wanted):
            self._builders[name].add(response)

    def scale(self, quantity: TokenQuantity, vmin: float | None, vmax: float | None) -> Scale:
        return self._builders[quantity.name].scale(quantity.name, vmin, vmax)

    def scale_if_common(self, quantity: TokenQuantity) -> Scale | None:
        """The scale of a quantity that every response has and some token has a value of; else None."""
        if quantity.name not in self.wanted or not self._builders[quantity.name].has_values(quantity.name):
            return None
        return self.scale(quantity, None, None)


def _title(path: str) -> str:
    return "Heat map" if path == STDIN else f"Heat map of {os.path.basename(path)}"


def _painted(quantity: TokenQuantity) -> Quantity:
    return Quantity(quantity.name, quantity.label, quantity.orientation, quantity.unit)


def _write_figure(
    figure: PictureFile, gallery: Gallery, scales: Sequence[Scale], picture: PictureOptions, compare: bool
) -> None:
    if len(gallery) > FIGURE_RESPONSES:
        raise TokurError(
            f"--svg: {len(gallery):,} responses are too many for one figure (at most {FIGURE_RESPONSES}): choose with "
            "--id, --sample or --limit"
        )
    text = svg_figure(
        list(gallery.responses()),
        scales,
        columns=picture.width or FIGURE_COLUMNS,
        theme="light" if picture.theme == "auto" else picture.theme,
        compare=compare,
    )
    with figure.writing() as file:
        file.write(text)


def _print(
    gallery: Gallery, scales: Sequence[Scale], picture: PictureOptions, compare: bool, records_on_standard_output: bool
) -> None:
    stream = sys.stderr if records_on_standard_output else sys.stdout
    look = Look(
        width=picture.width or columns_of(stream),
        colours=detect_colours(os.environ, stream.isatty(), picture.colour),
        theme=detect_theme(os.environ) if picture.theme == "auto" else picture.theme,
        marks=picture.marks,
        top=picture.top,
        steps=picture.steps,
    )
    with standard_picture(stream, picture.pager) as file:
        console = heatmap_console(file, look)
        for block in _blocks(gallery, scales, look, compare):
            console.print(block)


def _blocks(gallery: Gallery, scales: Sequence[Scale], look: Look, compare: bool) -> Iterator[Block]:
    yield legend(scales, look)
    if compare:
        yield from (compare_view(left, right, scales, look) for left, right in gallery.pairs())
    else:
        yield from (response_view(response, scales, look) for response in gallery.responses())
