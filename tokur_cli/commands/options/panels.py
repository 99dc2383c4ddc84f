"""Panels of the help, in which options stand together."""

MODEL, DECODING, GUIDED = "Model", "Decoding", "Guided"
POSTERIOR, STRENGTH, BASELINES = "Posterior", "Strength", "Baselines"
SELECTION, EVALUATION, CALIBRATION, CERTIFICATE = "Selection", "Evaluation", "Calibration", "Certificate"
SCALE, CHOICE, PICTURE = "Scale", "Choice", "Picture"
INPUT, OUTPUT, WORKERS = "Input", "Output", "Workers"
