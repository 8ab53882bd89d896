"""Stage 1: trains the vision tower alone, with dense heads."""

from __future__ import annotations

import argparse
import dataclasses
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

from .config import CONFIGS, HELD_OUT_SEED, NetworkConfig
from .dense import DenseHeads, DenseTargets, dense_counts, dense_loss, dense_metrics, dense_targets, stack_targets
from .network import VisionTower, initialise_vision
from .optimiser import Optimiser, hidden_matrices
from .running import (
    TrainingClock,
    TrainingRun,
    half_precision,
    images_to_tensor,
    load_checkpoint,
    prefetch,
    prepare_process,
    save_checkpoint,
)
from .world import TRAINING_WORLD, as_served, pick_size, render_scene

TEXT_HEAVY = 0.2  # Share of the images.


@dataclasses.dataclass
class Stage1Batch:
    pixels: np.ndarray  # (B, height, width, 3) uint8
    targets: DenseTargets


def make_batch(seed: int, size: int) -> Stage1Batch:
    """Makes `size` images of one common width and height."""
    rng = random.Random(seed * 7919 + 13)
    width, height = pick_size(rng)
    scenes = [as_served(render_scene(rng, width, height, rng.random() < TEXT_HEAVY, TRAINING_WORLD)) for _ in range(size)]
    return Stage1Batch(np.stack([pixels for pixels, _ in scenes]), stack_targets([dense_targets(scene) for _, scene in scenes]))


@torch.no_grad()
def evaluate(vision: VisionTower, heads: DenseHeads, batches: int = 8, size: int = 24) -> dict[str, float]:
    """Rates on held-out images."""
    total: dict[str, float] = {}
    for index in range(batches):
        batch = make_batch(HELD_OUT_SEED + index, size)
        with half_precision():
            tokens = vision(images_to_tensor(batch.pixels))
        for name, value in dense_counts(heads, tokens.float(), batch.targets).items():
            total[name] = total.get(name, 0.0) + value
    return dense_metrics(total)


class Stage1:
    """The model, the optimiser and the position in the schedule."""

    def __init__(self, config: NetworkConfig) -> None:
        torch.manual_seed(0)
        self.config = config
        self.vision = VisionTower(config)
        initialise_vision(self.vision)
        self.heads = DenseHeads(config.width)
        self.optimiser = Optimiser()
        matrices = hidden_matrices(self.vision)
        taken = {id(parameter) for parameter in matrices}
        self.parameters = [*self.vision.parameters(), *self.heads.parameters()]
        self.optimiser.add_muon(matrices, multiplier=12.0)
        self.optimiser.add_adamw([parameter for parameter in self.parameters if id(parameter) not in taken])
        self.step = 0
        self.seen = 0
        self.clock = TrainingClock()

    def save(self, path: Path) -> None:
        state = {
            "config": self.config.name,
            "vision": self.vision.state_dict(),
            "heads": self.heads.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "seen": self.seen,
            "seconds": self.clock.seconds,
        }
        save_checkpoint(path, state)

    def load(self, path: Path) -> None:
        state = load_checkpoint(path)
        self.vision.load_state_dict(state["vision"])
        self.heads.load_state_dict(state["heads"], strict=False)  # A head that was added since then starts untrained.
        try:
            self.optimiser.load_state_dict(state["optimiser"])
        except ValueError:
            print("optimiser state does not fit these heads: starting with a fresh one", flush=True)
        self.step, self.seen = state["step"], state["seen"]
        self.clock = TrainingClock(state["seconds"])


def run(arguments: argparse.Namespace) -> None:
    directory: Path = arguments.run_dir
    prepare_process(directory)
    checkpoint = directory / "stage1.pt"
    stage = Stage1(CONFIGS[arguments.config])
    if checkpoint.exists():
        stage.load(checkpoint)
    batches = prefetch(lambda step: make_batch(step, arguments.batch), stage.step)
    training = TrainingRun(stage, checkpoint, arguments.minutes * 60, arguments.report_seconds, lambda: _report(stage))
    while training.goes_on:
        batch = next(batches)
        with half_precision():
            tokens = stage.vision(images_to_tensor(batch.pixels))
        loss, parts = dense_loss(stage.heads, tokens.float(), batch.targets)
        stage.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(stage.parameters, 1.0)
        rate = training.learning_rate(arguments.learning_rate, arguments.decay)
        stage.optimiser.step(rate)
        training.end_step(len(batch.pixels), parts, rate)
    stage.save(checkpoint)
    print(f"stage 1 done: step {stage.step} seen {stage.seen} {stage.clock.seconds:.0f}s | {_report(stage, 24)}", flush=True)


def _report(stage: Stage1, batches: int = 8) -> str:
    return " ".join(f"{name}={value:.3f}" for name, value in evaluate(stage.vision, stage.heads, batches).items())
