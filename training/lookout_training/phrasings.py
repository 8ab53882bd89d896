"""How people ask. Every list is split in two: phrasings trained on, and phrasings kept for evaluation only.

Slots in braces: {picture} picture/image/photo, {colour} colour/color; the other slots are filled by `questions`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum


class Split(Enum):
    """Which phrasings to use."""

    SEEN = "seen"
    HELD_OUT = "held-out"


@dataclass(frozen=True)
class Phrasings:
    seen: tuple[str, ...]
    held_out: tuple[str, ...]

    def pick(self, rng: random.Random, split: Split) -> str:
        return rng.choice(self.seen if split is Split.SEEN else self.held_out)


def _lines(seen: str, held_out: str) -> Phrasings:
    return Phrasings(tuple(seen.strip().splitlines()), tuple(held_out.strip().splitlines()))


CAPTION = _lines(
    """
Describe the {picture}.
What is in this {picture}?
Caption this {picture}.
What do you see?
Describe what you see in the {picture}.
What's in the {picture}?
Tell me what this {picture} shows.
Write a caption.
Give a short description of this {picture}.
What does the {picture} show?
What can you see in this {picture}?
List what is in the {picture}.
What is shown in the {picture}?
Describe the contents of this {picture}.
Describe it.
""",
    """
What is shown here?
Describe this.
Please describe the contents of the {picture}.
""",
)
COLOUR_OF = _lines(
    """
What {colour} is the {kind}?
What is the {colour} of the {kind}?
Which {colour} is the {kind}?
Which {colour} does the {kind} have?
What {colour} does the {kind} have?
What's the {colour} of the {kind}?
Name the {colour} of the {kind}.
Tell me the {colour} of the {kind}.
{colour} of the {kind}?
In what {colour} is the {kind}?
The {kind} is what {colour}?
What {colour} is the {kind} in this {picture}?
Which {colour} is the {kind} in the {picture}?
The {kind} has which {colour}?
Say the {colour} of the {kind}.
What {colour} do you see on the {kind}?
The {kind}'s {colour}?
""",
    """
The {kind} in the {picture} has which {colour}?
What's the {kind}'s {colour}?
Say what {colour} the {kind} is.
""",
)
KIND_OF = _lines(
    """
What is the {name} thing?
Which shape is {name}?
What shape is {name}?
What is {name}?
What kind of shape is {name}?
Which object is {name}?
What is the {name} object?
What shape is the {name} one?
Name the thing that is {name}.
Tell me which shape is {name}.
""",
    """
Name the {name} shape.
What is the shape that is {name}?
""",
)
SIDE = _lines(
    """
What is at the {side}?
What is on the {side}?
Which object is at the {side}?
What is the {side}most object?
Which object is {side}most?
What do you see on the {side}?
What's at the far {side}?
What is furthest to the {side}?
Name the {side}most object.
What is the object on the {side}?
Tell me what is on the {side}.
Which thing is {side}most?
Say what is furthest to the {side}.
""",
    """
Which thing is furthest {side}?
Tell me what is {side}most in the {picture}.
""",
)
VERTICAL = _lines(
    """
What is at the {side}?
Which object is at the {side}?
What is the {side}most object?
Which object is {side}most?
What do you see at the {side}?
What's at the very {side}?
Name the {side}most object.
What is the object at the {side}?
What is nearest the {side} edge?
Tell me what is at the {side}.
Which thing is {side}most?
Say what is closest to the {side} edge.
""",
    """
Which thing is closest to the {side}?
Tell me what is {side}most in the {picture}.
""",
)
EXISTS = _lines(
    """
Is there {one}?
Is there {one} in the {picture}?
Do you see {one}?
Can you see {one}?
Does the {picture} show {one}?
Does the {picture} contain {one}?
Is {one} in the {picture}?
Is {one} there?
Does this {picture} have {one}?
Is there {one} here?
Are there any {many}?
Are there any {many} in the {picture}?
Do you see any {many}?
Can you see any {many}?
Does the {picture} have any {many}?
Is {one} present?
Is {one} somewhere in the {picture}?
Did you find {one}?
Did you see any {many}?
Have you seen {one}?
Have you found any {many}?
Are {many} present?
Are any {many} there?
Are any {many} to be seen?
Are {many} visible here?
Is there at least one {singular}?
Does {one} appear in the {picture}?
Can {one} be seen?
""",
    """
