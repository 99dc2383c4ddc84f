"""Scores: pure functions from per-token quantities to one number a response, and their catalogue."""
