"""Work shared among processes that hold the model, on one or many machines: Ray's actors."""
