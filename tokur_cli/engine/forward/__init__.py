"""One pass of the model under its mean weights and all draws."""
