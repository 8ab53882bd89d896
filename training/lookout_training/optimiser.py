"""Muon for hidden matrices, AdamW for everything else, driven by one learning rate."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from functools import cache

import torch
import torch.nn as nn
from torch import Tensor


@cache
def half_is_quicker() -> bool:
    """Whether matrix products are faster in bfloat16. Without instructions for it, a processor takes far longer than in float32."""
    if torch.get_default_device().type != "cpu":
        return True
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.ones(512, 512, dtype=dtype)
        matrix @ matrix  # The first product includes the preparation of the kernel.
        began = time.perf_counter()
        for _ in range(4):
            matrix @ matrix
        seconds[dtype] = time.perf_counter() - began
    return seconds[torch.bfloat16] < seconds[torch.float32]


@torch.no_grad()
def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Nearest (semi-)orthogonal matrices of (k, rows, columns) by quintic Newton-Schulz iterations, in bfloat16 where that is quicker (Muon, Jordan et al. 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16() if half_is_quicker() else matrices
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2).contiguous()
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.transpose(1, 2))
        # a x + (b gram + c gram gram) x, with the sums inside of the products.
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.transpose(1, 2) if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Momentum, then orthogonalised updates. A fused qkv matrix (rows = 3 columns) is treated as three."""

    def __init__(self, parameters: Iterable[nn.Parameter], momentum: float = 0.95, weight_decay: float = 0.02) -> None:
        super().__init__(parameters, {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            # Matrices of one shape are processed together: alone they are too small to keep a core busy.
            by_shape: defaultdict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "velocity" not in state:
                    state["velocity"] = torch.zeros_like(parameter)
                velocity = state["velocity"]
                velocity.mul_(group["momentum"]).add_(parameter.grad)
                update = parameter.grad.add(velocity, alpha=group["momentum"])
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parts = 3 if parameter.shape[0] == 3 * parameter.shape[1] else 1
                for target, part in zip(parameter.chunk(parts), update.chunk(parts), strict=True):
                    by_shape[part.shape].append((target, part))
            for (rows, columns), pairs in by_shape.items():
                scale = max(1.0, rows / columns) ** 0.5
                updates = orthogonalise(torch.stack([part for _, part in pairs]))
                for (target, _), update in zip(pairs, updates, strict=True):
                    target.add_(update, alpha=-group["lr"] * scale)


class Optimiser:
    """AdamW and Muon groups side by side; each group has a multiplier of the shared learning rate."""

    def __init__(self) -> None:
        self.members: list[torch.optim.Optimizer] = []

    def add_muon(self, parameters: list[nn.Parameter], multiplier: float) -> None:
        self._add(Muon(parameters), multiplier)

    def add_adamw(self, parameters: list[nn.Parameter], multiplier: float = 1.0) -> None:
        matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
        vectors = [parameter for parameter in parameters if parameter.dim() < 2]
        groups = [{"params": matrices, "weight_decay": 0.02}, {"params": vectors, "weight_decay": 0.0}]
        self._add(torch.optim.AdamW([group for group in groups if group["params"]], betas=(0.9, 0.98)), multiplier)

    def _add(self, member: torch.optim.Optimizer, multiplier: float) -> None:
        for group in member.param_groups:
            group["multiplier"] = multiplier
        self.members.append(member)

    def step(self, learning_rate: float) -> None:
        for member in self.members:
            for group in member.param_groups:
                group["lr"] = learning_rate * group["multiplier"]
            member.step()

    def zero_grad(self) -> None:
        for member in self.members:
            member.zero_grad(set_to_none=True)

    @property
    def multipliers(self) -> list[float]:
        """The multipliers of all groups, in order."""
        return [group["multiplier"] for member in self.members for group in member.param_groups]

    @multipliers.setter
    def multipliers(self, values: list[float]) -> None:
        for group, value in zip((group for member in self.members for group in member.param_groups), values, strict=True):
            group["multiplier"] = value

    def state_dict(self) -> list[dict]:
        return [member.state_dict() for member in self.members]

    def load_state_dict(self, states: list[dict]) -> None:
        for member, state in zip(self.members, states, strict=True):
            member.load_state_dict(state)


def hidden_matrices(module: nn.Module) -> list[nn.Parameter]:
    """The matrices that Muon optimises: all except embeddings, the patch embedding and the position table."""
    excluded = ("position", "patch.weight", "embedding.weight")
    return [p for name, p in module.named_parameters() if p.dim() == 2 and not name.endswith(excluded)]


def learning_rate(step: int, progress: float, peak: float, warm_up: int = 100, decay: float = 0.45, floor: float = 0.03) -> float:
    """Warm-up over the first `warm_up` steps since (re)start, constant, then linear decay to `floor` x peak over the last `decay` of `progress` (0..1)."""
    rising = min(1.0, (step + 1) / warm_up)
    falling = min(1.0, max(0.0, 1 - progress) / decay)
    return peak * rising * (falling * (1 - floor) + floor)
