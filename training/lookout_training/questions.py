"""Questions about a scene and their answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from . import phrasings
from .chat import small_talk
from .markup import box_leaf, point_leaf, polygon_leaf
from .phrasings import Phrasings, Split, fill, in_some_style
from .world import COLOUR_NAMES, EMOJI_NAMES, SHAPES, Scene, SceneObject

NOTHING_FOUND = "None."  # The answer to a detection or pointing task if none of the objects is in the image.
CLEAR_MARGIN = 0.04  # Share of the image: the least distance between two objects for questions about the leftmost, topmost and so on.
BORDER_MARGIN = 0.02  # Share of the image: no questions about objects this close to a border of the 3 x 3 grid of places.


@dataclass(frozen=True)
class Exchange:
    """A question and its only correct answer."""

    task: str
    question: str
    answer: str
    printed: tuple[str, ...] = ()  # Parts of the answer that are text in the image, in order.
    begun: str = ""  # The start of the reply, which the server writes; the answer continues from there.


Asker = Callable[[random.Random, Scene, Split], Exchange | None]


# ---- Wording ------------------------------------------------------------------------------------------------------


def plural(name: str) -> str:
    """ "red cross" -> "red crosses", "butterfly" -> "butterflies"; "text" stays as it is."""
    if name.endswith("text"):
        return name
    if name.endswith("y") and name[-2] not in "aeiou":
        return name[:-1] + "ies"
    return name + ("es" if name.endswith("s") else "s")


def with_article(name: str) -> str:
    """ "orange star" -> "an orange star"; "text" takes no article."""
    if name.endswith("text"):
        return name
    return ("an " if name[0] in "aeiou" else "a ") + name


def sentence(words: str) -> str:
    """Capitalises the first letter and adds a full stop."""
    return words[0].upper() + words[1:] + "."


def enumeration(parts: list[str]) -> str:
    """ "a, b and c"."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def listing(objects: list[SceneObject]) -> str:
    """Lists objects one by one, in reading order: "a red circle, a blue star and the text "OPEN"".

    Equal objects are not grouped ("2 red circles"): with groups, a network this small leaves other objects out.
    """
    return enumeration([with_article(item.name) if item.text is None else f'the text "{item.text}"' for item in objects])


def grid_point(scene: Scene, x: float, y: float) -> tuple[int, int]:
    """Converts pixels to the 0..1000 grid."""
    return max(0, min(1000, round(x / scene.width * 1000))), max(0, min(1000, round(y / scene.height * 1000)))


def box_of(scene: Scene, item: SceneObject, mention: str) -> str:
    left, top, right, bottom = item.box
    return box_leaf(mention, grid_point(scene, left, top), grid_point(scene, right, bottom))


def point_of(scene: Scene, item: SceneObject, mention: str) -> str:
    return point_leaf(mention, grid_point(scene, *item.centre))


def polygon_of(scene: Scene, item: SceneObject, mention: str) -> str:
    """The rough outline of a shape; for text and emoji, the corners of the box."""
    left, top, right, bottom = item.box
    vertices = item.vertices or ((left, top), (right, top), (right, bottom), (left, bottom))
    return polygon_leaf(mention, [grid_point(scene, x, y) for x, y in vertices])


def matches(item: SceneObject, category: str) -> bool:
    """Whether an object belongs to a category such as "circle", "red circle" or "text"."""
    return category in (item.kind, item.name)


def place_of(scene: Scene, item: SceneObject) -> str | None:
    """One of nine places, "top left" .. "center" .. "bottom right"; None if the object is close to a border between two of them."""
    x, y = item.centre
    u, v = x / scene.width, y / scene.height
    if any(abs(value - border) < BORDER_MARGIN for value in (u, v) for border in (1 / 3, 2 / 3)):
        return None
    column = "left" if u < 1 / 3 else "right" if u > 2 / 3 else "center"
    row = "top" if v < 1 / 3 else "bottom" if v > 2 / 3 else "middle"
    return "center" if (row, column) == ("middle", "center") else f"{row} {column}"


