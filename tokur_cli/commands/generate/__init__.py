"""``tokur generate``: questions through a model, and its responses as records."""
