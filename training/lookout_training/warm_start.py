"""Reads exported GGUF files back into the network, the inverse of `export`: training goes on where no checkpoint is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader

from .audio_export import audio_tensors
from .export import MODEL_FILE, PATCH_KERNELS, PROJECTOR_FILE, language_tensors, vision_tensors
from .network import VisionLanguageModel


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    """Name -> float32 values, flat."""
    return {tensor.name: torch.from_numpy(tensor.data.astype(np.float32).reshape(-1)) for tensor in GGUFReader(str(path)).tensors}


@torch.no_grad()
def load_gguf(network: VisionLanguageModel, directory: Path) -> None:
    """Takes the weights of the pair of f16 files in `directory`; raises where a tensor is missing, left over or of another size.

    Files without an audio tower leave the network's as it is.
    """
    stored = _tensors(directory / MODEL_FILE) | _tensors(directory / PROJECTOR_FILE)
    kernels = [stored.pop(name) for name in PATCH_KERNELS]
    network.vision.patch.weight.copy_(sum(kernels).view_as(network.vision.patch.weight))
    wanted = language_tensors(network.language) | vision_tensors(network.vision)
    if network.audio and any(name.startswith("a.") for name in stored):
        wanted |= audio_tensors(network.audio)
    for name, parameter in wanted.items():
        parameter.copy_(stored.pop(name).view_as(parameter))
    if stored:
        raise ValueError(f"{directory}: unknown tensors {sorted(stored)}")
