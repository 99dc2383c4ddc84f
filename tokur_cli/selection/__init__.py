"""Choosing one of N responses to a question: what is kept, how it votes, and who wins."""
