"""Simple greedy decoding in PyTorch, without a KV cache, for the curves of stage 2 and the parity check."""

from __future__ import annotations

import numpy as np
import torch

from .audio_network import encode_clips
from .network import VisionLanguageModel
from .prompts import Position, Sample
from .running import half_precision, images_to_tensor, on_device


def causal_mask(length: int) -> torch.Tensor:
    """(1, 1, N, N), True where attention is allowed."""
    return torch.ones(length, length, dtype=torch.bool).tril()[None, None]


@torch.no_grad()
def generate(
    network: VisionLanguageModel,
    prompts: list[Sample],
    pixels: np.ndarray | None,
    end: int,
    image_token: int,
    limit: int = 200,
    half: bool = True,
    audio_token: int = -1,
    recorded: list[torch.Tensor] | None = None,
) -> list[list[int]]:
    """Continues each prompt until `end` or `limit` tokens. `pixels` (B, height, width, 3) uint8: one picture each, all of one size, or none.

    Sounds are those of the prompts. `half` computes as in training (`half_precision`); the parity check wants float32.
    `recorded` receives the logits of each step, (prompts that have not ended, vocabulary).
    """
    rows: list[list[int]] = [list(prompt.identifiers) for prompt in prompts]
    positions: list[list[Position]] = [list(prompt.positions) for prompt in prompts]
    outputs: list[list[int]] = [[] for _ in prompts]
    active = list(range(len(prompts)))
    with half_precision(half):
        pictures = None if pixels is None else network.vision(images_to_tensor(pixels)).float()
        heard = [encode_clips(network.audio, [on_device(clip) for clip in prompt.clips]) if network.audio else [] for prompt in prompts]
        for _ in range(limit):
            length = max(len(rows[i]) for i in active)
            identifiers = torch.tensor([rows[i] + [0] * (length - len(rows[i])) for i in active])
            places = torch.tensor([positions[i] + [(0, 0, 0)] * (length - len(rows[i])) for i in active]).transpose(1, 2)
            x = network.language.embedding(identifiers)
            if pictures is not None:
                x[identifiers == image_token] = pictures[active].reshape(-1, pictures.shape[-1])
            clips = [clip.float() for i in active for clip in heard[i]]
            if clips:
                x[identifiers == audio_token] = torch.cat(clips)
            hidden = network.language.hidden(x, places, causal_mask(length))
            last = torch.tensor([len(rows[i]) - 1 for i in active])
            logits = network.language.logits(hidden[torch.arange(len(active)), last])
            if recorded is not None:
                recorded.append(logits)
            chosen = logits.argmax(-1).tolist()
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
