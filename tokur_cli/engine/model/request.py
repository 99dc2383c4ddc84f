"""Which model is asked for, and how it is loaded; it imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")
"""Device maps that may divide a model among devices."""


@dataclass(frozen=True)
class ModelRequest:
    """A causal language model, by hub id, folder, GGUF file or the embedded default's name."""

    name: str  # what the user typed; an adapter comes with the base that its config names
    adapter: str | None = None  # hub id or folder of an adapter that belongs on the model
    # ``4bit`` or ``8bit``, by which the weights are quantised while they are loaded; None leaves them
    quantize: str | None = None
    dtype: str = "auto"  # ``bfloat16``, ``float32``, ``float16``, or ``auto``: bfloat16 where it is fast, else float32
    device_map: str = "auto"  # ``auto``, ``balanced``, ``balanced_low_0``, ``sequential`` or a torch device
    # Folder for weights that devices and main memory have no room for, if their files are not of the dtype that is
    # wanted; None keeps all where they are computed with
    offload_dir: str | None = None
    # GiB of weights on each device, and in main memory, with ``offload_dir``; None for what is free
    weights_memory: float | None = None
    revision: str | None = None  # a hub branch, tag or commit; only for hub ids
    trust_remote_code: bool = False  # run the model's own Python code
