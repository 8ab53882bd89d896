"""The audio tower's part of the projector file: metadata and tensors of llama.cpp's `qwen3a`."""

from __future__ import annotations

import torch.nn as nn
from gguf import GGUFWriter
from torch import Tensor

from .audio_network import AudioTower
from .config import NetworkConfig


def describe_audio_tower(writer: GGUFWriter, config: NetworkConfig) -> None:
    """The metadata of a projector file that llama.cpp reads for the audio tower."""
    writer.add_clip_has_audio_encoder(True)
    writer.add_clip_audio_projector_type("qwen3a")
    writer.add_audio_projection_dim(config.width)
    writer.add_audio_embedding_length(config.audio_width)
    writer.add_audio_feed_forward_length(config.audio_feed_forward)
    writer.add_audio_block_count(config.audio_layers)
    writer.add_audio_head_count(config.audio_heads)
    writer.add_audio_attention_layernorm_eps(config.audio_norm_epsilon)
    writer.add_audio_num_mel_bins(config.mel_bins)


def audio_tensors(tower: AudioTower) -> dict[str, Tensor]:
    """Tensors by llama.cpp's names."""
    tensors: dict[str, Tensor] = {"a.position_embd.weight": tower.time, "a.conv_out.weight": tower.flatten.weight}
    for index, convolution in enumerate(tower.convolutions, start=1):
        tensors[f"a.conv2d.{index}.weight"] = convolution.weight
        tensors[f"a.conv2d.{index}.bias"] = convolution.bias.view(-1, 1, 1)  # Added to (channels, rows, columns).
    layers: dict[str, nn.Module] = {"a.post_ln": tower.post_norm, "mm.a.mlp.1": tower.project_in, "mm.a.mlp.2": tower.project_out}
    for index, block in enumerate(tower.blocks):
        parts = {
            "ln1": block.norm1,
            "ln2": block.norm2,
            "attn_q": block.query,
            "attn_k": block.key,
            "attn_v": block.value,
            "attn_out": block.out,
            "ffn_up": block.up,
            "ffn_down": block.down,
        }
        layers |= {f"a.blk.{index}.{name}": part for name, part in parts.items()}
    for name, layer in layers.items():
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = layer.weight, layer.bias
    return tensors
