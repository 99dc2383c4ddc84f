"""Panels of the help, in which options stand together."""

MODEL, DECODING, GUIDED = "Model", "Decoding", "Guided"
POSTERIOR, STRENGTH, BASELINES = "Posterior", "Strength", "Baselines"
SELECTION, EVALUATION, CALIBRATION = "Selection", "Evaluation", "Calibration"
SCALE, CHOICE, PICTURE = "Scale", "Choice", "Picture"
INPUT, OUTPUT, WORKERS = "Input", "Output", "Workers"
