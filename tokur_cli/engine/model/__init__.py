"""From a model's name to its weights and tokenizer in memory."""
