"""Questions about frame sequences."""

from __future__ import annotations

import random
from collections.abc import Callable

from . import phrasings
from .markup import clip_leaf
from .phrasings import Phrasings, Split, fill, in_some_style
from .questions import NOTHING_FOUND, Exchange, enumeration, plural, sentence, with_article
from .world import COLOUR_NAMES, EMOJI_NAMES, SHAPES
from .world.clip import Clip

Asker = Callable[[random.Random, Clip, Split], Exchange | None]
MOVED = {"right": "To the right.", "left": "To the left.", "up": "Up.", "down": "Down."}


def _say(rng: random.Random, lines: Phrasings, split: Split, task: str, answer: str, **slots: str) -> Exchange:
    return Exchange(task, in_some_style(rng, fill(rng, lines.pick(rng, split), **slots)), answer)


def _absent(rng: random.Random, clip: Clip) -> str:
    present = {actor.name for actor in clip.actors}
    while True:
        name = f"{rng.choice(COLOUR_NAMES)} {rng.choice(SHAPES)}" if rng.random() < 0.5 else rng.choice(EMOJI_NAMES)
        if name not in present:
            return name


def _spans(clip: Clip, name: str) -> str:
    leaves = [clip_leaf(name, clip.times[actor.first], clip.times[actor.last]) for actor in clip.actors if actor.name == name]
    return "\n".join(leaves) or NOTHING_FOUND


def when(task: str, lines: Phrasings) -> Asker:
    def ask(rng: random.Random, clip: Clip, split: Split) -> Exchange:
        name = _absent(rng, clip) if rng.random() < 0.1 else rng.choice(clip.actors).name
        return _say(rng, lines, split, task, _spans(clip, name), name=name, one=with_article(name))

    return ask


def everything(rng: random.Random, clip: Clip, split: Split) -> Exchange:
    ordered = sorted(clip.actors, key=lambda actor: (actor.first, actor.last, actor.name))
    answer = "\n".join(clip_leaf(actor.name, clip.times[actor.first], clip.times[actor.last]) for actor in ordered)
    return _say(rng, phrasings.CLIP_ALL, split, "hint clip all", answer)


def appears(rng: random.Random, clip: Clip, split: Split) -> Exchange:
    there = rng.random() < 0.5
    name = rng.choice(clip.actors).name if there else _absent(rng, clip)
    return _say(rng, phrasings.VIDEO_EXISTS, split, "video exists", "Yes." if there else "No.", one=with_article(name), name=name)


def moves(rng: random.Random, clip: Clip, split: Split) -> Exchange | None:
    actor = rng.choice(clip.actors)
    moving = [other for other in clip.actors if other.direction]
    if moving and rng.random() < 0.8:
        actor = moving[0]
    elif actor.direction is None and rng.random() < 0.7:
        return None
    answer = MOVED[actor.direction] if actor.direction else "It does not move."
    return _say(rng, phrasings.VIDEO_MOVES, split, "video direction", answer, name=actor.name)


def order(rng: random.Random, clip: Clip, split: Split) -> Exchange | None:
    """The actor that is seen first or last; None if that is not a single one."""
    if len(clip.actors) < 2:
        return None
    first = rng.random() < 0.5
    key = [actor.first if first else -actor.last for actor in clip.actors]
    if key.count(min(key)) > 1:
        return None
    name = clip.actors[key.index(min(key))].name
    lines = phrasings.VIDEO_FIRST if first else phrasings.VIDEO_LAST
    return _say(rng, lines, split, "video order", sentence(with_article(name)))


def how_many(rng: random.Random, clip: Clip, split: Split) -> Exchange:
    return _say(rng, phrasings.VIDEO_COUNT, split, "video count", str(len(clip.actors)), many=plural("object"))


def caption(rng: random.Random, clip: Clip, split: Split) -> Exchange:
    ordered = sorted(clip.actors, key=lambda actor: (actor.first, actor.last, actor.name))
    parts = [with_article(actor.name) + (f" that moves {MOVED[actor.direction].rstrip('.').lower()}" if actor.direction else "") for actor in ordered]
    return _say(rng, phrasings.VIDEO_CAPTION, split, "video caption", sentence(enumeration(parts)))


CLIP_TASKS: dict[str, tuple[Asker, float]] = {
    "clip": (when("clip", phrasings.WHEN_CLIP), 8),
    "video exists": (appears, 4),
    "video direction": (moves, 4),
    "video order": (order, 4),
    "video count": (how_many, 2),
    "video caption": (caption, 3),
}
CLIP_HINT_TASKS: dict[str, tuple[Asker, float]] = {
    "hint clip": (when("hint clip", phrasings.HINT_CLIP), 8),
    "hint clip all": (everything, 2),
}


def ask_about_clip(rng: random.Random, clip: Clip, split: Split, hint: str | None) -> Exchange | None:
    """Draws a random task. `hint` is None or "CLIP"."""
    tasks = CLIP_HINT_TASKS if hint else CLIP_TASKS
    name = rng.choices(list(tasks), weights=[weight for _, weight in tasks.values()])[0]
    return tasks[name][0](rng, clip, split)
