"""The synthetic world: what can be seen in a picture, and how it is drawn. Needs Pillow and numpy only."""

from .palette import COLOUR_NAMES, COLOURS
from .scene import PICTURE_SIZES, Scene, SceneObject, pick_size, render_scene
from .shapes import SHAPES
from .text import ALPHABET

__all__ = [
    "ALPHABET",
    "COLOURS",
    "COLOUR_NAMES",
    "PICTURE_SIZES",
    "SHAPES",
    "Scene",
    "SceneObject",
    "pick_size",
    "render_scene",
]
