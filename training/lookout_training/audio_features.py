"""The audio tower's input: the log-mel spectrogram of llama.cpp's `qwen3a` preprocessor. Does not need PyTorch.

The steps and constants are those of llama.cpp's tools/mtmd/mtmd-audio.cpp (mtmd_audio_preprocessor_qwen3a), which follows Whisper.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

SAMPLE_RATE = 16_000  # Hz.
WINDOW = 400  # Samples per Fourier transform.
HOP = 160  # Samples from one frame to the next.
CHUNK_FRAMES = 100  # The convolutions see one second at a time ...
CHUNK_TOKENS = 13  # ... and output this many tokens for it.
ENCODER_CHUNKS = 8  # Attention spans this many seconds. Longer audio is encoded in pieces.
POWER_FLOOR = 2.0**-24


@lru_cache(maxsize=4)
def mel_filters(bins: int) -> np.ndarray:
    """Slaney's triangular filters, normalised by area: (WINDOW / 2 + 1, bins)."""
    step = math.log(6.4) / 27

    def to_mel(hertz: float) -> float:
        return hertz * 3 / 200 if hertz < 1000 else 15 + math.log(hertz / 1000) / step

    def to_hertz(mel: float) -> float:
        return mel * 200 / 3 if mel < 15 else 1000 * math.exp((mel - 15) * step)

    top = to_mel(SAMPLE_RATE / 2)
    edges = [to_hertz(top * i / (bins + 1)) for i in range(bins + 2)]
    frequency = np.arange(WINDOW // 2 + 1) * SAMPLE_RATE / WINDOW
    filters = np.zeros((len(frequency), bins))
    for i in range(bins):
        low, centre, high = edges[i : i + 3]
        triangle = np.minimum((frequency - low) / (centre - low), (high - frequency) / (high - centre))
        filters[:, i] = np.maximum(0, triangle) * 2 / (high - low)
    return filters.astype(np.float32)


def log_mel(samples: np.ndarray, bins: int) -> np.ndarray:
    """Converts mono samples in -1..1 at SAMPLE_RATE, at least one, to (chunks, bins, CHUNK_FRAMES) float32; zeros pad the last chunk."""
    pad = WINDOW // 2
    # Both ends are mirrored. Where a clip is shorter than the padding, the rest is silence.
    head, tail = samples[pad:0:-1], samples[-2 : -pad - 2 : -1]
    padded = np.zeros(len(samples) + 2 * pad, np.float32)
    padded[pad - len(head) : pad] = head
    padded[pad : pad + len(samples)] = samples
    padded[pad + len(samples) : pad + len(samples) + len(tail)] = tail
    hann = 0.5 * (1 - np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP] * hann.astype(np.float32)
    spectrum = np.fft.rfft(frames, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    mel = np.log10(np.maximum(power @ mel_filters(bins), POWER_FLOOR))
    mel = (np.maximum(mel, mel.max() - 8) + 4) / 4
    count = min(len(mel), len(samples) // HOP + 1)
    chunks = np.zeros((chunk_count(len(samples)) * CHUNK_FRAMES, bins), np.float32)
    chunks[:count] = mel[:count]
    return np.ascontiguousarray(chunks.reshape(-1, CHUNK_FRAMES, bins).transpose(0, 2, 1))


def chunk_count(samples: int) -> int:
    """Number of one-second chunks, counted in frames: 16,000 samples are 101 frames and therefore two chunks."""
    return -(-(samples // HOP + 1) // CHUNK_FRAMES)


def token_count(samples: int) -> int:
    """Number of audio tokens for this many samples."""
    return chunk_count(samples) * CHUNK_TOKENS
