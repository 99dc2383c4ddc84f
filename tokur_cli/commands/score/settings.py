"""What a scored record can be told by: the settings of the run that wrote it."""

from __future__ import annotations

from typing import Any


def settings_for(settings: dict[str, Any], tokur: dict[str, Any]) -> dict[str, Any]:
    """Return a run's settings as a record will have them that came with this ``tokur``, whose scores may stay."""
    if has_prompt_ids(tokur, settings["model"]):
        settings = {name: value for name, value in settings.items() if name != "prompts"}
    run = {name: value for name, value in settings.items() if name not in ("scores", "tokens", "step_by")}
    return {**settings, "scores": list(dict.fromkeys([*scores_to_stay(tokur, run), *settings["scores"]]))}


def settings_of(tokur: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a scored record was written with."""
    kept = {"tokens": "tokens" in tokur, "step_by": tokur.get("step_by")}
    run, scores = (found if isinstance(found := tokur.get(of), dict) else {} for of in ("run", "scores"))
    return {**run, "scores": list(scores), **kept}


def has_prompt_ids(tokur: dict[str, Any], model: str) -> bool:
    """Return whether a record's prompt is the ids that it came with: none was made for it then."""
    return tokur.get("prompt_token_ids") is not None and tokur.get("model") in (None, model)


def scores_to_stay(tokur: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of an earlier run, if they were made in the same way as this run's."""
    scores = tokur.get("scores")
    return scores if tokur.get("run") == run and isinstance(scores, dict) else {}
