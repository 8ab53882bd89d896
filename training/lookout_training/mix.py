"""Averages a checkpoint with exported weights, tensor by tensor, to keep what the end of a run has gained and lose less of the rest."""

from __future__ import annotations

import argparse

import torch

from .config import CONFIGS
from .export import load_network, stored_tensors
from .running import load_checkpoint, save_checkpoint
from .warm_start import load_gguf


@torch.no_grad()
def run(arguments: argparse.Namespace) -> None:
    """Writes a checkpoint of the mixed network for `export` and `parity`. Training cannot continue from it: it has no optimiser state."""
    checkpoint = arguments.checkpoint or arguments.run_dir / "stage2.pt"
    config = CONFIGS[arguments.config]
    network, other = load_network(checkpoint, config), load_network(checkpoint, config)
    load_gguf(other, arguments.with_gguf)
    theirs = stored_tensors(other) | {"patch": other.vision.patch.weight}
    for name, parameter in (stored_tensors(network) | {"patch": network.vision.patch.weight}).items():
        parameter.lerp_(theirs[name], 1 - arguments.share)
    save_checkpoint(arguments.output, {"config": config.name, "network": network.state_dict(), "step": load_checkpoint(checkpoint)["step"]})
    print(f"{arguments.output}: {arguments.share:g} of {checkpoint}, the rest of {arguments.with_gguf}")
