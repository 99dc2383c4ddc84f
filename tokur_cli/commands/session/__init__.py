"""A model at work: the session that owns it, and the jobs that commands and the Python API give it."""