Is {one} visible?
Have you spotted {one}?
Are any {many} shown?
""",
)
EXISTS_COLOUR = _lines(
    """
Is there anything {name}?
Is anything {name}?
Do you see anything {name}?
Is something {name} in the {picture}?
Is there something {name} in this {picture}?
Are there any {name} objects?
Is there a {name} object?
Are there {name} things?
Does the {picture} show anything {name}?
Is there any {name} shape here?
Can anything {name} be seen?
Is at least one thing {name}?
""",
    """
Is any object {name}?
Does anything {name} appear?
""",
)
COUNT = _lines(
    """
How many {many} are there?
How many {many}?
How many {many} are in the {picture}?
How many {many} do you see?
How many {many} can you see?
Count the {many}.
What is the number of {many}?
How many {many} does the {picture} show?
Count all {many}.
Number of {many}?
How many {many} are in this {picture}?
Tell me the number of {many}.
Give the number of {many}.
How many {many} can be seen?
How many {many} are shown?
Count {many}.
How many {many} have you found?
""",
    """
Tell me how many {many} are shown.
What number of {many} can be seen?
Please count {many}.
""",
)
WHERE = _lines(
    """
Where is the {name}?
Where is the {name} in the {picture}?
Where's the {name}?
Where can I find the {name}?
In which part of the {picture} is the {name}?
What is the position of the {name}?
Where do you see the {name}?
Which part of the {picture} holds the {name}?
Tell me the position of the {name}.
The {name} is where?
""",
    """
Whereabouts is the {name}?
Tell me where the {name} is.
""",
)
WHAT_AT = _lines(
    """
What is {place}?
What is {place} of the {picture}?
Which object is {place}?
What do you see {place}?
What can you see {place} of the {picture}?
What's {place}?
Which thing is {place}?
Name what is {place}.
Tell me which object is {place}.
Say what you see {place}.
""",
    """
Name the object {place}.
Tell me what is {place}.
""",
)
LARGEST = _lines(
    """
What is the {extreme} shape?
Which shape is the {extreme}?
What is the {extreme} shape in the {picture}?
Which is the {extreme} shape?
Name the {extreme} shape.
What's the {extreme} one?
""",
    """
Which of the shapes is {extreme}?
The {extreme} shape is which one?
""",
)
SIZE_OF = _lines(
    """
Is the {name} small, medium or large?
How big is the {name}?
What size is the {name}?
What is the size of the {name}?
How large is the {name}?
Tell me the size of the {name}.
Say how big the {name} is.
""",
    """
What's the {name}'s size?
""",
)
READ = _lines(
    """
Read the text.
What does it say?
What does the text say?
What is written here?
What is written in the {picture}?
Which text is in the {picture}?
What text do you see?
Transcribe the text.
What's written?
Read the text in the {picture}.
OCR
Extract the text.
What words are written?
Which words can you see?
What do the words say?
Please read the text.
""",
    """
What words can you read?
Please read what is written.
What do the letters say?
""",
)
READ_ONE = _lines(
    """
What does the {name} text say?
Read the {name} text.
What is written in {name}?
What is the {name} text?
Which text is {name}?
""",
    """
What do the {name} letters say?
""",
)
# Detection asked in words: the category text is copied into `mention` from a list ...
DETECT_LIST = _lines(
    """
Detect: {list}
Find: {list}
Locate: {list}
Detect {list}
detect: {list}
Detect the following: {list}
Detect these objects: {list}
Draw boxes around: {list}
Boxes: {list}
Bounding boxes for: {list}
""",
    """
Mark with boxes: {list}
Detection targets: {list}
""",
)
# ... and named in the singular when it stands in a sentence.
DETECT_SENTENCE = _lines(
    """
