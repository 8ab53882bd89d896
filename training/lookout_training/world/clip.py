"""Short frame sequences: things appear, disappear and move over one background."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from .backgrounds import paint_background
from .emoji import EMOJI_NAMES, emoji_picture
from .palette import COLOURS, jitter, visible_on
from .shapes import OUTLINES, RING_WIDTH, ROUND, SHAPES, outline

FRAME_SIZES = ((128, 128), (160, 128), (128, 160), (160, 160), (192, 128), (192, 160))  # 16..30 merged tokens.
INTERVALS = (0.25, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 2.0, 3.0, 5.0)  # Seconds between two frames.
MOST_FRAMES = 12
DIRECTIONS = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1)}


@dataclass(frozen=True)
class Actor:
    """A thing that is visible from frame `first` to frame `last`, inclusive."""

    name: str
    first: int
    last: int
    direction: str | None = None  # Of its movement.


@dataclass(frozen=True)
class Clip:
    """The frame times in seconds and what happens."""

    times: tuple[float, ...]
    actors: tuple[Actor, ...]

    @property
    def pairs(self) -> list[tuple[int, ...]]:
        """The frames that the network sees together: in pairs, with an odd last one alone."""
        return [tuple(range(i, min(i + 2, len(self.times)))) for i in range(0, len(self.times), 2)]

    def pair_time(self, pair: tuple[int, ...]) -> float:
        """Mean time of the pair's frames."""
        return sum(self.times[i] for i in pair) / len(pair)


def random_clip(rng: random.Random) -> Clip:
    """Draws times and actors. At most one actor moves, and at least one appears or disappears."""
    count = rng.randint(2, MOST_FRAMES)
    interval = rng.choice(INTERVALS)
    start = 0.0 if rng.random() < 0.85 else rng.randint(1, 40) / 2
    times = tuple(round(start + i * interval, 3) for i in range(count))
    names = [f"{rng.choice(list(COLOURS))} {rng.choice(SHAPES)}" if rng.random() < 0.6 else rng.choice(EMOJI_NAMES) for _ in range(rng.randint(1, 3))]
    actors: list[Actor] = []
    for name in dict.fromkeys(names):
        whole = rng.random() < 0.2
        first, last = (0, count - 1) if whole else sorted((rng.randrange(count), rng.randrange(count)))
        moves = last - first >= 2 and rng.random() < 0.35 and not any(actor.direction for actor in actors)
        actors.append(Actor(name, first, last, rng.choice(list(DIRECTIONS)) if moves else None))
    return Clip(times, tuple(actors))


def render_clip(rng: random.Random, width: int, height: int) -> tuple[list[np.ndarray], Clip]:
    """All frames (height, width, 3) uint8, and what they show."""
    while True:
        background, grounds = paint_background(rng, width, height)
        colours = visible_on(grounds)
        clip = random_clip(rng)
        if all(actor.name.split()[0] in colours for actor in clip.actors if " " in actor.name):
            break
    stencils = [_stencil(rng, actor.name, rng.uniform(0.2, 0.36) * min(width, height)) for actor in clip.actors]
    paths = [_path(rng, actor, stencil, width, height) for actor, stencil in zip(clip.actors, stencils, strict=True)]
    frames = []
    for index in range(len(clip.times)):
        frame = background.copy()
        for actor, stencil, path in zip(clip.actors, stencils, paths, strict=True):
            if actor.first <= index <= actor.last:
                t = (index - actor.first) / max(1, actor.last - actor.first)
                x, y = (a + (b - a) * t for a, b in zip(*path, strict=True))
                frame.paste(stencil, (round(x), round(y)), stencil)
        frames.append(np.asarray(frame))
    return frames, clip


def _path(rng: random.Random, actor: Actor, stencil: Image.Image, width: int, height: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """The first and the last position of the top left corner."""
    room = max(1, width - stencil.width), max(1, height - stencil.height)
    start = [rng.uniform(0, value) for value in room]
    end = list(start)
    if actor.direction:
        for axis, sign in enumerate(DIRECTIONS[actor.direction]):
            if sign:
                low, high = rng.uniform(0, 0.2) * room[axis], rng.uniform(0.8, 1) * room[axis]
                start[axis], end[axis] = (low, high) if sign > 0 else (high, low)
    return (start[0], start[1]), (end[0], end[1])


def _stencil(rng: random.Random, name: str, extent: float) -> Image.Image:
    """An RGBA image of one actor."""
    if " " not in name:
        return emoji_picture(rng, name, extent)
    colour, kind = name.split()
    scale = 3
    radius = extent * scale / 2
    picture = Image.new("RGBA", (round(2 * radius) + 2,) * 2)
    draw = ImageDraw.Draw(picture)
    fill = (*jitter(rng, COLOURS[colour], 14), 255)
    centre = radius + 1
    if kind in ROUND:
        box = (1, 1, 2 * radius, 2 * radius)
        if kind == "ring":
            draw.ellipse(box, outline=fill, width=round(radius * RING_WIDTH))
        else:
            draw.ellipse(box, fill=fill)
    else:
        assert kind in OUTLINES
        draw.polygon(outline(kind, centre, centre, radius, 0.0), fill=fill)
    return picture.resize((max(1, picture.width // scale),) * 2, Image.Resampling.BOX)
