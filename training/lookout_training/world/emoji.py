"""Things drawn as emoji: names, characters and their images."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageEnhance, ImageFont

EMOJI_FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")  # Debian's fonts-noto-color-emoji.
NATIVE_SIZE = 109  # The only size that the bitmap font has.

# No names with irregular plurals, and none that is also a shape.
EMOJI: dict[str, str] = {
    "cat": "🐱", "dog": "🐶", "bird": "🐦", "bee": "🐝", "cow": "🐮", "pig": "🐷", "rabbit": "🐰", "lion": "🦁",
    "elephant": "🐘", "frog": "🐸", "turtle": "🐢", "duck": "🦆", "penguin": "🐧", "owl": "🦉", "butterfly": "🦋",
    "snail": "🐌", "octopus": "🐙", "whale": "🐳", "car": "🚗", "bus": "🚌", "bicycle": "🚲", "plane": "✈", "boat": "⛵",
    "train": "🚆", "truck": "🚚", "rocket": "🚀", "tractor": "🚜", "house": "🏠", "castle": "🏰", "tent": "⛺", "tree": "🌳",
    "flower": "🌼", "cactus": "🌵", "mushroom": "🍄", "rose": "🌹", "apple": "🍎", "banana": "🍌", "lemon": "🍋",
    "strawberry": "🍓", "watermelon": "🍉", "pineapple": "🍍", "carrot": "🥕", "pizza": "🍕", "hamburger": "🍔",
    "cake": "🎂", "cookie": "🍪", "umbrella": "☔", "snowman": "⛄", "balloon": "🎈", "gift": "🎁", "crown": "👑", "hat": "🎩",
    "shirt": "👕", "shoe": "👟", "key": "🔑", "bell": "🔔", "clock": "⏰", "phone": "📱", "camera": "📷", "laptop": "💻",
    "book": "📕", "guitar": "🎸", "drum": "🥁", "football": "🏈", "robot": "🤖", "hammer": "🔨",
}  # fmt: skip
EMOJI_NAMES: list[str] = list(EMOJI)


@lru_cache(maxsize=128)
def _native(name: str) -> Image.Image:
    """An RGBA image, cropped to what is drawn."""
    font = ImageFont.truetype(str(EMOJI_FONT), NATIVE_SIZE)
    canvas = Image.new("RGBA", (160, 160))
    ImageDraw.Draw(canvas).text((12, 12), EMOJI[name], font=font, embedded_color=True)
    return canvas.crop(canvas.getbbox())


def emoji_picture(rng: random.Random, name: str, extent: float) -> Image.Image:
    """An RGBA image, cropped, whose longer side is about `extent` pixels. It may be rotated, mirrored or slightly changed in colour."""
    picture = _native(name)
    if rng.random() < 0.4:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if rng.random() < 0.35:
        picture = picture.rotate(rng.uniform(-20, 20), Image.Resampling.BICUBIC, expand=True)
    if rng.random() < 0.3:
        alpha = picture.getchannel("A")
        picture = ImageEnhance.Color(picture).enhance(rng.uniform(0.75, 1.25))
        picture.putalpha(alpha)
    scale = extent / max(picture.size)
    picture = picture.resize((max(4, round(picture.width * scale)), max(4, round(picture.height * scale))), Image.Resampling.BILINEAR)
    return picture.crop(picture.getchannel("A").point(lambda value: 255 if value > 40 else 0).getbbox())
