"""Scores: pure functions from per-token quantities to one number per response, and their catalogue."""
