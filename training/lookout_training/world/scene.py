"""Scenes: which objects stand where, and the picture of them. The same seed always gives the same scene."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from . import shapes
from .backgrounds import paint_background
from .palette import COLOURS, Colour, jitter, visible_on
from .text import FONTS, load_font, random_text

OVERSAMPLING = 2  # Shapes are drawn this much larger, then averaged down.
MARGIN = 2  # Pixels between the boxes of two objects.
Box = tuple[float, float, float, float]  # Left, top, right, bottom in pixels.

# (width, height) in pixels, multiples of 32, 36..64 merged tokens; weights favour the cheap ones.
PICTURE_SIZES: dict[tuple[int, int], int] = {
    (192, 192): 8, (224, 192): 5, (192, 224): 5, (224, 224): 6, (256, 192): 5, (192, 256): 5, (256, 160): 3, (160, 256): 3,
    (256, 224): 3, (224, 256): 3, (256, 256): 6, (288, 160): 2, (160, 288): 2, (288, 192): 2, (192, 288): 2,
    (320, 192): 2, (192, 320): 2, (320, 128): 1, (128, 320): 1, (416, 128): 1, (128, 416): 1,
}  # fmt: skip


@dataclass(frozen=True)
class Character:
    """One printed character and the horizontal span of its advance, in pixels."""

    glyph: str
    left: float
    right: float


@dataclass(frozen=True)
class SceneObject:
    """Something that can be named, counted and boxed."""

    kind: str  # One of SHAPES, or "text".
    colour: str
    box: Box
    radius: float = 0.0  # Of a shape, in pixels.
    text: str | None = None
    characters: tuple[Character, ...] = ()

    @property
    def centre(self) -> tuple[float, float]:
        left, top, right, bottom = self.box
        return (left + right) / 2, (top + bottom) / 2

    @property
    def area(self) -> float:
        left, top, right, bottom = self.box
        return (right - left) * (bottom - top)

    @property
    def name(self) -> str:
        """Colour and kind, "red circle"."""
        return f"{self.colour} {self.kind}"


@dataclass
class Scene:
    """A picture's size and its objects, ordered left to right."""

    width: int
    height: int
    objects: list[SceneObject] = field(default_factory=list)

    @property
    def shapes(self) -> list[SceneObject]:
        return [item for item in self.objects if item.kind != "text"]

    @property
    def texts(self) -> list[SceneObject]:
        return [item for item in self.objects if item.kind == "text"]


def pick_size(rng: random.Random) -> tuple[int, int]:
    """Width and height of a picture."""
    return rng.choices(list(PICTURE_SIZES), weights=list(PICTURE_SIZES.values()))[0]


def render_scene(rng: random.Random, width: int, height: int, text_heavy: bool = False) -> tuple[np.ndarray, Scene]:
    """Draws a random scene with at least one object. Returns pixels (height, width, 3) uint8 and what they show."""
    while True:
        background, grounds = paint_background(rng, width, height)
        colours = visible_on(grounds)
        if len(colours) >= 3:
            painter = _Painter(rng, background, colours)
            painter.fill(text_heavy)
            if painter.objects:
                break
    objects = sorted(painter.objects, key=lambda item: item.centre)
    return _degrade(rng, painter.finish()), Scene(width, height, objects)


