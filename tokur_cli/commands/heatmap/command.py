"""``tokur heatmap``: scored responses in, a picture out of where the model was unsure."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

from tokur_cli.answers.judging import Labelled
from tokur_cli.commands.heatmap.gallery import Gallery
from tokur_cli.commands.heatmap.output import columns_of, standard_picture
from tokur_cli.commands.heatmap.quantities import choose_palettes, choose_quantities
from tokur_cli.commands.heatmap.records import heatmap_response, said_answer, scored_with
from tokur_cli.commands.options.heatmap import ChoiceOptions, PassthroughOptions, PictureOptions, ScaleOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.labelled import WINDOW, Labelling, Refused
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.commands.shared.scored_tokens import token_arrays
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.formats import NATIVE
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.quantity import Quantity
from tokur_cli.records.record import Record
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.blocks import Block
from tokur_cli.views.heatmap.html import write_html
from tokur_cli.views.heatmap.look import Look, detect_colours, detect_theme, heatmap_console
from tokur_cli.views.heatmap.scale import Scale, ScaleBuilder
from tokur_cli.views.heatmap.svg import svg_figure
from tokur_cli.views.heatmap.terminal import compare_view, legend, response_view
from tokur_cli.views.particles.html import write_tree
from tokur_cli.views.particles.terminal import tree_view

COMMAND = "heatmap"
FIGURE_RESPONSES = 12
"""More than these make a figure that nobody can print."""
FIGURE_COLUMNS = 72


def heatmap(
    source: InputOptions,
    scaling: ScaleOptions,
    choice: ChoiceOptions,
    labels: LabelOptions,
    picture: PictureOptions,
    target: PassthroughOptions,
) -> None:
    """Paint scored responses.

    All records are read before anything is painted, since one scale holds for all of them.

    Args:
        source: the records.
        scaling: what they are painted by.
        choice: which of them are painted.
        labels: how it is known which of them are right.
        picture: what is painted.
        target: where the records go on to.

    Raises:
        TokurError: the first bad record (unless bad ones are skipped), or whatever else stops the run.
    """
    if choice.particles is not None:
        _show_particles(source, choice.particles, scaling, labels, picture, target)
        return
    asked = choose_quantities(scaling.quantities)
    palettes = choose_palettes(scaling.palettes, len(asked))
    for name, value in (("--vmin", scaling.vmin), ("--vmax", scaling.vmax)):
        if value is not None and not math.isfinite(value):
            raise UsageError(f"{name} {value}: is not a finite number")
    # A page can be switched to what else the records have
    others = [quantity for quantity in QUANTITIES.values() if quantity not in asked] if picture.html else []
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    scales = ScaleBuilder(asked, others)
    with Gallery(choice) as gallery:
        records = nullcontext() if target.path is None else open_output(target.path, force=target.force, whole=True)
        with (
            records as writer,
            Labelling(labels, invalid, answers=labels.answer is not None, is_strict=False) as reader,
        ):
            settings = _read(source, asked, scales, gallery, invalid, writer, reader, labels)
        if scales.responses:
            gallery.check()
            chosen = [
                replace(scales.scale(quantity.name, scaling.vmin, scaling.vmax), palette=palette)
                for quantity, palette in zip(asked, palettes, strict=True)
            ]
            if picture.html:
                every = chosen + [scales.scale(name) for name in scales.others if scales.has_values(name)]
                with writing_whole(picture.html) as file:
                    write_html(
                        file,
                        gallery.responses(),
                        every,
                        title=_title(source.path),
                        scored=_told(settings),
                        compare=choice.compare,
                    )
            if picture.svg:
                _write_figure(picture.svg, gallery, chosen, picture, choice.compare)
            if not (picture.html or picture.svg):
                _print(
                    lambda look: _blocks(gallery, chosen, look, choice.compare),
                    picture,
                    records_on_standard_output=target.path == STDIN,
                )
    invalid.finish(none_of=None if scales.responses else display_name(source.path))


def _show_particles(
    source: InputOptions,
    question: str,
    scaling: ScaleOptions,
    labels: LabelOptions,
    picture: PictureOptions,
    target: PassthroughOptions,
) -> None:
    """Draw how one question's particles came about."""
    from tokur_cli.commands.heatmap.particles import particle_tree  # has the scores with it, and so needs numpy

    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    records: list[Record] = []
    with nullcontext() if target.path is None else open_output(target.path, force=target.force, whole=True) as writer:
        for item in read_input(COMMAND, replace(source, format=NATIVE.name)):
            if isinstance(item, RecordError):
                invalid.skip_or_raise(item)
                continue
            try:
                if item.id == question:
                    records.append(item)
            except RecordError as error:
                invalid.skip_or_raise(error)
            if writer:
                writer.write(item)
    tree = particle_tree(records, question, labels.label_field)
    if picture.html:
        with writing_whole(picture.html) as file:
            write_tree(file, tree)
    else:
        _print(lambda look: iter([tree_view(tree, look)]), picture, records_on_standard_output=target.path == STDIN)
    invalid.finish()


