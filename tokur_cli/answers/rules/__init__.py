"""Grading by the rule of the data set that a row is of."""
