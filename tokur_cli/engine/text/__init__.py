"""Prompts and responses as token ids, chats as text."""
