"""The vote by comparing everything with everything."""

import math
from fractions import Fraction


def oracle_weight(how, confidence, kept):
    if how == "exp":
        return Fraction(math.exp(confidence - max(kept)))
    below = sum(other < confidence for other in kept)
    equal = sum(other == confidence for other in kept)
    return below + Fraction(equal + 1, 2)


def oracle_choice(responses, rule):
    """The chosen response by comparing everything with everything; responses are (sample, confidence, label)."""

    def ahead(first, second):
        key = [(-math.inf if r[1] is None else r[1], -r[0]) for r in (first, second)]
        return key[0] > key[1]

    share, minimum, with_score = rule.keep.fraction, rule.keep.minimum, [r for r in responses if r[1] is not None]
    size = next(k for k in range(len(responses) + 1) if Fraction(k) >= share * len(with_score))
    if rule.method == "maj":
        size = len(responses) if share == 1 else max(size, minimum) if with_score else 0
    else:
        size = min(len(with_score), max(size, minimum))
    kept = [r for r in responses if sum(ahead(other, r) for other in responses) < size]
    if not kept:
        return None
    if rule.method == "bon":
        answering = [r for r in kept if r[2] is not None] or kept
        return next(r[0] for r in answering if not any(ahead(other, r) for other in answering))
    values = [r[1] for r in kept if r[1] is not None]
    weight = {r[0]: Fraction(1) if rule.method == "maj" else oracle_weight(rule.weight, r[1], values) for r in kept}

    def beats(one, other):
        if (one is None) != (other is None):
            return other is None
        totals = [float(sum(weight[r[0]] for r in kept if r[2] == label)) for label in (one, other)]
        if totals[0] != totals[1]:
            return totals[0] > totals[1]
        return any(r[2] == one and all(ahead(r, o) for o in kept if o[2] == other) for r in kept)

    labels = {r[2] for r in kept}
    winner = next(one for one in labels if all(beats(one, other) for other in labels - {one}))
    carriers = [r for r in kept if r[2] == winner]
    return next(r[0] for r in carriers if not any(ahead(other, r) for other in carriers))
