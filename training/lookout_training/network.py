"""The network in PyTorch. It computes the same numbers as llama.cpp's `qwen3vl` and `qwen3vl_merger` graphs.

Shapes use B = batch, N = tokens, P = patches, H = heads, D = width.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .audio_network import AudioTower
from .config import NetworkConfig


def rotate_half(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding with NEOX pairing (i, i + d/2). `x` (..., N, d); `cosine`, `sine` (..., N, d/2)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax attention. `query` (B, G, M, d), `key`, `value` (B, G, N, d), `bias` (B G, M, N) -> (B, G, M, d).

    Written out because PyTorch's fused CPU kernel is two to three times slower in bfloat16, forward and backward, at these sizes.
    """
    batch, groups, rows, width = query.shape
    # The small tensor is scaled, not the scores.
    query, key, value = (x.reshape(batch * groups, -1, width) for x in (query * width**-0.5, key, value))
    scores = torch.bmm(query, key.transpose(1, 2)) if bias is None else torch.baddbmm(bias, query, key.transpose(1, 2))
    return torch.bmm(scores.softmax(-1).to(value.dtype), value).view(batch, groups, rows, width)


def gelu(x: Tensor) -> Tensor:
    """GELU in its tanh form, (1 + tanh(y)) / 2 written as a sigmoid of 2 y: compiled for a CPU, twice as fast as PyTorch's own."""
    wide = x.float()
    return (wide * torch.sigmoid(2 * math.sqrt(2 / math.pi) * wide * (1 + 0.044715 * wide * wide))).to(x.dtype)


