"""Which model is asked for, and how it is loaded; it imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")
"""Device maps that may divide a model among devices."""


@dataclass(frozen=True)
class ModelRequest:
    """A causal language model, by hub id, folder, GGUF file or the embedded default's name.

    Args:
        name: what the user typed; an adapter comes with the base that its config names.
        adapter: hub id or folder of an adapter that belongs on the model.
        quantize: ``4bit`` or ``8bit``, by which the weights are quantised while they are loaded; None leaves them.
        dtype: ``bfloat16``, ``float32``, ``float16``, or ``auto``: bfloat16 where it is fast, else float32.
        device_map: ``auto``, ``balanced``, ``balanced_low_0``, ``sequential`` or a torch device.
        offload_dir: folder for weights that devices and main memory have no room for, if their files are not of the
            dtype that is wanted; None keeps all where they are computed with.
        weights_memory: GiB of weights on each device, and in main memory, with ``offload_dir``; None for what is free.
        revision: a hub branch, tag or commit; only for hub ids.
        trust_remote_code: run the model's own Python code.
    """

    name: str
    adapter: str | None = None
    quantize: str | None = None
    dtype: str = "auto"
    device_map: str = "auto"
    offload_dir: str | None = None
    weights_memory: float | None = None
    revision: str | None = None
    trust_remote_code: bool = False
