"""Loads exported GGUF files into the network, the inverse of `export`. Training can continue from them without a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from .export import PATCH_KERNELS, STEPS_KEY, stored_tensors
from .gguf_files import read_number, read_tensors, stored_pair
from .network import VisionLanguageModel
from .running import on_device


@torch.no_grad()
def load_gguf(network: VisionLanguageModel, directory: Path) -> int:
    """Loads the weights of the pair of files in `directory`, of any type. Raises if a tensor is missing, unexpected or of another size.

    If the files have no audio tower, the network's tower stays unchanged. Returns the training steps of the weights, or 0 if unknown.
    """
    model, projector = stored_pair(directory)
    stored = {name: on_device(values) for name, values in (read_tensors(model) | read_tensors(projector)).items()}
    kernels = [stored.pop(name) for name in PATCH_KERNELS]
    network.vision.patch.weight.copy_(sum(kernels).view_as(network.vision.patch.weight))
    hears = any(name.startswith("a.") for name in stored)
    for name, parameter in stored_tensors(network).items():
        if hears or not name.startswith(("a.", "mm.a.")):
            parameter.copy_(stored.pop(name).view_as(parameter))
    if stored:
        raise ValueError(f"{directory}: unknown tensors {sorted(stored)}")
    return read_number(model, STEPS_KEY)
