"""tokur: where in this answer is the model unsure, and which of these answers should I trust?"""

__version__ = "0.1.0"
