"""What several commands need: prompts, labels, the model, progress and how errors end a command."""
