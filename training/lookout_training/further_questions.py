"""Questions that people ask and no gate measures: objects of a colour, two kinds at once, and text by its words, such as a button's.

Also more of what gates do measure and version 12 was worst at: centres of texts, plural names, and other wordings for places.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from . import phrasings
from .phrasings import Phrasings, Split, fill, lines_of
from .questions import (
    NOTHING_FOUND,
    WORD_TASKS,
    Asker,
    Exchange,
    ask_one_of,
    box_of,
    caption,
    disjoint_categories,
    enumeration,
    leaves_of,
    listing,
    plural,
    point_of,
    say,
    sentence,
    where,
)
from .world import COLOUR_NAMES, Scene, SceneObject
from .world.text import WORDS

WHICH = lines_of(
    """
Which objects are {name}?
Which shapes are {name}?
What is {name}?
What {name} things are there?
List the {name} objects.
Which things in the {picture} are {name}?
Name everything that is {name}.
Name the {name} things.
Which of them are {name}?
What do you see in {name}?
""",
    """
What do you see that is {name}?
Tell me which things are {name}.
""",
)
COLOURS_OF = lines_of(
    """
What {colour}s are the {many}?
Which {colour}s do the {many} have?
What {colour}s do the {many} have?
In which {colour}s are the {many}?
Name the {colour}s of the {many}.
List the {colour}s of the {many}.
What are the {colour}s of the {many}?
""",
    """
Which {colour}s are the {many}?
""",
)
THINGS = lines_of(
    """
What shapes are there?
What shapes do you see?
Which shapes are in the {picture}?
List the shapes.
Name all shapes.
What kinds of things are there?
List everything.
What all is in the {picture}?
""",
    """
Which shapes do you see?
""",
)
COUNT_TWO = lines_of(
    """
How many {first} and {second} are there?
How many {first} and {second} do you see?
Count the {first} and the {second}.
How many {first} and {second} are in the {picture}?
How many {first} and {second} are there in all?
How many {first} or {second} are there?
The number of {first} and {second}?
""",
    """
Count {first} and {second} together.
""",
)
DETECT_TWO = lines_of(
    """
Find the {first} and the {second}.
Detect the {first} and the {second}.
Find all {firsts} and {seconds}.
Detect all {firsts} and {seconds}.
Box the {first} and the {second}.
Draw boxes around the {first} and the {second}.
Locate the {first} and the {second}.
Find every {first} and every {second}.
Detect {firsts} and {seconds}.
""",
    """
Locate all {firsts} and {seconds}.
""",
)
DETECT_TEXT = lines_of(
    """
Find the text "{word}".
Find "{word}".
Detect the text "{word}".
Locate the text "{word}".
Locate "{word}".
Box the word "{word}".
Put a box around "{word}".
Where does it say "{word}"? Answer with a box.
Where is "{word}"? Answer with a box.
Detect "{word}".
Find the word {word}.
Find {word}
""",
    """
Draw a box around the text "{word}".
Find the place that says "{word}".
""",
)
POINT_TEXT = lines_of(
    """
Point to the text "{word}".
Point to "{word}".
Point at the word "{word}".
Click on "{word}".
Click the button "{word}".
Put a point on "{word}".
Where is "{word}"? Answer with a point.
Where should I click to hit "{word}"?
Click {word}
Point to {word}.
""",
    """
Press "{word}".
Click on the text "{word}".
""",
)
HINT_TEXT = lines_of(
    """
"{word}"
the text "{word}"
the word "{word}"
Find "{word}".
Find the text "{word}".
Click on "{word}".
Detect: "{word}"
Detect: {word}
Find: {word}
Where is "{word}"?
Where does it say "{word}"?
{word}
""",
    """
Locate "{word}".
Where is the text "{word}"?
""",
)
WHERE_BESIDES = lines_of(
    """
Give me the rough position of the {name}.
Roughly where is the {name}?
Which region of the {picture} contains the {name}?
Which region is the {name} in?
Say in which area of the {picture} I find the {name}.
Name the place of the {name}.
On which side of the {picture} is the {name}?
Is the {name} at the top, in the middle or at the bottom?
Is the {name} on the left or on the right?
The {name} sits where?
Any idea where the {name} is?
Locate the {name} in words.
Tell me roughly where I can see the {name}.
How would you describe the place of the {name}?
In what spot is the {name}?
What spot does the {name} take?
Where about in the {picture} is the {name}?
Tell me where you see the {name}.
Tell me where to look for the {name}.
Tell me the spot of the {name}.
Please tell me in which corner the {name} is.
Can you tell me where the {name} sits?
""",
    """
