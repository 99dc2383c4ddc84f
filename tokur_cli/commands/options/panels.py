"""Panels of the help, in which options stand together."""

MODEL, DECODING, POSTERIOR, STRENGTH, BASELINES = "Model", "Decoding", "Posterior", "Strength", "Baselines"
SELECTION, EVALUATION = "Selection", "Evaluation"
SCALE, CHOICE, PICTURE = "Scale", "Choice", "Picture"
INPUT, OUTPUT, WORKERS = "Input", "Output", "Workers"
