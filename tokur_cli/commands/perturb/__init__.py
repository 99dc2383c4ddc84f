"""``tokur perturb``: the posterior looked at, kept and tuned."""
