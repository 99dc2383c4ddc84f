"""Answers: extraction, canonical form, equivalence, labels and code execution."""
