"""A model with all that goes with it, from which whatever works with a model is made."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from tokur_cli.commands.options.model import BackendOptions, DecodingOptions
from tokur_cli.commands.options.scoring import PosteriorOptions, default_batch_tokens
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.engine.forward.batching import available_bytes
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.generation.decoder import Decoder
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.engine.model.cached import cache_folder
from tokur_cli.engine.model.load import LanguageModel, ModelDescription
from tokur_cli.engine.posterior.folder import load_posterior
from tokur_cli.engine.posterior.posterior import Posterior, build_posterior
from tokur_cli.engine.posterior.projections import count_layers
from tokur_cli.engine.posterior.settings import MOST_KL, PAPER
from tokur_cli.engine.posterior.strength import suitable_strength
from tokur_cli.engine.scoring.scorer import Scorer
from tokur_cli.engine.scoring.vllm import VllmScorer
from tokur_cli.engine.text.tokens import ResponseTokenizer

ROWS = 256  # generated at once; beyond them a further row gains little
_VLLM_SHARE = 0.8  # of its memory, where the head and the vocabulary's reductions need the rest
CACHE_SHARE = 0.5  # of the memory that is free once the model is loaded


class Session:
    """A model, its tokenizer, the form of its prompts and how much of them it computes at once.

    Args:
        description: the model; one without its weights tokenizes, and generates by vLLM.
        form: how questions become prompts.
        progress: told of work done, and of what the user should know.
        batch_tokens: positions in a batch, all draws counted; None for what suits the device.

    Attributes:
        tokenizer: the model's, for prompts and responses.
        tokenize: from a record to its prompt and response as tokens, see ``PromptForm.tokenize``.
    """

    def __init__(
        self, description: ModelDescription, form: PromptForm, progress: Progress, batch_tokens: int | None = None
    ) -> None:
        self.description, self.form, self.progress = description, form, progress
        self._batch_tokens = batch_tokens
        self.tokenizer = ResponseTokenizer(
            description.tokenizer,
            description.context_length,
            description.end_ids,
            description.vocabulary_size,
            form.options.date,
        )
        self.tokenize = partial(form.tokenize, tokenizer=self.tokenizer, model=description.name)

    @property
    def model(self) -> LanguageModel:
        """The model with its weights."""
        assert isinstance(self.description, LanguageModel)
        return self.description

    @cached_property
    def batch_tokens(self) -> int:
        """Positions in a batch, all draws counted."""
        return self._batch_tokens or default_batch_tokens(self.model.device.type)

    def draws(self, options: PosteriorOptions) -> Draws:
        """Return the draws of a posterior: made afresh, or read from the folder that ``tokur perturb`` wrote."""
        model, say, note = self.model.model, self.progress.say, self.progress.note
        if options.folder is not None:
            posterior = load_posterior(options.folder, model, self.model.name)
        else:
            cache = cache_folder() / "bases"
            posterior = build_posterior(model, options.settings, cache=cache, progress=say)
        self.model.probe.check_scoring(posterior)
        if options.chooses_sigma:
            posterior = self._with_suitable_strength(posterior)
        perturbed, layers = count_layers(model, posterior.matrices)
        if perturbed < layers and posterior.layers is None:
            wanted = posterior.targets.replace(",", " or ")
            note(f"perturbs {perturbed} of {layers} layers: the others have no {wanted}")
        return Draws(posterior, options.members)

    def _with_suitable_strength(self, posterior: Posterior) -> Posterior:
        """Return the posterior with the strength that suits the model, saying so where it is not the paper's."""
        found = suitable_strength(
            self.model.model,
            posterior,
            self.tokenizer,
            batch_tokens=self.batch_tokens,
            cache=cache_folder() / "strengths",
            progress=self.progress.say,
        )
        if found.sigma != PAPER.sigma:
            paper_kl = found.paper_kl and float(f"{found.paper_kl:.2g}")
            self.progress.note(
                f"σ = {found.sigma:g}: at {PAPER.sigma:g} the draws are {paper_kl or math.inf:g} nats a token from "
                f"this model, which is more than {MOST_KL:g} (--sigma {PAPER.sigma:g} takes it all the same)"
            )
            why = {"paper": PAPER.sigma, "paper_kl": paper_kl, "most_kl": MOST_KL}
            posterior = replace(posterior, sigma=found.sigma, why=why)
        return posterior

    def _end_ids(self, options: DecodingOptions) -> frozenset[int]:
        """The tokens that end a response: the model's, and those that ``--stop`` names and that have no text."""
        encoded = [self.description.tokenizer(text, add_special_tokens=False)["input_ids"] for text in options.stop]
        special = [ids[0] for ids in encoded if ids and not self.tokenizer.decode(ids)]
        return frozenset([*self.description.end_ids, *special])

    def decoder(self, options: DecodingOptions) -> Decoder:
        """Return what generates with the model."""
        self.model.probe.check_generation()
        cache_bytes = options.engine.cache_bytes
        if cache_bytes is None:
            devices = [self.model.device, *(weight.device for weight in self.model.model.parameters())]
            cache_bytes = int(available_bytes(devices) * CACHE_SHARE)
        return Decoder(
            self.model.model,
            self.tokenizer.decode,
            _sampling(options),
            end_ids=self._end_ids(options),
            max_new_tokens=options.max_new_tokens,
            context_length=self.model.context_length,
            stop=tuple(options.stop),
            step_ends=options.guidance.ends if options.guidance else (),
            step_tokens=options.guidance.step_tokens if options.guidance else None,
            max_rows=options.batch_size or ROWS,
            cache_bytes=cache_bytes,
            progress=self.progress.generated,
        )

    def vllm_decoder(self, options: DecodingOptions, share: float) -> VllmDecoder:
        """Return what generates with stock vLLM, which loads the weights itself, with a share of its memory."""
        return VllmDecoder(
            self.description,
            self.tokenizer.decode,
            _sampling(options),
            end_ids=self._end_ids(options),
            max_new_tokens=options.max_new_tokens,
            stop=tuple(options.stop),
            resources=_vllm_resources(options.engine, share),
            tell=self.progress.note,
        )

    def token_scorer(self, options: BackendOptions, draws: Draws | None, share: float, **more: Any) -> Scorer:
        """Return what scores tokenized responses, see ``Scorer`` for what ``more`` may be.

        Args:
            options: by which library; vLLM loads the weights itself.
            draws: the draws; None for the quantities of the mean weights alone.
            share: of vLLM's memory, where another engine of it has the rest.
            more: arguments of ``Scorer``.
        """
        more |= {"batch_tokens": self.batch_tokens}
        if options.backend == "transformers":
            return Scorer(self.model.model, draws, **more)
        resources = _vllm_resources(options, share * _VLLM_SHARE)
        return VllmScorer(self.model, draws, resources=resources, tell=self.progress.note, **more)


def _vllm_resources(options: BackendOptions, share: float) -> dict[str, Any]:
    gpus = options.tensor_parallel_size
    return {"kv_cache_memory_bytes": options.cache_bytes, "tensor_parallel_size": gpus, "share": share}


def _sampling(options: DecodingOptions) -> Sampling:
    return Sampling(options.temperature, options.top_k, options.top_p, options.min_p, options.seed)
