"""One set of forward passes under all draws, and the per-token quantities that come of it."""
