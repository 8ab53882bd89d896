"""The synthetic world: what an image can show, and how it is drawn. Needs only Pillow and numpy."""

from .emoji import EMOJI_NAMES
from .palette import COLOUR_NAMES, COLOURS
from .scene import CELL, PICTURE_SIZES, PLAIN_WORLD, TRAINING_WORLD, Scene, SceneObject, World, pick_size, reading_order, render_scene
from .served import as_served, chart_as_served, served_size, stretched
from .shapes import SHAPES
from .text import ALPHABET, GLYPHS

__all__ = [
    "ALPHABET",
    "CELL",
    "COLOURS",
    "COLOUR_NAMES",
    "EMOJI_NAMES",
    "GLYPHS",
    "PICTURE_SIZES",
    "PLAIN_WORLD",
    "SHAPES",
    "TRAINING_WORLD",
    "Scene",
    "SceneObject",
    "World",
    "as_served",
    "chart_as_served",
    "pick_size",
    "reading_order",
    "render_scene",
    "served_size",
    "stretched",
]
