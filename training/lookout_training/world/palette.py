"""Named colours and their distances."""

from __future__ import annotations

import random

Colour = tuple[int, int, int]  # RGB, 0..255.

COLOURS: dict[str, Colour] = {
    "red": (218, 38, 38),
    "green": (40, 160, 60),
    "blue": (45, 85, 222),
    "yellow": (242, 216, 40),
    "orange": (245, 138, 25),
    "purple": (135, 50, 172),
    "pink": (245, 130, 188),
    "brown": (125, 75, 38),
    "black": (22, 22, 22),
    "white": (248, 248, 248),
    "gray": (132, 132, 132),
}
# The colours that CSS, drawing libraries and style guides give these names. People who try a model draw with them.
SHADES: dict[str, tuple[Colour, ...]] = {
    "red": ((255, 0, 0), (220, 20, 60), (239, 68, 68), (244, 67, 54), (231, 76, 60), (204, 0, 0)),
    "green": ((0, 128, 0), (0, 255, 0), (34, 139, 34), (46, 204, 113), (76, 175, 80), (34, 197, 94), (50, 205, 50), (0, 100, 0)),
    "blue": ((0, 0, 255), (0, 0, 255), (30, 144, 255), (33, 150, 243), (59, 130, 246), (52, 152, 219), (65, 105, 225), (0, 0, 205), (0, 0, 139)),
    "yellow": ((255, 255, 0), (255, 255, 0), (255, 215, 0), (255, 235, 59), (250, 204, 21), (241, 196, 15)),
    "orange": ((255, 165, 0), (255, 140, 0), (255, 152, 0), (249, 115, 22), (230, 126, 34)),
    "purple": ((128, 0, 128), (156, 39, 176), (168, 85, 247), (155, 89, 182), (148, 0, 211), (102, 51, 153)),
    "pink": ((255, 192, 203), (255, 105, 180), (236, 72, 153), (244, 143, 177), (255, 182, 193)),
    "brown": ((165, 42, 42), (139, 69, 19), (160, 82, 45), (101, 67, 33)),
    "black": ((0, 0, 0), (0, 0, 0), (33, 33, 33)),
    "white": ((255, 255, 255), (255, 255, 255), (250, 250, 250)),
    "gray": ((128, 128, 128), (128, 128, 128), (158, 158, 158), (105, 105, 105), (169, 169, 169), (107, 114, 128)),
}
SHADE_JITTER = 6  # Small, because some of them are between two of COLOURS.
COLOUR_NAMES: list[str] = list(COLOURS)
CONTRAST = 140  # Smallest sum of channel differences between an object and its background.


def distance(a: Colour, b: Colour) -> int:
    """Sum of absolute channel differences, 0..765."""
    return sum(abs(x - y) for x, y in zip(a, b, strict=True))


def clamp(value: float) -> int:
    """Nearest channel value in 0..255."""
    return max(0, min(255, round(value)))


def jitter(rng: random.Random, colour: Colour, amount: int) -> Colour:
    """Moves each channel by at most `amount`."""
    red, green, blue = (clamp(value + rng.randint(-amount, amount)) for value in colour)
    return red, green, blue


def visible_on(backgrounds: list[Colour]) -> list[str]:
    """Names of the colours that contrast with all of the background colours."""
    return [name for name, colour in COLOURS.items() if all(distance(colour, other) > CONTRAST for other in backgrounds)]


def shade(rng: random.Random, name: str, backgrounds: list[Colour]) -> Colour:
    """One of the colour's SHADES that contrasts with all backgrounds; the colour itself if none does."""
    visible = [colour for colour in SHADES[name] if all(distance(colour, other) > CONTRAST for other in backgrounds)]
    return jitter(rng, rng.choice(visible or [COLOURS[name]]), SHADE_JITTER)
