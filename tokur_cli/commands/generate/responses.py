"""Responses as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokur_cli import __version__
from tokur_cli.commands.generate import guided
from tokur_cli.commands.options.model import DecodingOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.digests import with_model_digests
from tokur_cli.engine.generation.decoder import DecodedResponse
from tokur_cli.engine.generation.particles import GuidedResponse
from tokur_cli.records.record import SCHEMA, Record


class ResponseRecords:
    """Makes records of responses.

    Args:
        session: what makes the prompts; its model need not have its weights here.
        model: the settings of what generates.
        options: how responses are generated.
        score: whether the records are scored afterwards.

    Attributes:
        settings: what the records have under ``tokur.generation``.
    """

    def __init__(self, session: Session, model: Mapping[str, Any], options: DecodingOptions, *, score: bool) -> None:
        self._description, self._seed, self._score = session.description, options.seed, score
        self.settings = with_model_digests(
            {
                **{name: model[name] for name in session.description.identity},
                "backend": options.engine.backend,
                "temperature": options.temperature,
                "top_p": options.top_p,
                "top_k": options.top_k,
                "min_p": options.min_p,
                "max_new_tokens": options.max_new_tokens,
                "stop": list(options.stop),
                **session.form.settings(session.tokenizer),
                "seed": options.seed,
                "version": __version__,
            },
            known=model,
        )
        if options.guidance:
            self.settings |= guided.settings_of(options.guidance, options.samples)
            self.settings["posterior"] = model["posterior"]

    def of(self, question: Record, prompt_ids: Sequence[int], response: DecodedResponse) -> Record:
        """Return the record of a response to a question."""
        record, description = question.copy(), self._description
        record.set("response", response.text)
        record.set(
            "tokur",
            {
                "schema": SCHEMA,
                "model": description.name,
                **({} if description.base is None else {"base": description.base}),
                "sample": response.sample,
                "seed": self._seed,
                "finish_reason": response.finish_reason,
                "prompt_token_ids": list(prompt_ids),
                "token_ids": response.token_ids,
                "generation": self.settings,
                **(guided.fields_of(response, self._score) if isinstance(response, GuidedResponse) else {}),
            },
        )
        return record
