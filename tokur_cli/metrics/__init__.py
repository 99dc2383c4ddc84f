"""Metrics: how well a confidence tells right from wrong, with what chance and choice of records do to the figures.

Every function takes confidences (higher is better) and labels: 1 for right, 0 for wrong, a quality in between where the
labels are graded.
"""