class VisionBlock(nn.Module):
    """Pre-norm transformer block with fused qkv, biases and tanh-GELU, as in ggml's Qwen3-VL vision graph."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.vision_width
        self.heads = config.vision_heads
        self.norm1 = nn.LayerNorm(width, eps=config.vision_norm_epsilon)
        self.norm2 = nn.LayerNorm(width, eps=config.vision_norm_epsilon)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, config.vision_feed_forward)
        self.down = nn.Linear(config.vision_feed_forward, width)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """`x` (B, P, D) -> (B, P, D)."""
        batch, patches, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, patches, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        cosine, sine = cosine.to(qkv.dtype), sine.to(qkv.dtype)
        query, key = rotate_half(query, cosine, sine), rotate_half(key, cosine, sine)
        attended = attend(query, key, value)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, patches, width))
        return x + self.down(gelu(self.up(self.norm2(x))))


def merge_order(grid: Tensor) -> Tensor:
    """Reorders a (rows, columns, ...) grid of patches into 2x2 block order, (rows * columns, ...)."""
    rows, columns = grid.shape[:2]
    rest = grid.shape[2:]
    blocks = grid.reshape(rows // 2, 2, columns // 2, 2, *rest).transpose(1, 2)
    return blocks.reshape(rows * columns, *rest)


@lru_cache(maxsize=64)
def vision_rotation(rows: int, columns: int, head_width: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine (P, head_width/2) of the 2D rotary angles [y f, x f], in 2x2 block order."""
    frequencies = 10_000.0 ** (-torch.arange(0, head_width // 2, 2).float() / (head_width // 2))
    y = torch.arange(rows).view(rows, 1).expand(rows, columns)
    x = torch.arange(columns).view(1, columns).expand(rows, columns)
    angles = [merge_order(axis).float()[:, None] * frequencies for axis in (y, x)]
    angle = torch.cat(angles, dim=1)
    return angle.cos(), angle.sin()


class VisionTower(nn.Module):
    """ViT with a learned absolute position table, and the 2x2 merger into the language model's width."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        width = config.vision_width
        # One kernel for a still image: llama.cpp sums two temporal kernels, so the export writes half of it twice.
        self.patch = nn.Linear(3 * config.patch**2, width)
        self.position = nn.Parameter(torch.zeros(config.position_grid**2, width))
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.vision_layers))
        self.post_norm = nn.LayerNorm(width, eps=config.vision_norm_epsilon)
        self.merge_in = nn.Linear(4 * width, config.merger_hidden)
        self.merge_out = nn.Linear(config.merger_hidden, config.width)

    def forward(self, images: Tensor) -> Tensor:
        """`images` (B, 3, height, width) normalised to -1..1, sides multiples of 32 -> (B, N, language width), row-major."""
        config = self.config
        batch, _, height, width = images.shape
        side = config.patch
        rows, columns = height // side, width // side
        patches = images.view(batch, 3, rows // 2, 2, side, columns // 2, 2, side)
        patches = patches.permute(0, 2, 5, 3, 6, 1, 4, 7).reshape(batch, rows * columns, 3 * side * side)
        x = self.patch(patches) + self.positions(rows, columns)
        cosine, sine = vision_rotation(rows, columns, config.vision_width // config.vision_heads)
        cosine, sine = cosine.to(x.device, x.dtype), sine.to(x.device, x.dtype)
        for block in self.blocks:
            x = block(x, cosine, sine)
        x = self.post_norm(x).reshape(batch, rows * columns // 4, 4 * config.vision_width)
        return self.merge_out(gelu(self.merge_in(x)))

    def positions(self, rows: int, columns: int) -> Tensor:
        """Position table (1, P, D), resized bilinearly with aligned corners to the patch grid, in 2x2 block order."""
        grid = self.config.position_grid
        table = self.position.view(1, grid, grid, -1).permute(0, 3, 1, 2)
        if (rows, columns) != (grid, grid):
            table = F.interpolate(table, size=(rows, columns), mode="bilinear", align_corners=True)
        return merge_order(table[0].permute(1, 2, 0))[None]


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in float32."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight, self.epsilon)


class DecoderBlock(nn.Module):
    """Grouped-query attention with q/k norms, then SwiGLU; no biases."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        width, head = config.width, config.head_width
        self.attention_norm = RMSNorm(width, config.norm_epsilon)
        self.feed_forward_norm = RMSNorm(width, config.norm_epsilon)
        self.query = nn.Linear(width, config.heads * head, bias=False)
        self.key = nn.Linear(width, config.key_value_heads * head, bias=False)
        self.value = nn.Linear(width, config.key_value_heads * head, bias=False)
        self.out = nn.Linear(config.heads * head, width, bias=False)
        self.query_norm = RMSNorm(head, config.norm_epsilon)
        self.key_norm = RMSNorm(head, config.norm_epsilon)
        self.gate = nn.Linear(width, config.feed_forward, bias=False)
        self.up = nn.Linear(width, config.feed_forward, bias=False)
        self.down = nn.Linear(config.feed_forward, width, bias=False)

    def scores(self, x: Tensor, cosine: Tensor, sine: Tensor, head: int) -> Tensor:
        """What one head's attention is the softmax of, before the mask: (B, N, N)."""
        config = self.config
        y = self.attention_norm(x)
        width = config.head_width
        shared = head // (config.heads // config.key_value_heads)
        query = F.linear(y, self.query.weight[head * width : (head + 1) * width])
        key = F.linear(y, self.key.weight[shared * width : (shared + 1) * width])
        cosine, sine = cosine[:, 0].to(key.dtype), sine[:, 0].to(key.dtype)
        query = rotate_half(self.query_norm(query).to(key.dtype), cosine, sine)
        key = rotate_half(self.key_norm(key).to(key.dtype), cosine, sine)
        return torch.bmm(query * width**-0.5, key.transpose(1, 2))

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor, bias: Tensor) -> Tensor:
        """`x` (B, N, D); `cosine`, `sine` (B, 1, N, head/2); `bias` (B G, H/G N, N) for G key/value heads, added to the attention scores."""
        config = self.config
        batch, tokens, _ = x.shape
        y = self.attention_norm(x)
        query = self.query(y).view(batch, tokens, config.heads, config.head_width)
        key = self.key(y).view(batch, tokens, config.key_value_heads, config.head_width)
        value = self.value(y).view(batch, tokens, config.key_value_heads, config.head_width).transpose(1, 2)
        cosine, sine = cosine.to(value.dtype), sine.to(value.dtype)  # Under autocast bfloat16, which is twice as fast.
        query = rotate_half(self.query_norm(query).to(value.dtype).transpose(1, 2), cosine, sine)
        key = rotate_half(self.key_norm(key).to(value.dtype).transpose(1, 2), cosine, sine)
        # Head h reads key/value head h // group: the heads of a group become more rows of one attention.
        group = config.heads // config.key_value_heads
        query = query.reshape(batch, config.key_value_heads, group * tokens, config.head_width)
        attended = attend(query, key, value, bias)
        attended = attended.view(batch, config.heads, tokens, config.head_width)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, -1))
        y = self.feed_forward_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


