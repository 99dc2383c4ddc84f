"""Records in the order of their confidence, and the sums from which every ranking metric is read, for many resamples.

Ties are groups of equal confidence. Within a group the order is unknown, so every metric is its expectation over all
orders, which depends on nothing but the group's total: no metric depends on the order of the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Ranked:
    """N records in G groups of equal confidence, from the most to the least confident.

    Args:
        confidence: (N,), finite.
        label: (N,), in [0, 1].
        most_groups: where there are more groups, neighbours are merged into this many of about equal size.
        stratum: (N,) number of the stratum of each record, from 0; -1 for none. None, or of graded records: no strata.
    """

    def __init__(
        self,
        confidence: Floats,
        label: Floats,
        most_groups: int | None = None,
        stratum: NDArray[np.intp] | None = None,
    ) -> None:
        order = np.argsort(-confidence, kind="stable")
        ranked = confidence[order]
        begins = np.concatenate(([True], ranked[1:] != ranked[:-1]))
        group = np.cumsum(begins) - 1  # (N,) in the order of confidence
        self.is_merged = most_groups is not None and bool(group[-1] >= most_groups)
        if most_groups is not None and self.is_merged:
            # A group stays whole: it goes where its first record would go.
            group = np.unique(np.flatnonzero(begins)[group] * most_groups // len(ranked), return_inverse=True)[1]
        self.group = np.empty(len(group), dtype=np.intp)  # (N,) in the records' own order
        self.group[order] = group
        self.group_count = int(group[-1]) + 1
        self.label = label
        self.is_binary = bool(np.isin(label, (0.0, 1.0)).all())
        self.has_strata = self.is_binary and stratum is not None
        self._part, part_count = self.group, self.group_count
        if self.is_binary and stratum is not None:
            # A part is what a group has in a stratum; the parts are numbered stratum by stratum, in their order
            found, self._part = np.unique(stratum * self.group_count + self.group, return_inverse=True)
            self._bounds = np.searchsorted(found, np.arange(stratum.max(initial=-1) + 2) * self.group_count)
            self._by_group = np.argsort(found % self.group_count, kind="stable")  # the parts of a group side by side
            self._starts = np.searchsorted(found[self._by_group] % self.group_count, np.arange(self.group_count))
            part_count = len(found)
        self._part_count = part_count
        self._cell = 2 * self._part + label.astype(np.intp)  # (N,) wrong and right records of each part, if binary

    def sums(self, weight: Floats | None = None, best: RankedSums | None = None) -> RankedSums:
        """Return sums over groups under R sets of weights.

        Args:
            weight: (R, N) weight of each record, in the records' own order; None for one set of ones.
            best: those of the perfect ranking, by the labels, under the same weights.
        """
        if weight is None:
            weight = np.ones((1, len(self.label)))
        total = np.empty((len(weight), self._part_count))
        right = np.empty_like(total)
        for row, of_record in enumerate(weight):
            if self.is_binary:
                cells = np.bincount(self._cell, weights=of_record, minlength=2 * self._part_count).reshape(-1, 2)
                total[row], right[row] = cells.sum(axis=1), cells[:, 1]
            else:
                total[row] = np.bincount(self._part, weights=of_record, minlength=self._part_count)
                right[row] = np.bincount(self._part, weights=of_record * self.label, minlength=self._part_count)
        if not self.has_strata:
            return RankedSums(total, right, best)
        strata = [
            RankedSums(total[:, start:end], right[:, start:end]) for start, end in pairwise(self._bounds) if start < end
        ]
        of_groups = [np.add.reduceat(of[:, self._by_group], self._starts, axis=1) for of in (total, right)]
        return RankedSums(of_groups[0], of_groups[1], best, strata)


class RankedSums:
    """Sums over the G groups, from the most confident on, under R sets of weights.

    Args:
        group_total: (R, G) weight of all records in each group.
        group_right: (R, G) the same, weighted with the label.
        best: those of the perfect ranking of the same records; None for this one.
        strata: those of the records of each stratum; empty where there are none.
    """

    def __init__(
        self,
        group_total: Floats,
        group_right: Floats,
        best: RankedSums | None = None,
        strata: Sequence[RankedSums] = (),
    ) -> None:
        self.group_total = group_total
        self.group_right = group_right
        self.total = np.cumsum(group_total, axis=1)  # (R, G) down to and with each group
        self.right = np.cumsum(group_right, axis=1)
        self.all = self.total[:, -1]  # (R,)
        self.all_right = self.right[:, -1]
        self._best = best
        self.strata = strata

    @property
    def best(self) -> RankedSums:
        """Those of the perfect ranking."""
        return self if self._best is None else self._best  # itself as a field would wait for the garbage collector

    @cached_property
    def precision(self) -> Floats:
        """(R, G) mean label of all records down to each group; 0 before the first record that has weight."""
        return np.divide(self.right, self.total, out=np.zeros_like(self.total), where=self.total > 0)

    @cached_property
    def area(self) -> Floats:
        """(R,) the area under the risk–coverage curve, (1/N) Σ_k r_k in expectation over the order of ties.

        A group of g tied records after the first a, with mean error e and E errors before it, adds
        Σ_{k=a+1}^{a+g} (E + (k − a) e)/k = g e + (E − a e)(H_{a+g} − H_a), with H the harmonic numbers.
        The weights must be counts.
        """
        most = int(self.all.max())
        harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, most + 1))))  # (most + 1,)
        size, right = self.group_total, self.group_right
        # In terms of right instead of wrong: the curve of the mean label, 1 − r_k, has the same form.
        mean = np.divide(right, size, out=np.zeros_like(size), where=size > 0)
        before_total, before_right = self.total - size, self.right - right
        steps = np.diff(harmonic[self.total.astype(np.intp)], axis=1, prepend=0.0)
        area = right.sum(axis=1) + np.einsum("rg,rg->r", before_right - before_total * mean, steps)
        return np.asarray(1.0 - area / self.all)
