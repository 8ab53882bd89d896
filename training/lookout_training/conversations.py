"""Whole conversations with several pictures: detection by exemplar, and zooming with the focus tool."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from . import phrasings
from .phrasings import Split, fill, in_some_style
from .questions import NOTHING_FOUND, Exchange, ask_something, box_of, grid_point, point_of, sentence, unique_names, with_article
from .tools import CLOSING, INTRODUCTION
from .world import COLOUR_NAMES, EMOJI_NAMES, PLAIN_WORLD, Scene, SceneObject, World, as_served, render_scene, served_size, stretched
from .world.text import made_up_word

PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"
LABELS = (
    "target", "object", "item", "part", "thing", "widget", "marker", "example", "match", "sample", "symbol", "this", "piece", "type A",
    "class 1", "goal", "logo", "sign", "figure", "mark",
)  # fmt: skip
FOCUS_TOOL = {
    "type": "function",
    "function": {
        "name": "focus",
        "description": "Zoom into a region of the picture.",
        "parameters": {
            "type": "object",
            "properties": {
                "box": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "left, top, right, bottom on a 0 to 1000 grid",
                }
            },
            "required": ["box"],
        },
    },
}
FOCUS_SYSTEM = INTRODUCTION + "\n" + json.dumps(FOCUS_TOOL) + CLOSING
WIDEST = 0.5  # Share of the image: wider text gains nothing from a closer look.
ENLARGED = 3  # How much larger the original is than the image that is shown.


@dataclass
class Conversation:
    """One row: pieces of text, some of which are trained on, and the images that its image tokens stand for."""

    task: str
    pieces: list[tuple[str, bool]]  # Text and whether the model has to write it (with the end of the turn).
    pictures: list[tuple[np.ndarray, Scene]]
    original: np.ndarray | None = None  # The original of which the first image is a reduced copy.
    question: str = ""  # What the user says.
    printed: tuple[str, ...] = ()  # Words in the last trained piece that are read from an image.

    @property
    def exchange(self) -> Exchange:
        """Everything before the last answer, and that answer."""
        return Exchange(self.task, "".join(text for text, _ in self.pieces[:-1]), self.pieces[-1][0], self.printed)


@dataclass(frozen=True)
class Sought:
    """A kind of object and the label that the exemplars give it."""

    colour: str  # Empty where any will do.
    kind: str
    label: str

    @property
    def name(self) -> str:
        return f"{self.colour} {self.kind}".strip()

    def fits(self, item: SceneObject) -> bool:
        return item.kind == self.kind and self.colour in ("", item.colour)

    def fits_some(self, items: list[SceneObject], other: Sought) -> bool:
        """Whether one of the items is of both classes."""
        return any(self.fits(item) and other.fits(item) for item in items)


@dataclass
class ExemplarTask:
    """Objects to find by an exemplar image that shows some, and possibly another that shows none."""

    label: str
    exemplar: tuple[np.ndarray, Scene]
    shown: list[SceneObject]  # What is annotated in the exemplar.
    negative: tuple[np.ndarray, Scene] | None
    target: tuple[np.ndarray, Scene]
    wanted: list[SceneObject]

    @property
    def answer(self) -> str:
        return "\n".join(box_of(self.target[1], item, self.label) for item in self.wanted) or NOTHING_FOUND


def exemplar_task(rng: random.Random, width: int, height: int, negative: bool, world: World = PLAIN_WORLD) -> ExemplarTask:
    """One class, which usually occurs in the target image too."""
    sought, exemplar = _sought(rng, width, height, world)
    any_colour = not sought.colour and sought.kind not in EMOJI_NAMES
    near = [(colour, sought.kind) for colour in (rng.sample(COLOUR_NAMES, 4) if any_colour else [sought.colour])]
    target = render_scene(rng, width, height, world=world, favoured=near if rng.random() < 0.85 else [])
    shown = [item for item in exemplar[1].objects if sought.fits(item)]
    if rng.random() < 0.4:
        shown = [rng.choice(shown)]
    other = None
    while negative and (other is None or any(sought.fits(item) for item in other[1].objects)):
        other = render_scene(rng, width, height, world=world)
    return ExemplarTask(sought.label, exemplar, shown, other, target, [item for item in target[1].objects if sought.fits(item)])


def _sought(rng: random.Random, width: int, height: int, world: World) -> tuple[Sought, tuple[np.ndarray, Scene]]:
    """What is sought, and an image that shows it."""
    while True:
        picture = render_scene(rng, width, height, world=world)
        objects = [item for item in picture[1].objects if item.text is None]
        if objects:
            return _class_of(rng, rng.choice(objects)), picture


def _class_of(rng: random.Random, item: SceneObject, renamed: float = 0.5) -> Sought:
    """`renamed` is how often the label says nothing about what it stands for."""
    if rng.random() < renamed:
        label = made_up_word(rng) if rng.random() < 0.15 else rng.choice(LABELS)
        return Sought(item.colour, item.kind, label)
    if item.colour and rng.random() < 0.4:
        return Sought("", item.kind, item.kind)
    return Sought(item.colour, item.kind, item.name)


@dataclass
class ExemplarLesson:
    """Example turns about one to three classes, and the questions that may follow about the image."""

    head: str  # Up to the question.
    pictures: list[tuple[np.ndarray, Scene]]
    exchanges: list[Exchange]


def exemplar_lesson(rng: random.Random, width: int, height: int) -> ExemplarLesson:
    """Asks for each class alone, then again with a thought that says what is at the exemplar's place, and finally for all together."""
    classes: list[Sought] = []
    while not classes:
        exemplar = as_served(render_scene(rng, width, height))
        shown = [item for item in exemplar[1].objects if item.text is None]
        for item in rng.sample(shown, min(len(shown), rng.choices((1, 2, 3), weights=(40, 35, 25))[0])):
            sought = _class_of(rng, item, renamed=0.75)
            if not any(sought.label == other.label or sought.fits_some(shown, other) for other in classes):
                classes.append(sought)
    favoured = [
        (colour, sought.kind)
        for sought in classes
        if rng.random() < 0.85
        for colour in (rng.sample(COLOUR_NAMES, 4) if not sought.colour and sought.kind not in EMOJI_NAMES else [sought.colour])
    ]
    target = as_served(render_scene(rng, width, height, favoured=favoured))
    as_points = rng.random() < 0.1
    leaf = point_of if as_points else box_of
    example_leaf = point_of if as_points or rng.random() < 0.12 else box_of

    def leaves(picture: tuple[np.ndarray, Scene], found: list[Sought], write: Callable[[Scene, SceneObject, str], str], one: bool = False) -> str:
        lines = []
        for sought in found:
            fitting = [item for item in picture[1].objects if sought.fits(item)]
            lines += [write(picture[1], item, sought.label) for item in ([rng.choice(fitting)] if one else fitting)]
        return "\n".join(lines) or NOTHING_FOUND

    asked = "Detect: " + ", ".join(sought.label for sought in classes)
    turns = [(exemplar, leaves(exemplar, classes, example_leaf, one=rng.random() < 0.4))]
    if rng.random() < 0.15:
        other = as_served(render_scene(rng, width, height))
        if not any(sought.fits(item) for item in other[1].objects for sought in classes):
            turns.append((other, NOTHING_FOUND))
    head = f"<|im_start|>system\n<hint>{'POINT' if as_points else 'BOX'}</hint><|im_end|>\n"
    for _, answer in turns:
        head += f"<|im_start|>user\n{PICTURE}{asked}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
    head += f"<|im_start|>user\n{PICTURE}"
    plain = [Exchange("exemplar", f"Detect: {sought.label}", leaves(target, [sought], leaf)) for sought in classes]
    thoughtful: list[Exchange] = []
    for sought, exchange in zip(classes, plain, strict=True):
        annotation, item = _first_shown(exemplar[1], sought, turns[0][1])
        thought = f"{annotation} is {with_article(item.name)}. I look for {with_article(sought.name)}."
        thoughtful.append(_thinking("exemplar, thinking", exchange, thought))
    together = [Exchange("exemplars", asked, leaves(target, classes, leaf))] if len(classes) > 1 else []
    return ExemplarLesson(head, [*(picture for picture, _ in turns), target], plain + thoughtful + together)