Find all {many}.
Detect all {many}.
Locate all {many}.
Find every {one}.
Detect every {one}.
Find the {many}.
Detect the {many} in the {picture}.
Locate every {one} in the {picture}.
Draw boxes around all {many}.
Draw a box around every {one}.
Show me all {many} with boxes.
Box every {one}.
Give me the bounding boxes of all {many}.
Put a box around each {singular}.
Draw boxes around the {many}.
Mark all {many}.
Mark every {singular} with boxes.
""",
    """
Mark each {one} with a box.
Put boxes around the {many}.
""",
)
DETECT_ALL = _lines(
    """
Detect all objects.
Find all objects.
Detect everything.
Find everything in the {picture}.
Locate all objects.
Box all objects.
Draw boxes around all objects.
Detect all objects in the {picture}.
Give bounding boxes for everything you see.
Detect every object.
Put boxes around everything.
""",
    """
Put a box around each object.
Mark everything with boxes.
""",
)
POINT = _lines(
    """
Point to the {name}.
Point at the {name}.
Point to the {name} in the {picture}.
Show me the {name} with a point.
Point out the {name}.
Give the point of the {name}.
Put a point on the {name}.
Where is the {name}? Answer with a point.
""",
    """
Mark the {name} with a point.
Which point is on the {name}?
""",
)
POINT_MANY = _lines(
    """
Point to all {many}.
Point at every {one}.
Point to every {one}.
Point out all {many}.
Put a point on every {one}.
Point to the {many}.
Mark all {many} with points.
""",
    """
Mark each {one} with a point.
""",
)
# With a <hint> in the system turn a plain question is answered in markup.
HINT_LIST = _lines(
    """
{list}
{list}
Detect: {list}
Find: {list}
""",
    """
Look for: {list}
""",
)
HINT_SENTENCE = _lines(
    """
the {many}
all {many}
every {one}
Where are the {many}?
How many {many} are there?
Find the {many}.
Find all {many}.
Detect all {many}.
Locate the {many}.
Are there any {many}?
Is there {article}?
Show me the {many}.
Find {article}.
Count the {many}.
Point to the {many}.
""",
    """
Where do you see {many}?
I am looking for {many}.
""",
)
HINT_ONE = _lines(
    """
Where is the {name}?
the {name}
Find the {name}.
Locate the {name}.
Show me the {name}.
What {colour} is the {name}?
Point to the {name}.
Where's the {name}?
""",
    """
Can you find the {name}?
""",
)
HINT_ALL = _lines(
    """
Detect all objects.
Find everything.
What is in the {picture}?
Describe the {picture}.
all objects
Detect everything.
How many objects are there?
What do you see?
""",
    """
Everything in the {picture}.
""",
)

PICTURE_WORDS = ("picture", "image", "photo")
COLOUR_WORDS = ("colour", "color")
POLITE_BEFORE = ("Please ", "Can you tell me: ", "Hi! ", "Hello, ", "Could you help me? ", "Quick question: ")
POLITE_AFTER = (" Please.", " Thanks!", " Thank you.", " Answer briefly.", " Be brief.")


def fill(rng: random.Random, template: str, **slots: str) -> str:
    """Fills a template; `picture` and `colour` are drawn at random."""
    return template.format(picture=rng.choice(PICTURE_WORDS), colour=rng.choice(COLOUR_WORDS), **slots)


def in_some_style(rng: random.Random, question: str, keep_case: bool = False) -> str:
    """Varies spelling of grey, politeness, final punctuation and letter case as users do."""
    if "gray" in question and rng.random() < 0.5:
        question = question.replace("gray", "grey")
    if rng.random() < 0.06:
        before = rng.choice(POLITE_BEFORE)
        question = before + (question[0].lower() + question[1:] if before == "Please " and not keep_case else question)
    if rng.random() < 0.06 and not keep_case:
        question += rng.choice(POLITE_AFTER)
    if rng.random() < 0.15 and not keep_case:
        question = question.rstrip(".?!")
    choice = rng.random()
    if not keep_case and choice < 0.15:
        question = question.lower()
    elif not keep_case and choice < 0.17:
        question = question.upper()
    return question
