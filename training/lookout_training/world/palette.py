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
    """Names of the colours that stand out from every one of the background colours."""
    return [name for name, colour in COLOURS.items() if all(distance(colour, other) > CONTRAST for other in backgrounds)]