def _first_shown(scene: Scene, sought: Sought, leaves: str) -> tuple[str, SceneObject]:
    """The first annotation of a class, and the object there."""
    for annotation in leaves.split("\n"):
        for item in scene.objects:
            if sought.fits(item) and annotation in (box_of(scene, item, sought.label), point_of(scene, item, sought.label)):
                return annotation, item
    raise ValueError(f"no {sought.label} in {leaves}")


def _thinking(task: str, exchange: Exchange, thought: str) -> Exchange:
    """The exchange after a thought that the server has opened."""
    return replace(exchange, task=task, answer=f"{thought}\n</think>\n\n{exchange.answer}", begun="<think>\n")


NAMING = (
    "What is the {}?", "Which object is the {}?", "What does {} stand for?", "Describe the {}.", "What did you find as {}?", "What kind of thing is the {}?",
    "Name the object that is called {}.", "What is called {}?", "{}: what is that?",
)  # fmt: skip


def naming_lesson(rng: random.Random, width: int, height: int) -> ExemplarLesson:
    """One example turn with meaningless labels, then the question what those things are. Exemplars build on this skill."""
    while True:
        picture = as_served(render_scene(rng, width, height))
        items = [item for item in picture[1].objects if item.text is None]
        if items:
            break
    rng.shuffle(items)
    items = items[: rng.choices((1, 2, 3, 4, 5), weights=(20, 25, 25, 15, 15))[0]]
    labels = {id(item): made_up_word(rng) if rng.random() < 0.3 else label for item, label in zip(items, rng.sample(LABELS, len(items)), strict=True)}
    as_points = rng.random() < 0.2
    leaf = point_of if as_points else box_of
    answer = "\n".join(leaf(picture[1], item, labels[id(item)]) for item in picture[1].objects if id(item) in labels)
    head = f"<|im_start|>system\n<hint>{'POINT' if as_points else 'BOX'}</hint><|im_end|>\n" if rng.random() < 0.7 else ""
    head += f"<|im_start|>user\n{PICTURE}Detect: {', '.join(labels.values())}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n<|im_start|>user\n"
    exchanges: list[Exchange] = []
    for item in items:
        label = labels[id(item)]
        plain = Exchange("naming", in_some_style(rng, rng.choice(NAMING).format(label)), sentence(with_article(item.name)))
        exchanges.append(_thinking("naming, thinking", plain, f"{leaf(picture[1], item, label)} is {with_article(item.name)}."))
        if rng.random() < 0.4:
            exchanges.append(plain)
    return ExemplarLesson(head, [picture], exchanges)