def unique_names(scene: Scene) -> dict[str, SceneObject]:
    """All names that refer to exactly one object: "red heart", and also "heart" if there is only one heart."""
    counts = Counter(name for item in scene.objects for name in {item.name, item.kind})
    return {name: item for item in scene.objects for name in (item.name, item.kind) if counts[name] == 1}


def say(rng: random.Random, lines: Phrasings, split: Split, task: str, answer: str, keep_case: bool = False, **slots: str) -> Exchange:
    question = in_some_style(rng, fill(rng, lines.pick(rng, split), **slots), keep_case)
    return Exchange(task, question, answer)


def _pick_unique(rng: random.Random, scene: Scene) -> tuple[str, SceneObject] | None:
    """Picks an object by a name that only it has; each full name is twice as likely as each kind."""
    names = unique_names(scene)
    if not names:
        return None
    keys = list(names)
    name = rng.choices(keys, weights=[1 if key in SHAPES else 2 for key in keys])[0]
    return name, names[name]


# ---- Answers in words ---------------------------------------------------------------------------------------------


def caption(rng: random.Random, scene: Scene, split: Split, lines: Phrasings = phrasings.CAPTION) -> Exchange | None:
    exchange = say(rng, lines, split, "caption", sentence(listing(scene.objects)))
    return replace(exchange, printed=tuple(item.text for item in scene.objects if item.text is not None))


