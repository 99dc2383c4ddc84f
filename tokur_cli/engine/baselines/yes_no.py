"""Questions to the model with two possible answers: the probability of the first, from one forward pass each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tokur_cli.engine.forward.batching import HalvingBatches, pad
from tokur_cli.engine.forward.body import input_device, logits_from, run_body
from tokur_cli.engine.forward.rope import rescaled_beyond
from tokur_cli.records.errors import TokurError

TRUE_OR_FALSE = (("True", "False"), ("true", "false"), ("TRUE", "FALSE"), ("(A)", "(B)"), ("A", "B"))
YES_OR_NO = (("Yes", "No"), ("yes", "no"), ("YES", "NO"))
"""The forms that two answers may take, with or without a space before them."""

_BLOCK = 64  # states whose logits are held at once


@dataclass(frozen=True)
class Fork:
    """Where two forms of the answers part.

    Args:
        shared: the ids that both begin with.
        first: the id with which the first answer goes on.
        second: the id with which the second goes on.
    """

    shared: tuple[int, ...]
    first: int
    second: int


def find_forks(tokenizer: PreTrainedTokenizerBase, forms: Sequence[tuple[str, str]]) -> list[Fork]:
    """Return where the answers' forms part in a tokenizer's ids, each place once.

    A form counts from the token at which it differs from its counterpart: ``True`` and ``False`` by their first
    tokens, ``(A)`` and ``(B)`` by the letter after what may be a token for the parenthesis. Forms that a tokenizer
    does not tell apart do not count.

    Args:
        tokenizer: the model's.
        forms: (first answer, second answer); looked up with and without a space before them.

    Raises:
        TokurError: the tokenizer can tell none of them apart.
    """
    forks: dict[Fork, None] = {}
    for space in ("", " "):
        for texts in forms:
            one, other = (tokenizer(space + text, add_special_tokens=False)["input_ids"] for text in texts)
            differing = (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
            place = next(differing, None)
            if place is not None:
                forks[Fork(tuple(one[:place]), one[place], other[place])] = None
    if not forks:
        raise TokurError(f"the model's tokenizer does not tell {forms[0][0]} from {forms[0][1]}")
    return list(forks)


class Asker:
    """Asks questions with two possible answers.

        p = Σ_f p(first_f) / Σ_f (p(first_f) + p(second_f))

    over all forms f of the answers, under the mean weights, the softmax in float32.

    Args:
        model: the model, in evaluation mode.
        forks: where the answers' forms part.
        batch_tokens: positions in a batch; halved for good when memory does not suffice.
    """

    def __init__(self, model: PreTrainedModel, forks: Sequence[Fork], batch_tokens: int) -> None:
        self.model, self.batches = model, HalvingBatches(batch_tokens, apart_from=rescaled_beyond(model))
        self.device = input_device(model)
        # A sequence that goes on with "(" serves the forms that begin so and those that do not
        stems = {fork.shared for fork in forks}
        longest = [one for one in stems if not any(one != other and other[: len(one)] == one for other in stems)]
        self._forks: dict[tuple[int, ...], list[Fork]] = {stem: [] for stem in sorted(longest)}
        for fork in forks:
            serving = next(stem for stem in self._forks if stem[: len(fork.shared)] == fork.shared)
            self._forks[serving].append(fork)
        ids = sorted({index for fork in forks for index in (*fork.shared, fork.first, fork.second)})
        self._ids, self._column = ids, {index: column for column, index in enumerate(ids)}

    def ask(self, prompts: Sequence[Sequence[int]]) -> list[float | TokurError]:
        """Return p of the first answer after each prompt.

        Args:
            prompts: at least one token id each.

        Returns:
            Probabilities in [0, 1]; an error where memory does not suffice.
        """
        stems = list(self._forks)
        sequences = [[*prompt, *stem] for prompt in prompts for stem in stems]

        def compute(batch: Sequence[int]) -> list[torch.Tensor]:
            return self._log_probabilities([sequences[i] for i in batch], [stems[i % len(stems)] for i in batch])

        found = self.batches.run(sequences, compute)
        return [_share(found[first : first + len(stems)]) for first in range(0, len(found), len(stems))]

    @torch.inference_mode()
    def _log_probabilities(self, sequences: list[list[int]], stems: list[tuple[int, ...]]) -> list[torch.Tensor]:
        """Return for each sequence (F, 2) log-probabilities of both answers at the forks that its stem serves."""
        outputs = run_body(self.model, input_ids=pad(sequences, self.device), use_cache=False)
        hidden = outputs["last_hidden_state"]
        places = [  # where the next token is predicted: at the prompt's end, and after each token of the stem
            (row, column)
            for row, (sequence, stem) in enumerate(zip(sequences, stems, strict=True))
            for column in range(len(sequence) - len(stem) - 1, len(sequence))
        ]
        rows, columns = torch.tensor(places, device=hidden.device).T
        with logits_from(self.model, outputs) as logits:
            log_p = torch.cat(
                [  # (number of places, number of ids)
                    logits(states[None])[0].float().log_softmax(-1)[:, self._ids].cpu().double()
                    for states in hidden[rows, columns].split(_BLOCK)
                ]
            )
        parts = log_p.split([1 + len(stem) for stem in stems])
        return [
            torch.stack([self._at(fork, part) for fork in self._forks[stem]])
            for stem, part in zip(stems, parts, strict=True)
        ]

    def _at(self, fork: Fork, log_p: torch.Tensor) -> torch.Tensor:
        """Return (2,) log-probabilities of the shared ids followed by the first and by the second answer's."""
        shared = sum(log_p[step, self._column[index]] for step, index in enumerate(fork.shared))
        return shared + log_p[len(fork.shared), [self._column[fork.first], self._column[fork.second]]]


def _share(parts: Sequence[torch.Tensor | TokurError]) -> float | TokurError:
    """Return the first answers' share of the probability, from (F, 2) log-probabilities."""
    failed = next((part for part in parts if isinstance(part, TokurError)), None)
    if failed is not None:
        return failed
    log_p = torch.cat([part for part in parts if isinstance(part, torch.Tensor)])
    return float(log_p.logsumexp(0).softmax(0)[0])
