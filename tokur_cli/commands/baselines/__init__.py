"""Scores that take more than the draws: what is asked of the model, and texts compared with each other."""