def with_focus(rng: random.Random, width: int, height: int, split: Split, world: World = PLAIN_WORLD) -> Conversation:
    """Text too small to read: the model asks for its region, sees it enlarged and reads it. Other questions need no closer look."""
    large, scene = render_scene(rng, ENLARGED * width, ENLARGED * height, text_heavy=True, world=world)
    while not 1 <= len(scene.texts) <= 4:
        large, scene = render_scene(rng, ENLARGED * width, ENLARGED * height, text_heavy=True, world=world)
    size = served_size(width, height)
    shown = np.asarray(Image.fromarray(large).resize(size, Image.Resampling.BICUBIC))
    small = stretched(scene, *size)
    head = f"<|im_start|>system\n{FOCUS_SYSTEM}<|im_end|>\n<|im_start|>user\n{PICTURE}"
    ask = "<|im_end|>\n<|im_start|>assistant\n"
    if rng.random() < 0.3:
        exchange = ask_something(rng, small, split)
        while exchange is None or exchange.task in ("read", "caption", "chat"):
            exchange = ask_something(rng, small, split)
        return Conversation(
            "focus not needed", [(f"{head}{exchange.question}{ask}", False), (exchange.answer, True)], [(shown, small)], large, exchange.question, exchange.printed
        )
    legible = [item for item in scene.texts if item.box[2] - item.box[0] < WIDEST * scene.width]
    single = [name for name, item in unique_names(scene).items() if item in legible and name != "text"]
    if len(scene.texts) == len(legible) == 1:
        item, lines, name = scene.texts[0], phrasings.READ, ""
    elif single:
        name = rng.choice(single)
        item, lines = unique_names(scene)[name], phrasings.READ_ONE
    else:
        return with_focus(rng, width, height, split)
    question = in_some_style(rng, fill(rng, lines.pick(rng, split), name=name.removesuffix(" text")))
    region = _region(scene, item)
    pixels = [value * size / 1000 for value, size in zip(region, (scene.width, scene.height) * 2, strict=True)]
    crop = Image.fromarray(large).resize(size, Image.Resampling.BICUBIC, box=tuple(pixels))
    call = f'<tool_call>\n{{"name": "focus", "arguments": {{"box": {json.dumps(region)}}}}}\n</tool_call>'
    seen = f"\n<|im_start|>user\n<tool_response>\n{PICTURE}\n</tool_response>{ask}"
    pieces = [(f"{head}{question}{ask}", False), (call, True), (seen, False), (item.text or "", True)]
    return Conversation("focus", pieces, [(shown, small), (np.asarray(crop), Scene(*size))], large, question, (item.text or "",))


def _region(scene: Scene, item: SceneObject) -> list[int]:
    """The region around an object with some margin, square on the 0..1000 grid, so that the crop has the image's aspect ratio."""
    (left, top), (right, bottom) = (grid_point(scene, *corner) for corner in (item.box[:2], item.box[2:]))
    side = min(1000, max(round(1.25 * (right - left)), round(1.6 * (bottom - top)), 200))
    x, y = (max(0, min(1000 - side, (low + high - side) // 2)) for low, high in ((left, right), (top, bottom)))
    return [x, y, x + side, y + side]
