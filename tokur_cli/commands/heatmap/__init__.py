"""``tokur heatmap``: the responses that are shown, and where the picture goes."""
