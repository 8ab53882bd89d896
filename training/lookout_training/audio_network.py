"""The audio tower in PyTorch. It computes the same numbers as llama.cpp's `qwen3a` graph."""

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .audio_features import CHUNK_TOKENS, ENCODER_CHUNKS
from .config import NetworkConfig


class AudioBlock(nn.Module):
    """Pre-norm transformer block with biases and exact GELU."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.audio_width
        self.heads = config.audio_heads
        self.norm1 = nn.LayerNorm(width, eps=config.audio_norm_epsilon)
        self.norm2 = nn.LayerNorm(width, eps=config.audio_norm_epsilon)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, config.audio_feed_forward)
        self.down = nn.Linear(config.audio_feed_forward, width)

    def forward(self, x: Tensor) -> Tensor:
        """`x` (B, N, D) -> (B, N, D)."""
        batch, tokens, width = x.shape
        y = self.norm1(x)
        query, key, value = (
            layer(y).view(batch, tokens, self.heads, width // self.heads).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5
        attended = scores.softmax(-1).to(value.dtype) @ value
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class AudioTower(nn.Module):
    """Convolutions over one second at a time, a transformer over up to ENCODER_CHUNKS seconds, and a projector to the model's width."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        width, channels = config.audio_width, config.audio_channels
        self.convolutions = nn.ModuleList(nn.Conv2d(1 if i == 0 else channels, channels, 3, stride=2, padding=1) for i in range(3))
        self.flatten = nn.Linear(channels * config.mel_bins // 8, width, bias=False)
        self.blocks = nn.ModuleList(AudioBlock(config) for _ in range(config.audio_layers))
        self.post_norm = nn.LayerNorm(width, eps=config.audio_norm_epsilon)
        self.project_in = nn.Linear(width, width)
        self.project_out = nn.Linear(width, config.width)
        self.register_buffer("time", sinusoids(CHUNK_TOKENS, width), persistent=False)

    def forward(self, mel: Tensor) -> Tensor:
        """`mel` (B, chunks, bins, 100) -> (B, 13 chunks, language width)."""
        hidden = [self.hidden(piece) for piece in mel.split(ENCODER_CHUNKS, dim=1)]
        return self.project(torch.cat(hidden, dim=1))

    def hidden(self, mel: Tensor) -> Tensor:
        """`mel` (B, chunks, bins, 100), at most ENCODER_CHUNKS chunks -> (B, 13 chunks, audio width), before the last norm."""
        batch, chunks, bins, frames = mel.shape
        x = mel.reshape(batch * chunks, 1, bins, frames)
        for convolution in self.convolutions:
            x = F.gelu(convolution(x))
        x = x.permute(0, 3, 1, 2).flatten(2)  # (B chunks, 13, channels x bins / 8)
        x = (self.flatten(x) + self.time).reshape(batch, chunks * CHUNK_TOKENS, -1)
        for block in self.blocks:
            x = block(x)
        return x

    def project(self, hidden: Tensor) -> Tensor:
        """(..., audio width) -> (..., language width)."""
        return self.project_out(F.gelu(self.project_in(self.post_norm(hidden))))


def encode_clips(tower: AudioTower, clips: list[Tensor]) -> list[Tensor]:
    """Encodes spectrograms (chunks, bins, 100) to tokens (13 chunks, language width). Spectrograms of equal length share a pass."""
    encoded: dict[int, Tensor] = {}
    for chunks in sorted({len(clip) for clip in clips}):
        places = [i for i, clip in enumerate(clips) if len(clip) == chunks]
        encoded.update(zip(places, tower(torch.stack([clips[i] for i in places])), strict=True))
    return [encoded[i] for i in range(len(clips))]


def sinusoids(length: int, width: int) -> Tensor:
    """Whisper's position embeddings (length, width): sines, then cosines, with wavelengths from 2 pi to 20,000 pi."""
    frequencies = torch.exp(-math.log(10_000) / (width // 2 - 1) * torch.arange(width // 2).float())
    angle = torch.arange(length)[:, None] * frequencies
    return torch.cat((angle.sin(), angle.cos()), dim=1)


def initialise_audio(tower: AudioTower) -> None:
    """Initialises the weights with small random numbers; convolutions keep the variance of their input."""
    for module in tower.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
