"""Backgrounds. Each painter returns an image and the colours that objects must contrast with."""

from __future__ import annotations

import random

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from .palette import Colour, clamp, jitter

Painted = tuple[Image.Image, list[Colour]]
PLAIN: list[Colour] = [
    (255, 255, 255),
    (255, 255, 255),
    (244, 243, 238),
    (205, 205, 205),
    (30, 30, 40),
    (0, 0, 0),
    (214, 228, 240),
    (250, 235, 215),
]


def any_colour(rng: random.Random) -> Colour:
    """A uniformly random colour or, half of the time, a common plain background colour."""
    if rng.random() < 0.5:
        return rng.choice(PLAIN)
    return rng.randrange(256), rng.randrange(256), rng.randrange(256)


def plain(rng: random.Random, width: int, height: int) -> Painted:
    colour = any_colour(rng)
    return Image.new("RGB", (width, height), colour), [colour]


def gradient(rng: random.Random, width: int, height: int) -> Painted:
    start = any_colour(rng)
    end = jitter(rng, start, 70)
    direction = rng.choice(("across", "down", "diagonal"))
    x, y = np.linspace(0, 1, width)[None, :], np.linspace(0, 1, height)[:, None]
    t = {"across": x + 0 * y, "down": y + 0 * x, "diagonal": (x + y) / 2}[direction][..., None]
    pixels = np.array(start) * (1 - t) + np.array(end) * t
    return Image.fromarray(pixels.astype(np.uint8)), [start, end]


def noise(rng: random.Random, width: int, height: int) -> Painted:
    colour = any_colour(rng)
    generator = np.random.default_rng(rng.getrandbits(32))
    grain = rng.choice((1, 2, 4, 8))
    shape = (height // grain + 1, width // grain + 1, rng.choice((1, 3)))
    offsets = generator.integers(-28, 29, shape).repeat(grain, 0).repeat(grain, 1)[:height, :width]
    pixels = np.clip(np.array(colour) + offsets, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels), [colour]


def stripes(rng: random.Random, width: int, height: int) -> Painted:
    first = any_colour(rng)
    second = jitter(rng, first, 60)
    period = rng.randint(8, 40)
    x, y = np.arange(width)[None, :], np.arange(height)[:, None]
    if rng.random() < 0.3:
        mask = (x // period + y // period) % 2 == 0
    else:
        a, b = rng.choice(((1, 0), (0, 1), (1, 1), (1, -1)))
        mask = ((a * x + b * y) // period) % 2 == 0
    pixels = np.where(mask[..., None], np.array(first), np.array(second)).astype(np.uint8)
    return Image.fromarray(pixels), [first, second]


def blobs(rng: random.Random, width: int, height: int) -> Painted:
    base = any_colour(rng)
    colours = [base]
    small = Image.new("RGB", (width // 4, height // 4), base)
    draw = ImageDraw.Draw(small)
    for _ in range(rng.randint(3, 8)):
        colour = jitter(rng, base, 70)
        x, y, radius = rng.uniform(0, width / 4), rng.uniform(0, height / 4), rng.uniform(4, 18)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
        colours.append(colour)
    blurred = small.filter(ImageFilter.GaussianBlur(rng.uniform(1.5, 5)))
    return blurred.resize((width, height), Image.Resampling.BICUBIC), colours


def horizon(rng: random.Random, width: int, height: int) -> Painted:
    """Sky over ground: two plain bands with a soft gradient in each."""
    sky = (clamp(rng.gauss(165, 30)), clamp(rng.gauss(205, 20)), clamp(rng.gauss(235, 15)))
    ground = rng.choice(((120, 165, 90), (205, 185, 140), (150, 150, 150), (90, 130, 70), (230, 232, 238)))
    ground = jitter(rng, ground, 20)
    line = rng.uniform(0.35, 0.75)
    y = np.linspace(0, 1, height)[:, None, None]
    pixels = np.where(y < line, np.array(sky) + 25 * y, np.array(ground) - 20 * (y - line))
    pixels = np.clip(np.broadcast_to(pixels, (height, width, 3)), 0, 255).astype(np.uint8)
    return Image.fromarray(pixels), [sky, ground]


def clouds(rng: random.Random, width: int, height: int) -> Painted:
    """Noise of several scales between two near colours: walls, water, lawns."""
    first = any_colour(rng)
    second = jitter(rng, first, 55)
    generator = np.random.default_rng(rng.getrandbits(32))
    total = np.zeros((height, width))
    for cells, strength in ((3, 1.0), (7, 0.6), (15, 0.4), (40, 0.25)):
        small = Image.fromarray((generator.random((cells, cells)) * 255).astype(np.uint8))
        total += strength * np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32) / 255
    t = np.clip((total / 2.25 - 0.3) / 0.4, 0, 1)[..., None]
    pixels = np.array(first) * (1 - t) + np.array(second) * t
    return Image.fromarray(pixels.astype(np.uint8)), [first, second]


PAINTERS = {plain: 42, gradient: 15, noise: 9, stripes: 9, blobs: 12, horizon: 7, clouds: 6}  # Weights.


def paint_background(rng: random.Random, width: int, height: int) -> Painted:
    """A random background of `width` x `height` pixels."""
    painter = rng.choices(list(PAINTERS), weights=list(PAINTERS.values()))[0]
    return painter(rng, width, height)
