"""Whether tokur's own way through a model leads to the model's own numbers, checked before a model is used.

Scoring and generating take the model's forward pass apart (``body``), put several responses into a row or a batch
(``packing``, ``batches``), add draws to some rows (``perturbed``) and keep keys and values (``cache``). A
family that any of this does not suit would give wrong numbers without a word. So a few tokens are put through the model
as it is when it is loaded, then through whichever of these ways is about to be used, beside other tokens that they must
not see.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tokur_cli.engine.body import input_device, watch
from tokur_cli.engine.generation.cache import unsupported_cache_reason
from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.memory import is_out_of_memory
from tokur_cli.engine.model.errors import first_line
from tokur_cli.engine.model.quantised import is_quantised
from tokur_cli.engine.precision import tolerance
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.records.errors import TokurError

TEXT = "The sum of 3 and 4 is 7, so the answer is 7."
INSTEAD = {
    "scoring": "use a model of another family",
    "generation": "use a model of another family, or --backend vllm; tokur score takes responses of any program",
}
_PROMPT, _RESPONSE = 3, 4  # tokens
_BESIDE = 1  # tokens by which what stands beside it is longer
_STEPS = 3  # tokens that are generated


@dataclass(frozen=True)
class Probe:
    """A few tokens and what a model, run as it is, makes of them.

    Args:
        name: of the model, for messages.
        model: the model.
        tokens: the probe's.
        beside: longer, and sorted before it, so that it stands first in a packed row.
        log_p: (T, V) float32 log-probabilities of what follows each position that predicts one of its response tokens.
    """

    name: str
    model: PreTrainedModel
    tokens: TokenizedResponse
    beside: TokenizedResponse
    log_p: Tensor

    def check_scoring(self, draws: Draws | None) -> None:
        """Score the probe's tokens beside others.

        Args:
            draws: as they are to be scored with; None for the mean weights alone.

        Raises:
            TokurError: the numbers under the mean weights are not the model's.
        """
        try:
            result = dict(Scorer(self.model, draws).score([self.tokens, self.beside]))[0]
        except TokurError:
            raise
        except Exception as error:
            raise self._failure("scoring", error) from error
        if isinstance(result, TokurError):
            raise result
        targets = torch.tensor(list(self.tokens.response_ids), device=self.log_p.device)
        logprob = self.log_p.gather(-1, targets[:, None])[:, 0]
        entropy = torch.special.entr(self.log_p.exp()).sum(-1)
        self._compare("scoring", result["logprob"], logprob)
        self._compare("scoring", result["entropy"], entropy)

    def check_generation(self) -> None:
        """Generate the probe's tokens beside others.

        Raises:
            TokurError: what they would be chosen from are not the model's probabilities.
        """
        # Rows of a batch that begin together have the longest prompts first
        forced = torch.tensor([self.beside.prompt_ids[:_STEPS], self.tokens.response_ids[:_STEPS]])
        met: list[Tensor] = []

        def choose(logits: Tensor, *_: object) -> Tensor:
            met.append(logits[1])
            return forced[:, len(met) - 1]

        decoder = Decoder(self.model, str, Sampling(), end_ids=frozenset(), max_new_tokens=_STEPS, choose=choose)
        prompts = ([*self.beside.prompt_ids, *self.beside.response_ids], self.tokens.prompt_ids)
        try:
            if (why := unsupported_cache_reason(self.model)) is not None:
                raise refusal(self.name, self.model, "generation", why)
            for result in decoder.run(DecodingRequest(index, "", ids, (0,)) for index, ids in enumerate(prompts)):
                if isinstance(result, tuple):
                    raise result[1]
        except TokurError:
            raise
        except Exception as error:
            raise self._failure("generation", error) from error
        rows = torch.stack(met).float().log_softmax(-1)
        expected = self.log_p[: len(rows)]
        p = expected.exp()
        differences = torch.where(p > 0, p * (rows.to(expected) - expected).abs(), 0).sum(-1)  # NaN where rows are
        # The first row comes from the prompts, the others from the keys and values that are kept
        for part in (differences[:1], differences[1:]):
            self._compare("generation", part, torch.zeros_like(part))

    def _compare(self, doing: str, ours: npt.NDArray[np.float32] | Tensor, models: Tensor) -> None:
        found, expected = np.asarray(torch.as_tensor(ours).cpu(), dtype=float), models.cpu().double().numpy()
        with np.errstate(invalid="ignore"):
            differences = np.abs(found - expected)
        differences[(found == expected) | (np.isnan(found) & np.isnan(expected))] = 0  # infinities, overflow
        differences[np.isnan(differences)] = np.inf
        # Rounding may strike a single token hard, where experts are chosen; a wrong way is wrong at most of them
        # What multiplies quantised weights may compute in bfloat16 whatever the dtype is (bitsandbytes on a CPU does)
        allowed = tolerance(torch.bfloat16 if is_quantised(self.model) else self.model.dtype)
        if np.median(differences) > allowed:
            worst = int(differences.argmax())
            what = f"differs from the model's by {differences[worst]:.2g} nats at token {worst + 1}"
            raise refusal(self.name, self.model, doing, f"tokur's own forward pass {what}")

    def _failure(self, doing: str, error: Exception) -> Exception:
        if is_out_of_memory(error):
            return error
        return refusal(self.name, self.model, doing, f"{doing} fails ({type(error).__name__}: {first_line(error)})")


def refusal(name: str, model: PreTrainedModel, doing: str, what: str) -> TokurError:
    """Return the error that says that a model's family isn't supported.

    Args:
        name: of the model, as the user typed it.
        model: the model.
        doing: what it isn't supported for: a key of ``INSTEAD``.
        what: what was found.
    """
    return TokurError(
        f"{name} ({model.config.model_type}): {what}; {doing} with this family isn't supported "
        f"(transformers {transformers.__version__}): {INSTEAD[doing]}"
    )


def probe_ids(tokenizer: PreTrainedTokenizerBase) -> Sequence[int]:
    """Return the ids of a few tokens."""
    ids: Sequence[int] = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    return ids or [0]


def probe_model(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Probe:
    """Run a model as it is on a few tokens.

    Raises:
        TokurError: it doesn't run, or cannot be taken apart.
    """
    text = probe_ids(tokenizer)
    length = _PROMPT + _RESPONSE
    ids = [*itertools.islice(itertools.cycle(text), length)]
    others = [*itertools.islice(itertools.cycle(reversed(text)), length + _BESIDE)]
    # Batches are sorted by ids: the probe's tokens come last, where they could see what stands before them
    ids[0], others[0] = max(text), min(text)
    tokens = TokenizedResponse(ids[:_PROMPT], ids[_PROMPT:])
    beside = TokenizedResponse(others[:-1], others[-1:])
    device = input_device(model)
    whole = torch.tensor([[*ids, *others[:_BESIDE]]], device=device)  # what comes later must not matter
    try:
        logits = watch(model, whole)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        said = f"it does not run ({type(error).__name__}: {first_line(error)})"
        if isinstance(error, TokurError):
            said = str(error)
        raise refusal(name, model, "scoring", said) from error
    if logits.ndim != 3 or logits.shape[:2] != whole.shape:
        raise refusal(name, model, "scoring", f"its logits are {tuple(logits.shape)}, not one row per token")
    return Probe(name, model, tokens, beside, logits[0, _PROMPT - 1 : tokens.length].float().log_softmax(-1))