class _Painter:
    """Places objects without overlap: shapes on an enlarged canvas first, then text at final size."""

    def __init__(self, rng: random.Random, background: Image.Image, colours: list[str]) -> None:
        self.rng = rng
        self.width, self.height = background.size
        self.colours = colours
        scale = OVERSAMPLING
        self.canvas = background.resize((self.width * scale, self.height * scale), Image.Resampling.NEAREST)
        self.draw = ImageDraw.Draw(self.canvas)
        self.objects: list[SceneObject] = []
        self.pending_text: list[tuple[float, float, str, object, Colour]] = []

    def fill(self, text_heavy: bool) -> None:
        rng = self.rng
        if text_heavy:
            for _ in range(rng.randint(2, 8)):
                self.add_text(minimum=11, maximum=32)
            for _ in range(rng.randint(0, 2)):
                self.add_shape(rng.choice(shapes.SHAPES), rng.choice(self.colours))
            return
        if rng.random() < 0.4:
            for _ in range(rng.choice((1, 1, 2))):
                self.add_text(minimum=14, maximum=36)
        count = rng.choices((1, 2, 3, 4, 5, 6, 7), weights=(10, 16, 18, 18, 15, 12, 11))[0]
        # Repeated kinds and colours make counting and "all the red ones" worth asking.
        kinds, colours = shapes.SHAPES, self.colours
        if rng.random() < 0.45:
            kinds = rng.sample(kinds, rng.randint(1, 3))
        if rng.random() < 0.35:
            colours = rng.sample(colours, rng.randint(1, min(3, len(colours))))
        for _ in range(count):
            self.add_shape(rng.choice(kinds), rng.choice(colours))

    def add_shape(self, kind: str, colour: str) -> None:
        rng = self.rng
        short_side = min(self.width, self.height)
        radius = max(9.0, rng.uniform(0.065, 0.20) * short_side)
        degrees = rng.uniform(-20, 20) if rng.random() < 0.4 else 0.0
        centre = self._place(2 * radius, 2 * radius)
        if centre is None:
            return
        x, y = centre
        fill = jitter(rng, COLOURS[colour], 14)
        mirrored = kind == "crescent" and rng.random() < 0.5
        points = shapes.outline(kind, x, y, radius, degrees, mirrored)
        if kind in shapes.ROUND:
            box = (x - radius, y - radius, x + radius, y + radius)
            scaled = tuple(value * OVERSAMPLING for value in box)
            if kind == "ring":
                line = max(2, round(radius * shapes.RING_WIDTH * OVERSAMPLING))
                self.draw.ellipse(scaled, outline=fill, width=line)
            else:
                self.draw.ellipse(scaled, fill=fill)
        else:
            self.draw.polygon([(u * OVERSAMPLING, v * OVERSAMPLING) for u, v in points], fill=fill)
            xs, ys = [u for u, _ in points], [v for _, v in points]
            box = (min(xs), min(ys), max(xs), max(ys))
        self.objects.append(SceneObject(kind, colour, box, radius=radius))

    def add_text(self, minimum: int, maximum: int) -> None:
        """`minimum`, `maximum`: font size in pixels per em."""
        rng = self.rng
        text = random_text(rng)
        font = load_font(rng.choice(FONTS), rng.randint(minimum, maximum))
        left, top, right, bottom = font.getbbox(text)
        width, height = right - left, bottom - top
        centre = self._place(width, height) if width < self.width - 8 else None
        if centre is None:
            return
        colour = rng.choice(self.colours)
        x, y = centre[0] - width / 2 - left, centre[1] - height / 2 - top
        spans = [x + font.getlength(text[:i]) for i in range(len(text) + 1)]
        characters = tuple(Character(glyph, spans[i], spans[i + 1]) for i, glyph in enumerate(text) if glyph != " ")
        box = (x + left, y + top, x + right, y + bottom)
        self.objects.append(SceneObject("text", colour, box, text=text, characters=characters))
        self.pending_text.append((x, y, text, font, COLOURS[colour]))

    def finish(self) -> Image.Image:
        picture = self.canvas.reduce(OVERSAMPLING)
        draw = ImageDraw.Draw(picture)
        for x, y, text, font, fill in self.pending_text:
            draw.text((x, y), text, font=font, fill=fill)
        return picture

    def _place(self, width: float, height: float) -> tuple[float, float] | None:
        """A free centre for a box of this size, or None after a few tries."""
        if width > self.width - 4 or height > self.height - 4:
            return None
        for _ in range(14):
            x = self.rng.uniform(width / 2 + 1, self.width - width / 2 - 1)
            y = self.rng.uniform(height / 2 + 1, self.height - height / 2 - 1)
            if all(self._apart(x, y, width, height, other.box) for other in self.objects):
                return x, y
        return None

    @staticmethod
    def _apart(x: float, y: float, width: float, height: float, other: Box) -> bool:
        left, top, right, bottom = other
        horizontally = x + width / 2 + MARGIN <= left or x - width / 2 - MARGIN >= right
        vertically = y + height / 2 + MARGIN <= top or y - height / 2 - MARGIN >= bottom
        return horizontally or vertically


def _degrade(rng: random.Random, picture: Image.Image) -> np.ndarray:
    """Blur, JPEG artefacts or sensor noise in part of the pictures."""
    if rng.random() < 0.08:
        picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 0.8)))
    if rng.random() < 0.15:
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=rng.randint(40, 92))
        picture = Image.open(buffer).convert("RGB")
    pixels = np.asarray(picture)
    if rng.random() < 0.15:
        generator = np.random.default_rng(rng.getrandbits(32))
        amount = rng.randint(4, 14)
        pixels = np.clip(pixels.astype(np.int16) + generator.integers(-amount, amount + 1, pixels.shape), 0, 255).astype(np.uint8)
    return pixels
