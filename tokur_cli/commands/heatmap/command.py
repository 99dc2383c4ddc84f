"""``tokur heatmap``: scored responses in, a picture out of where the model was unsure."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TextIO, cast, get_args

from tokur_cli.answers.judging import Labelled
from tokur_cli.commands.heatmap.gallery import Gallery
from tokur_cli.commands.heatmap.output import columns_of, standard_picture
from tokur_cli.commands.heatmap.records import heatmap_response, said_answer, scored_with
from tokur_cli.commands.options.heatmap import ChoiceOptions, PassthroughOptions, PictureOptions, ScaleOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.labelled import WINDOW, Labeller, Refused
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.commands.shared.scored_tokens import token_arrays
from tokur_cli.records.errors import RecordError, TokurError, UsageError, there_are
from tokur_cli.records.formats import NATIVE
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.quantity import Quantity
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.colours import Palette, Theme
from tokur_cli.views.heatmap.html import write_html
from tokur_cli.views.heatmap.look import Look, has_steps, heatmap_console
from tokur_cli.views.heatmap.scale import Scale, ScaleBuilder
from tokur_cli.views.heatmap.svg import svg_figure
from tokur_cli.views.heatmap.terminal import compare_view, legend, response_view

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
    """
    asked = _quantities_of(scaling.quantities)
    palettes = _palettes_of(scaling.palettes, len(asked))
    for name, value in (("--vmin", scaling.vmin), ("--vmax", scaling.vmax)):
        if value is not None and not math.isfinite(value):
            raise UsageError(f"{name} {value}: is not a finite number")
    # A page can be switched to what else the records have
    others = [quantity for quantity in QUANTITIES.values() if quantity not in asked] if picture.html else []
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    scales, gallery = ScaleBuilder(asked, others), Gallery(choice)
    records = nullcontext() if target.path is None else open_output(target.path, force=target.force, whole=True)
    with records as writer, Labeller(labels, invalid, answers=labels.answer is not None, is_strict=False) as reader:
        items = reader.read(read_input(COMMAND, replace(source, format=NATIVE.name)), 1 if writer else WINDOW)
        settings = _read(_passed_on(items, writer), [one.name for one in asked], scales, gallery, invalid, labels)
        if scales.responses:
            gallery.check()
            chosen = [
                replace(scales.scale(quantity.name, scaling.vmin, scaling.vmax), palette=palette)
                for quantity, palette in zip(asked, palettes, strict=True)
            ]
            if picture.html:
                every = chosen + [scales.scale(name) for name in scales.others if scales.has_values(name)]
                _write_page(picture.html, gallery, every, source.path, settings)
            if picture.svg:
                _write_figure(picture.svg, gallery, chosen, picture)
            if not (picture.html or picture.svg):
                _print(sys.stderr if target.path == STDIN else sys.stdout, gallery, chosen, picture)
    invalid.finish(none_of=None if scales.responses else display_name(source.path))


def _quantities_of(names: str) -> list[Quantity]:
    """Return the quantities of a comma-separated list, in its order."""
    asked = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in asked if name not in QUANTITIES]
    if unknown or not asked:
        what = f"no quantity of single tokens is called {', '.join(unknown)}" if unknown else "--score names none"
        raise UsageError(what + there_are(QUANTITIES, *unknown))
    return [QUANTITIES[name] for name in asked]


def _palettes_of(names: str, count: int) -> list[Palette]:
    """Return the palettes of a comma-separated list, one for each of ``count`` quantities; a single one is for all."""
    asked = [name.strip() for name in names.split(",")]
    unknown = [name for name in asked if name not in get_args(Palette)]
    if unknown:
        raise UsageError(
            f"--palette: no palette is called {', '.join(unknown)}" + there_are(get_args(Palette), *unknown)
        )
    if len(asked) not in (1, count):
        raise UsageError(
            f"--palette names {len(asked)} palettes and --score {count} quantities: give one for each, or one for all"
        )
    return cast(list[Palette], asked * count if len(asked) == 1 else asked)


def _passed_on(items: Iterable[Labelled | Refused], writer: RecordWriter | None) -> Iterator[Labelled | Refused]:
    """Yield records, each of which is written once it has been looked at, even if it cannot be painted."""
    for item in items:
        yield item
        if writer and item.record is not None:
            writer.write(item.record)


def _read(
    items: Iterable[Labelled | Refused],
    needed: Sequence[str],
    scales: ScaleBuilder,
    gallery: Gallery,
    invalid: InvalidRecords,
    labels: LabelOptions,
) -> list[str]:
    """Count every record's values for the scales and keep it if it is to show; return with what they were scored."""
    settings: dict[str, None] = {}
    for item in items:
        try:
            if isinstance(item, Refused):
                if item.record is not None:
                    token_arrays(item.record)  # what was never scored is told so first
                raise item.error
            answer = _shown_answer(item, labels)
            response = heatmap_response(item.record, needed, scales.others, correct=item.correct, answer=answer)
        except RecordError as error:
            invalid.skip_or_raise(error)
        else:
            scales.add(response)
            settings[scored_with(item.record)] = None
            gallery.offer(response)
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


def _write_page(path: str, gallery: Gallery, scales: Sequence[Scale], source: str, settings: Sequence[str]) -> None:
    responses, compare = gallery.responses(), gallery.choice.compare
    title = "Heat map" if source == STDIN else f"Heat map of {os.path.basename(source)}"
    with writing_whole(path) as file:
        write_html(file, responses, scales, title=title, scored=_told(settings), compare=compare)
    if path != STDIN and sys.stderr.isatty():
        say(COMMAND, f"{path} has the page: open it in a browser")


def _write_figure(path: str, gallery: Gallery, scales: Sequence[Scale], picture: PictureOptions) -> None:
    responses = gallery.responses()
    if len(responses) > FIGURE_RESPONSES:
        raise TokurError(
            f"--svg: {len(responses):,} responses are too many for one figure (at most {FIGURE_RESPONSES}): choose "
            "with --id, --sample or --limit"
        )
    theme: Theme = "light" if picture.theme == "auto" else picture.theme
    columns = picture.width or FIGURE_COLUMNS
    text = svg_figure(responses, scales, columns=columns, theme=theme, compare=gallery.choice.compare)
    with writing_whole(path) as file:
        file.write(text)


def _print(stream: TextIO, gallery: Gallery, scales: Sequence[Scale], picture: PictureOptions) -> None:
    with standard_picture(stream, not picture.no_pager) as file:
        console = heatmap_console(file, is_terminal=stream.isatty(), color=picture.color)
        look = Look(
            width=picture.width or columns_of(stream),
            painted=has_steps(console),
            theme="dark" if picture.theme == "auto" else picture.theme,
            marks=picture.marks,
            top=picture.top,
            steps=picture.steps,
            scores=picture.all_scores,
            sort=gallery.choice.by,
        )
        console.print(legend(scales, look))
        if gallery.choice.compare:
            for left, right in gallery.pairs():
                console.print(compare_view(left, right, scales, look))
        else:
            for response in gallery.responses():
                console.print(response_view(response, scales, look))
