"""``tokur heatmap``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from tokur_cli.app.groups import Without
from tokur_cli.app.inputs import ScoredResponses, input_path
from tokur_cli.commands.options.heatmap import ChoiceOptions, PassthroughOptions, PictureOptions, ScaleOptions
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions

_MAPPING = ("format", "question_field", "response_field", "reference_field", "id_field", "requests", "filter")


def heatmap(
    *,
    scored: ScoredResponses = None,
    scaling: ScaleOptions,
    choice: ChoiceOptions,
    labels: LabelOptions,
    picture: PictureOptions,
    target: PassthroughOptions,
    source: Annotated[InputOptions, Without(*_MAPPING)],
) -> None:
    """Paint the tokens of scored responses by their uncertainty: in the terminal, as a page or as a figure.

    One scale holds for all responses of the input, whichever of them are shown.
    """
    source = replace(source, path=input_path(scored))
    from tokur_cli.commands.heatmap.command import heatmap as run

    run(source, scaling, choice, labels, picture, target)
