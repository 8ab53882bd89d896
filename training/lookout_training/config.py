"""The sizes of the network. A checkpoint can be resumed only with the same configuration."""

from __future__ import annotations

from dataclasses import dataclass

HELD_OUT_SEED = 10**9  # Images from this seed up are never trained on.


@dataclass(frozen=True)
class NetworkConfig:
    """Hyper-parameters of a Qwen3-VL style network: ViT, 2x2 merger, decoder-only language model."""

    name: str
    # Vision transformer.
    vision_width: int
    vision_feed_forward: int
    vision_layers: int
    vision_heads: int
    position_grid: int  # The learned absolute position table is position_grid x position_grid.
    merger_hidden: int
    # Language model.
    width: int
    feed_forward: int
    layers: int
    heads: int
    key_value_heads: int
    head_width: int
    vocabulary: int
    # Shared by all sizes.
    patch: int = 16  # Pixels per patch side; one merged image token covers 2 x 2 patches.
    vision_norm_epsilon: float = 1e-6
    norm_epsilon: float = 1e-6
    rope_theta: float = 100_000.0
    rope_sections: tuple[int, int, int, int] = (11, 11, 10, 0)  # Rotary pairs for time, height, width, unused.
    context: int = 32_768  # Tokens, written into the GGUF metadata.
    # Audio tower.
    audio_width: int = 128
    audio_feed_forward: int = 512
    audio_layers: int = 4
    audio_heads: int = 4
    audio_channels: int = 32  # Channels of the convolutions.
    audio_norm_epsilon: float = 1e-5
    mel_bins: int = 80

    @property
    def merged_patch(self) -> int:
        """Side in pixels of the square that one image token covers."""
        return 2 * self.patch


NANO = NetworkConfig(
    name="nano",
    vision_width=192,
    vision_feed_forward=768,
    vision_layers=6,
    vision_heads=6,
    position_grid=16,
    merger_hidden=512,
    width=256,
    feed_forward=768,
    layers=6,
    heads=4,
    key_value_heads=2,
    head_width=64,
    vocabulary=2048,
)

# For a GPU; same code, not yet trained.
SMALL = NetworkConfig(
    name="small",
    vision_width=384,
    vision_feed_forward=1536,
    vision_layers=8,
    vision_heads=6,
    position_grid=24,
    merger_hidden=1024,
    width=512,
    feed_forward=1536,
    layers=8,
    heads=8,
    key_value_heads=4,
    head_width=64,
    vocabulary=2048,
    audio_width=256,
    audio_feed_forward=1024,
    audio_layers=6,
)

CONFIGS: dict[str, NetworkConfig] = {config.name: config for config in (NANO, SMALL)}
