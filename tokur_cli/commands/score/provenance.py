"""How a scored record was made: what a resumed run compares, and whether its scores of an earlier run stay."""

from __future__ import annotations

from typing import Any

from tokur_cli.commands.score.alternatives import alternatives_setting

_OF_WHAT_IS_KEPT = ("scores", "tokens", "step_by", "alternatives")


def settings_for(settings: dict[str, Any], tokur: dict[str, Any]) -> dict[str, Any]:
    """Return a run's settings as a record will have them that came with this ``tokur``, whose scores may stay."""
    if has_prompt_ids(tokur, settings["model"]):
        settings = {name: value for name, value in settings.items() if name != "prompts"}
    run = {name: value for name, value in settings.items() if name not in _OF_WHAT_IS_KEPT}
    return {**settings, "scores": list(dict.fromkeys([*earlier_scores(tokur, run), *settings["scores"]]))}


def settings_of(tokur: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a scored record was written with."""
    kept = {
        "tokens": "tokens" in tokur,
        "step_by": tokur.get("step_by"),
        "alternatives": alternatives_setting(tokur),
    }
    run, scores = (found if isinstance(found := tokur.get(of), dict) else {} for of in ("run", "scores"))
    return {**run, "scores": list(scores), **kept}


def has_prompt_ids(tokur: dict[str, Any], model: str) -> bool:
    """Return whether a record's prompt is the ids that it came with: none was made for it then."""
    return tokur.get("prompt_token_ids") is not None and tokur.get("model") in (None, model)


def earlier_scores(tokur: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """Return a record's scores of an earlier run that were made in the same way and stay."""
    scores = tokur.get("scores")
    return dict(scores) if isinstance(scores, dict) and tokur.get("run") == run else {}
