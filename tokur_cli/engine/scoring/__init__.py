"""From tokenized responses to per-token quantities."""
