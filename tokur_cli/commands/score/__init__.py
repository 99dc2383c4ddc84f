"""``tokur score``: records through tokenizer, scorer and baselines, and back in their order."""