At which spot is the {name}?
""",
)


def which(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """The shapes of one colour, in reading order."""
    if scene.things or scene.texts:  # They may have the same colour but are not shapes.
        return None
    colour = rng.choice(scene.shapes).colour if rng.random() < 0.85 else rng.choice(COLOUR_NAMES)
    found = [item for item in scene.shapes if item.colour == colour]
    return say(rng, WHICH, split, "which", sentence(listing(found)) if found else NOTHING_FOUND, name=colour)


def colours_of(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """The colours of one kind, each once, in reading order."""
    kinds = sorted({item.kind for item in scene.shapes})
    if not kinds:
        return None
    kind = rng.choice(kinds)
    colours = list(dict.fromkeys(item.colour for item in scene.shapes if item.kind == kind))
    return say(rng, COLOURS_OF, split, "colours of", sentence(enumeration(colours)), many=plural(kind))


def things(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """A caption, but the question asks for a list of shapes."""
    return caption(rng, scene, split, THINGS) if scene.shapes else None


def count_two(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """The number of objects of two kinds together, at least one of which is in the scene."""
    counts = Counter(item.kind for item in (*scene.shapes, *scene.things))
    kinds = _two_kinds(rng, scene)
    if kinds is None:
        return None
    first, second = kinds
    return say(rng, COUNT_TWO, split, "count two", str(counts[first] + counts[second]), first=plural(first), second=plural(second))


def _two_kinds(rng: random.Random, scene: Scene) -> tuple[str, str] | None:
    kinds = [category.split()[-1] for category in disjoint_categories(rng, scene, 4)]
    kinds = [kind for kind in dict.fromkeys(kinds) if kind != "text"]
    present = {item.kind for item in scene.objects}
    return (kinds[0], kinds[1]) if len(kinds) > 1 and present & {kinds[0], kinds[1]} else None


def detect_two(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """Detection of two categories that a sentence names."""
    categories = disjoint_categories(rng, scene, 2)
    if len(categories) < 2:
        return None
    first, second = categories
    answer = leaves_of(scene, {first: first, second: second}, box_of)
    return say(rng, DETECT_TWO, split, "detect", answer, first=first, second=second, firsts=plural(first), seconds=plural(second))


def _by_text(task: str, leaf: Callable[[Scene, SceneObject, str], str], lines: Phrasings) -> Asker:
    def ask(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
        """A text given by its words, in the printed letter case; now and then a text that is not in the scene."""
        counts = Counter((item.text or "").lower() for item in scene.texts)
        single = [item for item in scene.texts if counts[(item.text or "").lower()] == 1]
        if not single:
            return None
        if rng.random() < 0.12:
            word = rng.choice(WORDS).upper()
            if any(word.lower() in text or text in word.lower() for text in counts):
                return None
            return say(rng, lines, split, task, NOTHING_FOUND, keep_case=True, word=word)
        item = rng.choice(single)
        word = item.text or ""
        return say(rng, lines, split, task, leaf(scene, item, word), keep_case=True, word=word)

    return ask


def _all_texts(task: str, leaf: Callable[[Scene, SceneObject, str], str], lines: Phrasings) -> Asker:
    def ask(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
        """Every printed text. The centre of a text depends on both of its ends, which may be far apart."""
        if not scene.texts:
            return None
        return say(rng, lines, split, task, leaves_of(scene, {"text": "text"}, leaf), one="text", many="text", article="text", singular="text")

    return ask


def _in_the_plural(task: str, leaf: Callable[[Scene, SceneObject, str], str]) -> Asker:
    def ask(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
        """A list of plural categories, often capitalised. Mentions repeat the user's words."""
        categories = [category for category in disjoint_categories(rng, scene, rng.choice((1, 2, 2, 3))) if not category.endswith("text")]
        if not categories:
            return None
        capitals = rng.random() < 0.4
        mentions = {category: plural(category).title() if capitals else plural(category) for category in categories}
        question = fill(rng, phrasings.HINT_LIST.pick(rng, split), list=", ".join(mentions.values()))
        return Exchange(task, question, leaves_of(scene, mentions, leaf))

    return ask


def where_besides(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """One of the nine places."""
    return where(rng, scene, split, WHERE_BESIDES)


# Tasks and their weights, by the hint in the system turn.
FURTHER_TASKS: dict[str | None, dict[str, tuple[Asker, float]]] = {
    None: {
        "which": (which, 4),
        "colours of": (colours_of, 2),
        "things": (things, 3),
        "count two": (count_two, 3),
        "detect two": (detect_two, 4),
        "detect text": (_by_text("detect", box_of, DETECT_TEXT), 4),
        "point text": (_by_text("point", point_of, POINT_TEXT), 4),
        "point all text": (_all_texts("point", point_of, phrasings.POINT_MANY), 2),
        "where besides": (where_besides, 3),
    },
    "BOX": {
        "hint text": (_by_text("hint one", box_of, HINT_TEXT), 3),
        "hint plural": (_in_the_plural("hint detect", box_of), 1),
    },
    "POINT": {
        "hint text": (_by_text("hint point one", point_of, HINT_TEXT), 3),
        "hint all text": (_all_texts("hint point", point_of, phrasings.HINT_SENTENCE), 3),
        "hint plural": (_in_the_plural("hint point", point_of), 1),
    },
}


def ask_further(rng: random.Random, scene: Scene, split: Split, hint: str | None) -> Exchange | None:
    """A question of one of these tasks; None if the scene or the hint does not allow it."""
    tasks = FURTHER_TASKS.get(hint)
    return ask_one_of(rng, tasks, scene, split) if tasks else None


SINGLE_WEIGHTS = {"count kind": 8, "count colour": 6, "count both": 4, "count all": 6, "colour": 4, "exists": 6, "where": 6, "left": 2, "right": 2}
LISTED_WEIGHTS = {"caption": 30, "read": 6, "detect": 24, "detect all": 14, "point many": 8}
# Tasks for replies that a schema binds: single numbers and words, yes and no, and lists of names and of places.
BOUND_TASKS: dict[str, tuple[Asker, float]] = {
    "count two": (count_two, 3),
    "detect two": (detect_two, 4),
    **{task: (WORD_TASKS[task][0], weight) for task, weight in (SINGLE_WEIGHTS | LISTED_WEIGHTS).items()},
}


def ask_bound(rng: random.Random, scene: Scene, split: Split) -> Exchange | None:
    """A question of one of these tasks, with the answer still in words; None if the task does not fit the scene."""
    return ask_one_of(rng, BOUND_TASKS, scene, split)
