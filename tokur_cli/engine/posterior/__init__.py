"""The low-rank Gaussian posterior: its basis and noise, kept in a folder, exported as adapters, calibrated."""
