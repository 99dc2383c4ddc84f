"""Imports of the heavy libraries, quiet and without what no language model needs."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

_OPTIMISATION = "scipy.optimize"


def import_transformers() -> None:
    """Import transformers, without the libraries' advice and bars; ``TOKUR_DEBUG=1`` leaves everything on.

    SciPy's optimisation comes only when it is called for, which takes 0.3 s off a start: transformers' losses, which
    its models import, take one function from it, for object detectors.

    oneDNN and PyTorch keep 64 kernels each, compiled for a shape, in place of 1,024 of half a megabyte and more.
    """
    for cache in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(cache, "64")
    quiet = os.environ.get("TOKUR_DEBUG") != "1"
    for library in ("bitsandbytes", "torchao", "torch.utils._pytree", "accelerate") if quiet else ():
        logging.getLogger(library).setLevel(logging.ERROR)  # some warn when imported
    import accelerate  # noqa: F401  (before: whatever it imports sees SciPy as it is)
    import huggingface_hub.utils
    import transformers.utils.logging

    if quiet:
        hub: Any = huggingface_hub.utils
        own: Any = transformers.utils.logging
        hub.logging.set_verbosity_error()
        own.set_verbosity_error()
        own.disable_progress_bar()  # the hub's bars too, which stay where someone watches
        if sys.stderr.isatty():
            hub.enable_progress_bars()
    if _OPTIMISATION in sys.modules:
        return
    stand_in: Any = ModuleType(_OPTIMISATION)
    stand_in.linear_sum_assignment = lambda *of, **by: import_module(_OPTIMISATION).linear_sum_assignment(*of, **by)
    sys.modules[_OPTIMISATION] = stand_in
    with suppress(ImportError):  # another function, another place: the models import it as it is
        import transformers.loss.loss_utils
    del sys.modules[_OPTIMISATION]
