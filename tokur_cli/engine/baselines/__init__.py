"""What the baselines ask of a model: answers to yes-or-no questions, attention and states, encoders of text."""