WatchedHeads = dict[tuple[int, int], Tensor | None]  # Layer and head -> its scores (B, N, N), once they are computed.


class LanguageModel(nn.Module):
    """Decoder with interleaved M-RoPE and a tied embedding."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.norm_epsilon)
        self.register_buffer("axis", torch.tensor(rope_axes(config)), persistent=False)
        frequencies = config.rope_theta ** (-torch.arange(0, config.head_width, 2).float() / config.head_width)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def hidden(self, x: Tensor, positions: Tensor, mask: Tensor, watched: WatchedHeads | None = None) -> Tensor:
        """`x` (B, N, D) embeddings; `positions` (B, 3, N) time, row, column; `mask` (B or 1, 1, N, N), True where attention is allowed -> (B, N, D) before the last norm.

        `watched`: layers and heads whose scores (see `DecoderBlock.scores`) are wanted; they take the place of its values.
        """
        unused = torch.zeros_like(positions[:, :1])
        four = torch.cat((positions, unused), dim=1).float()
        angle = four[:, self.axis].transpose(1, 2) * self.frequencies
        cosine, sine = angle.cos()[:, None], angle.sin()[:, None]
        lowest = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device).masked_fill(~mask, -1e9)
        bias = lowest.bfloat16() if torch.is_autocast_enabled(x.device.type) else lowest
        groups = self.config.key_value_heads
        bias = bias.expand(len(x), groups, -1, -1).repeat(1, 1, self.config.heads // groups, 1).flatten(0, 1)
        for index, block in enumerate(self.blocks):
            for layer, head in watched or ():
                if layer == index:
                    watched[layer, head] = block.scores(x, cosine, sine, head)
            x = block(x, cosine, sine, bias)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """`hidden` (..., D) -> (..., vocabulary)."""
        return F.linear(self.norm(hidden), self.embedding.weight)


def rope_axes(config: NetworkConfig) -> list[int]:
    """Which position (0 time, 1 row, 2 column, 3 unused) turns each rotary pair; ggml's interleaved M-RoPE."""
    time, row, column, _ = config.rope_sections
    axes = []
    for pair in range(config.head_width // 2):
        k = pair % sum(config.rope_sections)
        if k % 3 == 1 and k < 3 * row:
            axes.append(1)
        elif k % 3 == 2 and k < 3 * column:
            axes.append(2)
        elif k % 3 == 0 and k < 3 * time:
            axes.append(0)
        else:
            axes.append(3)
    return axes


class VisionLanguageModel(nn.Module):
    """The whole network."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.vision = VisionTower(config)
        self.audio: AudioTower | None = AudioTower(config)  # None in networks without audio.
        self.language = LanguageModel(config)


def initialise_vision(tower: VisionTower) -> None:
    """Initialises small random weights, and a sin-cos position table of the same magnitude as the patch embedding.

    A table that starts at std 0.02 is lost beside patches of std about 3, and coordinates are then never learned.
    """
    for name, parameter in tower.named_parameters():
        if name == "position":
            continue
        if parameter.dim() == 2:
            nn.init.trunc_normal_(parameter, std=0.03 if name.startswith("patch") else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    tower.position.data.copy_(sine_cosine_table(tower.config.position_grid, tower.config.vision_width))


def sine_cosine_table(grid: int, width: int, amplitude: float = 1.5) -> Tensor:
    """Position codes (grid * grid, width): half the width per axis, 0.25 to 4 periods across the image."""
    count = width // 4
    frequencies = torch.logspace(math.log10(0.25), math.log10(4.0), count)
    u = torch.arange(grid) / (grid - 1)
    angle = 2 * math.pi * u[:, None] * frequencies
    code = torch.cat((angle.sin(), angle.cos()), dim=1)
    rows = code[:, None, :].expand(grid, grid, 2 * count)
    columns = code[None, :, :].expand(grid, grid, 2 * count)
    return amplitude * torch.cat((rows, columns), dim=2).reshape(grid * grid, width)


def initialise_language(model: LanguageModel) -> None:
    """GPT-style initialisation: std 0.02, residual outputs scaled down by depth."""
    residual = 0.03 / math.sqrt(2 * model.config.layers)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            is_residual = name.endswith(("out.weight", "down.weight"))
            nn.init.normal_(parameter, std=residual if is_residual else 0.02)


def count_parameters(module: nn.Module) -> int:
    """Number of trainable values."""
    return sum(parameter.numel() for parameter in module.parameters())