def _read(
    source: InputOptions,
    asked: Sequence[Quantity],
    scales: ScaleBuilder,
    gallery: Gallery,
    invalid: InvalidRecords,
    writer: RecordWriter | None,
    reader: Labelling,
    labels: LabelOptions,
) -> list[str]:
    """Pass every record on, count its values for the scales, and keep it if it is one of those to show.

    Returns:
        With what they were scored, all that differ.
    """
    needed = [quantity.name for quantity in asked]
    settings: dict[str, None] = {}
    window = WINDOW if writer is None else 1  # records go on as they come
    for item in reader.read(read_input(COMMAND, replace(source, format=NATIVE.name)), window):
        record = item.record
        try:
            if isinstance(item, Refused):
                if record is not None:
                    token_arrays(record)  # what was never scored is told so first
                raise item.error
            answer = _shown_answer(item, labels)
            response = heatmap_response(item.record, needed, scales.others, correct=item.correct, answer=answer)
            sample = item.record.sample
        except RecordError as error:
            invalid.skip_or_raise(error)
        else:
            scales.add(response)
            settings[scored_with(item.record)] = None
            gallery.offer(response, item.record.id or response.question or response.id, sample)
        if writer and record is not None:  # one that cannot be painted is a record all the same
            writer.write(record)
    return [words for words in settings if words]


def _shown_answer(labelled: Labelled, labels: LabelOptions) -> str | None:
    """Return the answer as the user has it read, else as an earlier command left it, else as it was compared."""
    if labels.answer is not None:
        return labelled.answer
    return said_answer(labelled.record) or (labelled.answer if labelled.record.references else None)


def _told(settings: Sequence[str]) -> str:
    """Return in a sentence with what responses were scored, the first of them first."""
    if not settings:
        return ""
    others = ", the others with other settings" if len(settings) > 1 else ""
    return f"Scored with {settings[0]}{others}."


def _title(path: str) -> str:
    return "Heat map" if path == STDIN else f"Heat map of {os.path.basename(path)}"


def _write_figure(path: str, gallery: Gallery, scales: Sequence[Scale], picture: PictureOptions, compare: bool) -> None:
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
    with writing_whole(path) as file:
        file.write(text)


def _print(
    blocks: Callable[[Look], Iterator[Block]], picture: PictureOptions, *, records_on_standard_output: bool
) -> None:
    stream = sys.stderr if records_on_standard_output else sys.stdout
    look = Look(
        width=picture.width or columns_of(stream),
        colours=detect_colours(os.environ, stream.isatty(), picture.color),
        theme=detect_theme(os.environ) if picture.theme == "auto" else picture.theme,
        marks=picture.marks,
        top=picture.top,
        steps=picture.steps,
    )
    with standard_picture(stream, not picture.no_pager) as file:
        console = heatmap_console(file, look)
        for block in blocks(look):
            console.print(block)


def _blocks(gallery: Gallery, scales: Sequence[Scale], look: Look, compare: bool) -> Iterator[Block]:
    yield legend(scales, look)
    if compare:
        yield from (compare_view(left, right, scales, look) for left, right in gallery.pairs())
    else:
        yield from (response_view(response, scales, look) for response in gallery.responses())
