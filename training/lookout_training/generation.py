"""Greedy decoding in PyTorch: for the curves of stage 2 and the parity check. Simple, without a KV cache."""

from __future__ import annotations

import numpy as np
import torch

from .network import VisionLanguageModel
from .prompts import Position, Sample
from .running import images_to_tensor


def causal_mask(length: int) -> torch.Tensor:
    """(1, 1, N, N), True where attention is allowed."""
    return torch.ones(length, length, dtype=torch.bool).tril()[None, None]


@torch.no_grad()
def generate(
    network: VisionLanguageModel, prompts: list[Sample], pixels: np.ndarray, end: int, image_token: int, limit: int = 200, half: bool = True
) -> list[list[int]]:
    """Continues each prompt (one picture each, all of one size) until `end` or `limit` tokens. `pixels` (B, height, width, 3) uint8.

    `half` computes in bfloat16, as in training; the parity check wants float32.
    """
    rows: list[list[int]] = [list(prompt.identifiers) for prompt in prompts]
    positions: list[list[Position]] = [list(prompt.positions) for prompt in prompts]
    outputs: list[list[int]] = [[] for _ in prompts]
    active = list(range(len(prompts)))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        pictures = network.vision(images_to_tensor(pixels)).float()
        for _ in range(limit):
            length = max(len(rows[i]) for i in active)
            identifiers = torch.tensor([rows[i] + [0] * (length - len(rows[i])) for i in active])
            places = torch.tensor([positions[i] + [(0, 0, 0)] * (length - len(rows[i])) for i in active]).transpose(1, 2)
            x = network.language.embedding(identifiers)
            x[identifiers == image_token] = pictures[active].reshape(-1, pictures.shape[-1])
            hidden = network.language.hidden(x, places, causal_mask(length))
            last = torch.tensor([len(rows[i]) - 1 for i in active])
            chosen = network.language.logits(hidden[torch.arange(len(active)), last]).argmax(-1).tolist()
            for i, token in zip(list(active), chosen, strict=True):
                if token == end:
                    active.remove(i)
                    continue
                outputs[i].append(token)
                rows[i].append(token)
                positions[i].append((positions[i][-1][0] + 1,) * 3)
            if not active:
                break
    return outputs