def colour_of(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    counts = Counter(item.kind for item in scene.objects)
    single = [item for item in scene.objects if counts[item.kind] == 1 and item.colour]
    if not single:
        return None
    item = rng.choice(single)
    return say(rng, phrasings.COLOUR_OF, split, "colour", sentence(item.colour), kind=item.kind)


def kind_of(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    counts = Counter(item.colour for item in scene.objects)
    single = [item for item in scene.objects if counts[item.colour] == 1]
    if not single or scene.things:  # An emoji may have the same colour.
        return None
    item = rng.choice(single)
    return say(rng, phrasings.KIND_OF, split, "kind", sentence(with_article(item.kind)), name=item.colour)


def _extreme(rng: random.Random, scene: Scene, split: Split, side: str) -> Exchange | None:
    horizontal = side in ("left", "right")
    extent = scene.width if horizontal else scene.height
    order = sorted(scene.objects, key=lambda item: item.centre[0 if horizontal else 1])
    if side in ("right", "bottom"):
        order.reverse()
    axis = 0 if horizontal else 1
    if len(order) > 1 and abs(order[0].centre[axis] - order[1].centre[axis]) < CLEAR_MARGIN * extent:
        return None
    lines = phrasings.SIDE if horizontal else phrasings.VERTICAL
    return say(rng, lines, split, side, sentence(with_article(order[0].name)), side=side)


def leftmost(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    return _extreme(rng, scene, split, "left")


def rightmost(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    return _extreme(rng, scene, split, "right")


def topmost(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    return _extreme(rng, scene, split, "top")


def bottommost(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    return _extreme(rng, scene, split, "bottom")


def exists(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """Half of the answers are "yes". Half of the "no" questions combine a colour and a kind that both occur, but not together."""
    wanted = rng.random() < 0.5
    colours = {item.colour for item in scene.objects}
    kinds = {item.kind for item in scene.objects}
    choice = rng.random()
    if choice < 0.15 and not scene.things:
        options = sorted(colours) if wanted else [name for name in COLOUR_NAMES if name not in colours]
        if not options:
            return None
        return say(rng, phrasings.EXISTS_COLOUR, split, "exists", "Yes." if wanted else "No.", name=rng.choice(options))
    if choice < 0.40:
        options = sorted(kinds) if wanted else [kind for kind in _possible_kinds(rng, scene) if kind not in kinds]
        name = rng.choice(options)
    elif wanted:
        name = rng.choice(scene.objects).name
    else:
        name = absent_name(rng, scene)
    return say(
        rng, phrasings.EXISTS, split, "exists", "Yes." if wanted else "No.", one=with_article(name), many=plural(name), singular=name
    )


def _possible_kinds(rng: random.Random, scene: Scene) -> list[str]:
    """The kinds to ask about: emoji are more likely if the scene has some."""
    emoji = rng.random() < (0.7 if scene.things else 0.15)
    return EMOJI_NAMES if emoji else [*SHAPES, "text"]


def absent_name(rng: random.Random, scene: Scene) -> str:
    """A colour and shape that do not occur together, or an absent emoji.

    In half of the cases, the colour and the shape each occur in the scene separately.
    """
    present = {item.name for item in scene.objects}
    if rng.random() < (0.5 if scene.things else 0.06):
        return rng.choice([name for name in EMOJI_NAMES if name not in present])
    if rng.random() < 0.5:
        near = [f"{a.colour} {b.kind}" for a in scene.objects for b in scene.shapes if f"{a.colour} {b.kind}" not in present]
        if near:
            return rng.choice(near)
    while True:
        name = f"{rng.choice(COLOUR_NAMES)} {rng.choice(SHAPES)}"
        if name not in present:
            return name


def _count(
    rng: random.Random, scene: Scene, split: Split, task: str, counts: Counter[str], absent: list[str], suffix: str = ""
) -> Exchange | None:
    """The answer is zero in a quarter of the cases; otherwise every number that occurs is equally likely."""
    if absent and (not counts or rng.random() < 0.25):
        name, number = rng.choice(absent), 0
    elif counts:
        number = rng.choice(sorted(set(counts.values())))
        name = rng.choice(sorted(key for key, value in counts.items() if value == number))
    else:
        return None
    return say(rng, phrasings.COUNT, split, task, str(number), many=plural(name + suffix))


def count_kind(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    counts = Counter(item.kind for item in (*scene.shapes, *scene.things))
    return _count(rng, scene, split, "count kind", counts, [kind for kind in _possible_kinds(rng, scene) if kind not in counts and kind != "text"])


def count_colour(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    counts = Counter(item.colour for item in scene.shapes)
    return _count(rng, scene, split, "count colour", counts, [name for name in COLOUR_NAMES if name not in counts], suffix=" shape")


def count_both(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    counts = Counter(item.name for item in scene.shapes)
    return _count(rng, scene, split, "count both", counts, [absent_name(rng, scene)])


def count_all(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    # "Objects" would be ambiguous if there is printed text, and "shapes" if there are emoji.
    if scene.texts and scene.things:
        return None
    many = "shapes" if scene.texts else rng.choice(("objects", "things") if scene.things else ("shapes", "shapes", "objects", "things"))
    return say(rng, phrasings.COUNT, split, "count all", str(len(scene.shapes) + len(scene.things)), many=many)


def where(rng: random.Random, scene: Scene, split: Split, lines: Phrasings = phrasings.WHERE) -> Exchange | None:
    picked = _pick_unique(rng, scene)
    place = place_of(scene, picked[1]) if picked else None
    if not picked or not place:
        return None
    return say(rng, lines, split, "where", sentence(place), name=picked[0])


def what_at(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    places = [place_of(scene, item) for item in scene.objects]
    counts = Counter(places)
    if None in counts:  # An object between two places would make the question ambiguous.
        return None
    single = [(place, item) for place, item in zip(places, scene.objects, strict=True) if place and counts[place] == 1]
    if not single:
        return None
    place, item = rng.choice(single)
    if place == "center":
        words = rng.choice(("in the center", "in the middle", "at the center", "in the centre"))
    elif place.endswith("center"):
        words = f"in the {place}"
    elif place.startswith("middle"):
        words = f"in the {place}"
    else:
        words = rng.choice((f"in the {place}", f"in the {place} corner", f"at the {place}"))
    return say(rng, phrasings.WHAT_AT, split, "what-at", sentence(with_article(item.name)), place=words)


def region(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """The name of the object in a given box or at a given point. Exemplars need the same step from a place to a name."""
    item = rng.choice(scene.objects)
    return Exchange("region", _about_region(rng, scene, item, phrasings.REGION.pick(rng, split)), sentence(with_article(item.name)))


def read_region(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """The text in a given box, or at a given point."""
    if not scene.texts:
        return None
    item = rng.choice(scene.texts)
    text = item.text or ""
    return Exchange("read region", _about_region(rng, scene, item, phrasings.READ_REGION.pick(rng, split)), text, printed=(text,))


def _about_region(rng: random.Random, scene: Scene, item: SceneObject, line: str) -> str:
    """Fills {region} with roughly the box, or with the centre, of an object, in one of several notations."""
    corners = (grid_point(scene, *item.box[:2]), grid_point(scene, *item.box[2:]))
    left, top, right, bottom = (max(0, min(1000, value + rng.randint(-8, 8))) for corner in corners for value in corner)
    if rng.random() < 0.3:
        x, y = grid_point(scene, *item.centre)
        words = rng.choice((f"({x},{y})", f"<point> ({x},{y}) </point>", f"({x}, {y})"))
    else:
        words = rng.choice(
            (f"({left},{top}) ({right},{bottom})", f"<point_box> ({left},{top}) ({right},{bottom}) </point_box>", f"[{left}, {top}, {right}, {bottom}]")
        )
    return in_some_style(rng, fill(rng, line, region="the box " + words if "in {region}" in line else words), keep_case=True)


def largest(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    order = sorted(scene.shapes, key=lambda item: item.radius)
    if len(order) < 2:
        return None
    if rng.random() < 0.5:
        words, item, other = rng.choice(("largest", "biggest")), order[-1], order[-2]
    else:
        words, item, other = "smallest", order[0], order[1]
    if max(item.radius, other.radius) < 1.2 * min(item.radius, other.radius):
        return None
    return say(rng, phrasings.LARGEST, split, "size", sentence(with_article(item.name)), extreme=words)


def size_of(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """By the radius relative to the image's shorter side: small is below 0.10, large above 0.15. Objects close to a limit are skipped."""
    picked = _pick_unique(rng, scene)
    if not picked or picked[1] not in scene.shapes:
        return None
    relative = picked[1].radius / min(scene.width, scene.height)
    if abs(relative - 0.10) < 0.008 or abs(relative - 0.15) < 0.008:
        return None
    answer = "Small." if relative < 0.10 else "Large." if relative > 0.15 else "Medium."
    return say(rng, phrasings.SIZE_OF, split, "size", answer, name=picked[0])


RELATIONS = {  # Axis, whether the first object has the smaller coordinate, wordings.
    "left": (0, True, ("left of", "to the left of", "on the left of")),
    "right": (0, False, ("right of", "to the right of", "on the right of")),
    "above": (1, True, ("above", "higher than", "further up than")),
    "below": (1, False, ("below", "lower than", "under", "beneath")),
}
COMPARED = {"left": "further left", "right": "further right", "above": "higher up", "below": "lower down"}


def relation(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """About two objects with unique names, clearly apart on the axis of the question."""
    names = unique_names(scene)
    if len({id(item) for item in names.values()}) < 2:
        return None
    first, second = rng.sample(list(names), 2)
    if names[first] is names[second] or first in second or second in first:
        return None
    word, (axis, smaller, said) = rng.choice(list(RELATIONS.items()))
    distance = names[first].centre[axis] - names[second].centre[axis]
    if abs(distance) < 0.08 * (scene.width, scene.height)[axis]:
        return None
    true = (distance < 0) == smaller
    if rng.random() < 0.6:
        answer = "Yes." if true else "No."
        return say(rng, phrasings.LEFT_OF, split, "relation", answer, one=first, other=second, relation=rng.choice(said))
    answer = sentence(f"the {first if true else second}")
    return say(rng, phrasings.WHICH_IS, split, "relation", answer, one=first, other=second, extreme=COMPARED[word])


def size(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    return (largest if rng.random() < 0.6 else size_of)(rng, scene, split)


def read(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """All text from top to bottom, one line each; or the only text of a given colour."""
    texts = sorted(scene.texts, key=lambda item: item.centre[1])
    if not texts:
        if rng.random() < 0.8:  # Ask about absent text only now and then.
            return None
        return say(rng, phrasings.READ, split, "read", "There is no text.")
    counts = Counter(item.colour for item in texts)
    single = [item for item in texts if counts[item.colour] == 1]
    if single and (len(texts) > 3 or rng.random() < 0.3):
        item = rng.choice(single)
        exchange = say(rng, phrasings.READ_ONE, split, "read", item.text or "", name=item.colour)
        return replace(exchange, printed=(exchange.answer,))
    if len(texts) > 4 or any(b.centre[1] - a.centre[1] < 0.5 * min(a.box[3] - a.box[1], b.box[3] - b.box[1]) for a, b in pairwise(texts)):
        return None  # Too many, or side by side: their order would be ambiguous.
    printed = tuple(item.text or "" for item in texts)
    return replace(say(rng, phrasings.READ, split, "read", "\n".join(printed)), printed=printed)


def chat(rng: random.Random, _: Scene | None, split: Split) -> Exchange | None:
    question, answer = small_talk(rng, split)
    return Exchange("chat", in_some_style(rng, question), answer)


# ---- Answers in markup --------------------------------------------------------------------------------------------


def disjoint_categories(rng: random.Random, scene: Scene, count: int) -> list[str]:
    """Disjoint categories: a kind, or a colour and a kind. About three quarters of them are in the scene."""
    chosen: list[str] = []
    for _ in range(count):
        by_kind = rng.random() < 0.45
        if rng.random() < 0.77:
            item = rng.choice(scene.objects)
            category = item.kind if by_kind or item.kind == "text" else item.name
        elif by_kind:
            category = rng.choice(_possible_kinds(rng, scene))
        else:
            category = absent_name(rng, scene)
        overlaps = any(
            category.split()[-1] == other.split()[-1] and (" " not in category or " " not in other or category == other) for other in chosen
        )
        if not overlaps:
            chosen.append(category)
    return chosen


def leaves_of(scene: Scene, mentions: dict[str, str], leaf: Callable[[Scene, SceneObject, str], str]) -> str:
    """All objects of the categories (category -> mention), category by category, each in reading order.

    In one reading order over all categories, the model would have to search for all of them at once, and it mixed up names.
    """
    lines = [leaf(scene, item, mention) for category, mention in mentions.items() for item in scene.objects if matches(item, category)]
    return "\n".join(lines) or NOTHING_FOUND


def _listed(rng: random.Random, scene: Scene) -> tuple[str, dict[str, str]]:
    """A list of categories as a user would write it, and category -> mention (the user's words)."""
    categories = disjoint_categories(rng, scene, rng.choices((1, 2, 3, 4), weights=(40, 30, 22, 8))[0])
    many = rng.random() < 0.15
    mentions = {category: plural(category) if many else category for category in categories}
    if rng.random() < 0.5:
        mentions = {category: mention.replace("gray", "grey") for category, mention in mentions.items()}
    if rng.random() < 0.08:
        mentions = {category: mention.title() for category, mention in mentions.items()}
    return rng.choice((", ", ", ", ", ", " , ", ",")).join(mentions.values()), mentions


def _markup_task(task: str, leaf: Callable[[Scene, SceneObject, str], str], in_list: Phrasings, in_sentence: Phrasings) -> Asker:
    def ask(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
        if rng.random() < 0.5:
            words, mentions = _listed(rng, scene)
            question = fill(rng, in_list.pick(rng, split), list=words)
            return Exchange(task, question, leaves_of(scene, mentions, leaf))
        category = disjoint_categories(rng, scene, 1)[0]
        answer = leaves_of(scene, {category: category}, leaf)
        return say(
            rng, in_sentence, split, task, answer, one=category, many=plural(category), article=with_article(category), singular=category
        )

    return ask


def _everything(task: str, leaf: Callable[[Scene, SceneObject, str], str], lines: Phrasings) -> Asker:
    def ask(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
        answer = "\n".join(leaf(scene, item, item.name) for item in scene.objects)
        return say(rng, lines, split, task, answer)

    return ask


def _single(task: str, leaf: Callable[[Scene, SceneObject, str], str], lines: Phrasings) -> Asker:
    def ask(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
        picked = _pick_unique(rng, scene)
        if not picked:
            return None
        name, item = picked
        return say(rng, lines, split, task, leaf(scene, item, name), name=name)

    return ask


def point_many(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    category = disjoint_categories(rng, scene, 1)[0]
    answer = leaves_of(scene, {category: category}, point_of)
    return say(rng, phrasings.POINT_MANY, split, "point", answer, one=category, many=plural(category))


# The tasks that need no hint, with their weights. Tests and evaluation use the keys as task names.
WORD_TASKS: dict[str, tuple[Asker, float]] = {
    "caption": (caption, 18),
    "colour": (colour_of, 4),
    "kind": (kind_of, 2),
    "left": (leftmost, 3),
    "right": (rightmost, 3),
    "top": (topmost, 3),
    "bottom": (bottommost, 3),
    "exists": (exists, 4),
    "count kind": (count_kind, 8),
    "count colour": (count_colour, 5),
    "count both": (count_both, 4),
    "count all": (count_all, 6),
    "where": (where, 8),
    "what-at": (what_at, 4),
    "region": (region, 14),
    "size": (size, 4),
    "relation": (relation, 5),
    "read": (read, 60),
    "read region": (read_region, 24),
    "detect": (_markup_task("detect", box_of, phrasings.DETECT_LIST, phrasings.DETECT_SENTENCE), 20),
    "detect all": (_everything("detect all", box_of, phrasings.DETECT_ALL), 10),
    "point": (_single("point", point_of, phrasings.POINT), 4),
    "point many": (point_many, 10),
    "chat": (chat, 2),
}
BOX_HINT_TASKS: dict[str, tuple[Asker, float]] = {
    "hint detect": (_markup_task("hint detect", box_of, phrasings.HINT_LIST, phrasings.HINT_SENTENCE), 6),
    "hint one": (_single("hint one", box_of, phrasings.HINT_ONE), 3),
    "hint all": (_everything("hint all", box_of, phrasings.HINT_ALL), 3),
}
POINT_HINT_TASKS: dict[str, tuple[Asker, float]] = {
    "hint point": (_markup_task("hint point", point_of, phrasings.HINT_LIST, phrasings.HINT_SENTENCE), 6),
    "hint point one": (_single("hint point one", point_of, phrasings.HINT_ONE), 3),
    "hint point all": (_everything("hint point all", point_of, phrasings.HINT_ALL), 2),
}
POLYGON_HINT_TASKS: dict[str, tuple[Asker, float]] = {
    "hint polygon": (_markup_task("hint polygon", polygon_of, phrasings.HINT_LIST, phrasings.HINT_SENTENCE), 6),
    "hint polygon one": (_single("hint polygon one", polygon_of, phrasings.HINT_ONE), 3),
    "hint polygon all": (_everything("hint polygon all", polygon_of, phrasings.HINT_ALL), 1),
}
TASKS_OF_HINT: dict[str | None, dict[str, tuple[Asker, float]]] = {
    None: WORD_TASKS,
    "BOX": BOX_HINT_TASKS,
    "POINT": POINT_HINT_TASKS,
    "POLYGON": POLYGON_HINT_TASKS,
}


def ask_something(rng: random.Random, scene: Scene, split: Split = Split.SEEN, hint: str | None = None) -> Exchange | None:
    """A question of a random task, by weight; None if the task does not fit the scene. `hint`: None, "BOX", "POINT" or "POLYGON"."""
    return ask_one_of(rng, TASKS_OF_HINT[hint], scene, split)


def ask_one_of(rng: random.Random, tasks: dict[str, tuple[Asker, float]], scene: Scene, split: Split) -> Exchange | None:
    """A question of one of the tasks, drawn by weight; None if the task does not fit the scene."""
    name = rng.choices(list(tasks), weights=[weight for _, weight in tasks.values()])[0]
    return tasks[name][0](rng, scene, split)
