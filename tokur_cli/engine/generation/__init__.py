"""Responses generated from prompts, in a batch that is refilled as they end."""
