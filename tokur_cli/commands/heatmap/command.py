"""``tokur heatmap``: scored responses in, a picture out of where the model was uncertain."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console, RenderableType

from tokur_cli.answers.grading import Labelled
from tokur_cli.commands.heatmap.gallery import Gallery
from tokur_cli.commands.heatmap.records import heatmap_response, said_answer, scored_with
from tokur_cli.commands.options.heatmap import ChoiceOptions, PictureOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.labelled import Labeller
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.commands.shared.scored_tokens import token_arrays
from tokur_cli.records.errors import RecordError, TokurError, UsageError, there_are
from tokur_cli.records.formats import rows
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.quantity import Quantity
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.html import write_html
from tokur_cli.views.heatmap.scale import Scale, ScaleBuilder
from tokur_cli.views.heatmap.style import NARROWEST, TerminalStyle
from tokur_cli.views.heatmap.svg import svg_figure
from tokur_cli.views.heatmap.terminal import compare_view, legend, response_view

COMMAND = "heatmap"
FIGURE_RESPONSES = 12  # more than these make a figure that nobody can print
FIGURE_COLUMNS, FIGURE_COLUMNS_BESIDE = 84, 125


def heatmap(source: InputOptions, picture: PictureOptions, choice: ChoiceOptions, labels: LabelOptions) -> None:
    """Paint scored responses.

    All records are read before anything is painted, since one scale holds for all of them.
    """
    records, first = look_ahead(read_input(COMMAND, replace(source, format=rows.tokur.name)), skip_invalid=True)
    asked = _quantities_of(_default(first) if picture.quantities is None else picture.quantities)
    # A page can be switched to what else the records have
    others = [quantity for quantity in QUANTITIES.values() if quantity not in asked] if picture.html else []
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    scales, gallery = ScaleBuilder(asked, others), Gallery(choice)
    with Labeller(labels, invalid, answers=labels.answer is not None, is_strict=False) as reader:
        items, needed = reader.read(map(_scored, records)), [one.name for one in asked]
        scored, given = _read(items, needed, scales, gallery, invalid, labels)
    if scales.responses:
        gallery.check()
        chosen = [scales.scale(quantity.name, *picture.ends) for quantity in asked]
        if picture.html:
            every = chosen + [scales.scale(name) for name in scales.others if scales.has_values(name)]
            _write_page(picture.html, gallery, every, source.path, f"{scored} {given}".strip())
        if picture.svg:
            _write_figure(picture.svg, gallery, chosen, picture)
        if not (picture.html or picture.svg):
            _print(gallery, chosen, picture)
        if given:
            say(COMMAND, given)
    invalid.finish(none_of=None if scales.responses else display_name(source.path))


def _default(first: Record | None) -> str:
    """Return what is painted where nothing is asked for: ``logprob`` of records that were scored without a model."""
    tokens = {} if first is None else first.computed("tokens")
    return "logprob" if "logprob" in tokens and "eu" not in tokens else "eu"


def _quantities_of(names: str) -> list[Quantity]:
    """Return the quantities of a comma-separated list, in any case, in its order."""
    asked = list(dict.fromkeys(name.strip().lower() for name in names.split(",") if name.strip()))
    unknown = [name for name in asked if name not in QUANTITIES]
    if unknown or not asked:
        what = f"no quantity of single tokens is called {', '.join(unknown)}" if unknown else "--score names none"
        raise UsageError(what + there_are(QUANTITIES, *unknown))
    return [QUANTITIES[name] for name in asked]


def _scored(item: Record | RecordError) -> Record | RecordError:
    """Return a record or, of one that was never scored, that error before any other."""
    try:
        if isinstance(item, Record):
            token_arrays(item)
    except RecordError as error:
        return error
    return item


def _read(
    items: Iterable[Labelled | RecordError],
    needed: Sequence[str],
    scales: ScaleBuilder,
    gallery: Gallery,
    invalid: InvalidRecords,
    labels: LabelOptions,
) -> tuple[str, str]:
    """Count every record's values for the scales and keep it if it is to show.

    Returns:
        What they were scored with and how many answers a certificate gives, a sentence each; empty where none says it.
    """
    settings: dict[str, None] = {}
    given: list[bool | None] = []  # of answers that a certificate does not keep back: whether each is correct
    withheld, questions = 0, Questions()
    for item in invalid.good(items):
        try:
            answer = _shown_answer(item, labels)
            question = questions.known(item.record) if gallery.choice.compare else None
            response = heatmap_response(
                item.record,
                needed,
                scales.others,
                correct=item.correct,
                answer=answer,
                group=None if question is None else question.key,
            )
        except RecordError as error:
            invalid.skip_or_raise(error)
        else:
            scales.add(response)
            settings[scored_with(item.record)] = None
            gallery.offer(response)
            withheld += response.withheld is True
            given += [response.correct] if response.withheld is False else []
    words = [each for each in settings if each]
    others = ", the others with other settings" if len(words) > 1 else ""
    counts = f"{len(given):,} of {len(given) + withheld:,} answers given, {given.count(False):,} incorrect."
    return f"Scored with {words[0]}{others}." if words else "", counts if given or withheld else ""


def _shown_answer(labelled: Labelled, labels: LabelOptions) -> str | None:
    """Return the answer as the user has it read, else as an earlier command left it, else as it was compared."""
    if labels.answer is not None:
        return labelled.answer
    return said_answer(labelled.record) or (labelled.answer if labelled.record.references else None)


def _write_page(path: str, gallery: Gallery, scales: Sequence[Scale], source: str, scored: str) -> None:
    responses, compare = gallery.responses(), gallery.choice.compare
    title = "Heat map" if source == STDIN else f"Heat map of {os.path.basename(source)}"
    with writing_whole(path) as file:
        write_html(file, responses, scales, title=title, scored=scored, compare=compare)
    if path != STDIN and sys.stderr.isatty():
        say(COMMAND, f"{path} has the page: open it in a browser")


def _write_figure(path: str, gallery: Gallery, scales: Sequence[Scale], picture: PictureOptions) -> None:
    if (count := len(gallery.responses())) > FIGURE_RESPONSES:
        how = "choose with --id, --sample or --limit"
        raise TokurError(f"--svg: {count:,} responses are too many for one figure (at most {FIGURE_RESPONSES}): {how}")
    width = FIGURE_COLUMNS_BESIDE if gallery.choice.compare else FIGURE_COLUMNS
    theme = "light" if picture.theme == "auto" else picture.theme
    style = TerminalStyle(width, theme=theme, detail=picture.detail, by=gallery.choice.by)
    figure = svg_figure(list(_drawn(gallery, scales, style)), width=width, theme=theme)
    with writing_whole(path) as file:
        file.write(figure)


def _print(gallery: Gallery, scales: Sequence[Scale], picture: PictureOptions) -> None:
    with _picture_console() as console:
        theme = "dark" if picture.theme == "auto" else picture.theme
        # The 16 colours of a terminal are too few for the steps: users repaint them, and text on some cannot be read
        has_steps = not console.no_color and console.color_system in ("truecolor", "256")
        style = TerminalStyle(console.width, has_steps, theme, picture.detail, gallery.choice.by)
        for part in _drawn(gallery, scales, style):
            console.print(part, crop=False)


def _drawn(gallery: Gallery, scales: Sequence[Scale], style: TerminalStyle) -> Iterator[RenderableType]:
    yield legend(scales, style)
    if gallery.choice.compare:
        for left, right in gallery.pairs():
            yield compare_view(left, right, scales, style)
    else:
        for response in gallery.responses():
            yield response_view(response, scales, style)


class _Console(Console):
    """A console that leaves a closed pipe to the command, where rich's own ends the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error that rich is handling where it calls this."""
        raise


@contextmanager
def _picture_console() -> Iterator[Console]:
    """Give a console for a picture on standard output, in UTF-8; on a terminal through PAGER, or less.

    PAGER="" is no pager. rich finds the width and the colours; it heeds COLUMNS, NO_COLOR and FORCE_COLOR.
    """
    with writing_whole(STDIN) as file:
        console = _Console(file=file, legacy_windows=False, markup=False, emoji=False, highlight=False)
        console.width = max(console.width, NARROWEST)
        if sys.stdout.isatty() and os.environ.get("PAGER") != "":
            # less: end at once if it fits on the screen, let colours through, leave the text on the screen
            if "LESS" not in os.environ and shutil.which("less"):  # from Python 3.13 on, pydoc has a LESS of its own
                os.environ.setdefault("PAGER", "less -FRX")
            os.environ.setdefault("LESS", "FRX")
            with console.pager(styles=True):
                yield console
        else:
            yield console
