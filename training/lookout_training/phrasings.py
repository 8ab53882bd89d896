"""How people ask. Each task has phrasings for training and others that are used only in the evaluation.

Placeholders in braces: {picture} becomes picture, image or photo, and {colour} colour or color; `questions` fills the others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from . import more_phrasings as more


class Split(Enum):
    """The set of phrasings to use."""

    SEEN = "seen"
    HELD_OUT = "held-out"
    MISTYPED = "mistyped"  # For training only: the seen phrasings and more, some with a typing error.


EVALUATED = (Split.SEEN, Split.HELD_OUT)
SLIPS = 0.25  # Share of the phrasings of MISTYPED that have a typing error.
MORE = 0.4  # Share of the phrasings from `more`, for tasks that have any.
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def with_slip(rng: random.Random, template: str) -> str:
    """Adds a typing error to one word that is not a placeholder: letters swapped, lost, doubled, wrong or added, or the whole word left out."""
    words = template.split(" ")
    places = [index for index, word in enumerate(words) if len(word) > 2 and word.isalpha()]
    if len(words) < 3 or not places:
        return template
    place = rng.choice(places)
    word = words[place]
    at = rng.randrange(len(word) - 1)
    words[place] = rng.choice(
        (
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + rng.choice(LETTERS) + word[at + 1 :],
            word + "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 6))),
            word + "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 6))),
            "",
        )
    )
    return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Phrasings:
    seen: tuple[str, ...]
    held_out: tuple[str, ...]
    more: tuple[str, ...] = ()  # For training only.

    def pick(self, rng: random.Random, split: Split) -> str:
        """Draws a phrasing of `split`."""
        if split is Split.HELD_OUT:
            return rng.choice(self.held_out)
        further = self.more and split is Split.MISTYPED and rng.random() < MORE
        template = rng.choice(self.more if further else self.seen)
        if split is Split.SEEN or rng.random() > SLIPS:
            return template
        slipped = with_slip(rng, template)
        return template if slipped in self.held_out else slipped


def lines_of(seen: str, held_out: str, more: str = "") -> Phrasings:
    return Phrasings(*(tuple(lines.strip().splitlines()) for lines in (seen, held_out, more)))


CAPTION = lines_of(
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
What is this?
What is this {picture} of?
Describe this {picture}.
Can you describe the {picture}?
Could you describe this {picture} for me?
What objects are in the {picture}?
What things do you see?
Which objects can you see in this {picture}?
Give me a description of the {picture}.
Summarise the {picture}.
Summarize this {picture}.
Tell me about this {picture}.
Tell me what you see.
What am I looking at?
What is on the {picture}?
What is depicted?
Describe the scene.
Describe everything in the {picture}.
Write one sentence about the {picture}.
Alt text
caption
Name everything that you see.
""",
    """
What is shown here?
Describe this.
Please describe the contents of the {picture}.
""",
    more.CAPTION,
)
COLOUR_OF = lines_of(
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
What {colour} has the {kind}?
Can you tell me the {colour} of the {kind}?
Tell me which {colour} the {kind} is.
I want to know the {colour} of the {kind}.
What is the {kind}'s {colour}?
The {colour} of the {kind} is?
The {kind} is painted in which {colour}?
""",
    """
The {kind} in the {picture} has which {colour}?
What's the {kind}'s {colour}?
Say what {colour} the {kind} is.
""",
)
KIND_OF = lines_of(
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
What shape is the {name} object?
Which thing has the {colour} {name}?
What is it that is {name}?
Say which shape is {name}.
What do you see that is {name}?
""",
    """
Name the {name} shape.
What is the shape that is {name}?
""",
)
SIDE = lines_of(
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
What is the thing on the {side} side?
Which object is on the {side} side of the {picture}?
What is at the {side} edge?
Which is the {side}most object?
Which object is nearest to the {side} edge?
What object is at the far {side} of the {picture}?
On the {side}, what do you see?
Tell me the {side}most object.
What stands on the far {side}?
""",
    """
Which thing is furthest {side}?
Tell me what is {side}most in the {picture}.
""",
    more.SIDE,
)
VERTICAL = lines_of(
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
What object is at the {side}?
Which is the {side}most object?
At the {side}, what do you see?
What is at the {side} edge?
Tell me the {side}most object.
What is at the {side} of the {picture}?
""",
    """
Which thing is closest to the {side}?
Tell me what is {side}most in the {picture}.
""",
    more.VERTICAL,
)
EXISTS = lines_of(
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
Is there {one} anywhere?
Is there {one} to be seen?
Can {one} be found in the {picture}?
Does it show {one}?
Does it contain any {many}?
Tell me if there is {one}.
Tell me whether there is {one} in the {picture}.
Check if there is {one}.
Is there a trace of {one}?
Are there {many}?
Are there {many} in this {picture}?
Yes or no: is there {one}?
Do you see {one} in this {picture}?
Any {many}?
I wonder if there is {one}.
""",
    """
Is {one} visible?
Have you spotted {one}?
Are any {many} shown?
""",
    more.EXISTS,
)
EXISTS_COLOUR = lines_of(
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
COUNT = lines_of(
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
How many {many} does it have?
How many {many} does the {picture} contain?
How many {many} exist in the {picture}?
What is the count of {many}?
Say how many {many} there are.
I want to know how many {many} there are.
Can you count the {many}?
Could you tell me how many {many} there are?
Find out how many {many} there are.
What's the number of {many} in the {picture}?
The number of {many} is?
How many of the objects are {many}?
Give me a count of {many}.
{many}: how many?
""",
    """
Tell me how many {many} are shown.
What number of {many} can be seen?
Please count {many}.
""",
    more.COUNT,
)
WHERE = lines_of(
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
Where in the {picture} is the {name}?
Where is the {name} located?
Where exactly is the {name}?
Say where the {name} is.
I want to know where the {name} is.
Find out where the {name} is.
I cannot find the {name}. Where is it?
Where would I find the {name}?
What is the place of the {name}?
What is the location of the {name}?
Describe the position of the {name}.
Describe where the {name} is.
Give the location of the {name}.
At which place is the {name}?
In what part of this {picture} is the {name}?
Can you see where the {name} is?
Could you say where the {name} is?
Position of the {name}?
Do you know where the {name} is?
In which area is the {name}?
Where does the {name} stand?
Where is it, the {name}?
Where must I look for the {name}?
Where has the {name} been put?
Where did they put the {name}?
Where might the {name} be?
Where should I look to see the {name}?
Which corner or side is the {name} in?
In words, where is the {name}?
The {name}: where is it?
I look for the {name}. Where is it?
Where on the {picture} is the {name}?
Where lies the {name}?
Where, in this {picture}, is the {name}?
Help me find the {name}.
Tell me in which part the {name} is.
Left, right, top or bottom: where is the {name}?
Where is the {name} to be found?
""",
    """
Whereabouts is the {name}?
Tell me where the {name} is.
""",
)
REGION = lines_of(
    """
What is at {region}?
What is in {region}?
What object is at {region}?
What do you see at {region}?
Which object is at {region}?
Name the object at {region}.
What is this? {region}
What is that at {region}?
Describe the object at {region}.
What is here: {region}?
Tell me what is at {region}.
{region}: what is it?
What lies within {region}?
Identify the object at {region}.
""",
    """
What can be found at {region}?
Which thing is at {region}?
""",
)
READ_REGION = lines_of(
    """
Read the text at {region}.
What does the text at {region} say?
What is written at {region}?
Which text is at {region}?
What is written in {region}?
Read the text in {region}.
Read what is at {region}.
Transcribe the text at {region}.
What does it say at {region}?
Text at {region}?
OCR {region}
""",
    """
Read out the words at {region}.
What is the writing at {region}?
""",
)
WHAT_AT = lines_of(
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
What object is {place}?
What thing is {place} of the {picture}?
What is there {place}?
What stands {place}?
What lies {place} of this {picture}?
What is shown {place}?
What is located {place}?
Which object do you see {place}?
Look {place}. What is there?
Say which object is {place}.
Can you tell me what is there {place}?
Something is {place}. What is it?
""",
    """
Name the object {place}.
Tell me what is {place}.
""",
    more.WHAT_AT,
)
LARGEST = lines_of(
    """
What is the {extreme} shape?
Which shape is the {extreme}?
What is the {extreme} shape in the {picture}?
Which is the {extreme} shape?
Name the {extreme} shape.
What's the {extreme} one?
What shape is {extreme}?
Which of them is the {extreme} shape?
Tell me which shape is the {extreme}.
Say what the {extreme} shape is.
Which one is the {extreme} of all shapes?
Find the {extreme} shape and name it.
What is the {extreme} of the shapes?
Do you see which shape is the {extreme}?
""",
    """
Which of the shapes is {extreme}?
The {extreme} shape is which one?
""",
)
SIZE_OF = lines_of(
    """
Is the {name} small, medium or large?
How big is the {name}?
What size is the {name}?
What is the size of the {name}?
How large is the {name}?
Tell me the size of the {name}.
Say how big the {name} is.
Would you call the {name} small, medium or large?
What about the size of the {name}?
Give the size of the {name}.
Is the {name} big?
Tell me how big the {name} is.
Size of the {name}?
How large would you say the {name} is?
Describe the size of the {name}.
What size has the {name}?
""",
    """
What's the {name}'s size?
""",
)
READ = lines_of(
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
Read it.
Read this.
Read the {picture}.
Read all the text.
Read out the text.
Can you read the text?
What is the text?
What is the text in this {picture}?
What does the sign say?
What does this {picture} say?
Transcribe this {picture}.
Transcribe all text in the {picture}.
Write down the text.
Write out the text that you see.
Tell me what the text says.
Tell me what is written.
Give me the text.
Which text do you see?
What text is in the {picture}?
Type out the text.
text?
Text in the {picture}:
What letters and numbers are there?
Copy the text from the {picture}.
""",
    """
What words can you read?
Please read what is written.
What do the letters say?
""",
    more.READ,
)
READ_ONE = lines_of(
    """
What does the {name} text say?
Read the {name} text.
What is written in {name}?
What is the {name} text?
Which text is {name}?
What does the text in {name} say?
Read the text in {name}.
Tell me what the {name} text says.
Which text is written in {name}?
What words are in {name}?
Transcribe the {name} text.
""",
    """
What do the {name} letters say?
""",
)
LEFT_OF = lines_of(
    """
Is the {one} {relation} the {other}?
Is the {one} {relation} the {other} in the {picture}?
Does the {one} stand {relation} the {other}?
Tell me if the {one} is {relation} the {other}.
Is it true that the {one} is {relation} the {other}?
The {one} is {relation} the {other}. Right?
Can you see the {one} {relation} the {other}?
Would you say that the {one} is {relation} the {other}?
Yes or no: the {one} is {relation} the {other}.
""",
    """
Check whether the {one} is {relation} the {other}.
Do you see the {one} {relation} the {other}?
""",
    more.RELATION,
)
WHICH_IS = lines_of(
    """
Which is {extreme}, the {one} or the {other}?
Which one is {extreme}: the {one} or the {other}?
Is the {one} or the {other} {extreme}?
What is {extreme}, the {one} or the {other}?
Of the {one} and the {other}, which is {extreme}?
Tell me which is {extreme}, the {one} or the {other}.
""",
    """
Compare the {one} and the {other}. Which is {extreme}?
Say which of the two is {extreme}: the {one} or the {other}.
""",
)
# Detection in words: with a list of categories, `mention` copies the words of the list ...
DETECT_LIST = lines_of(
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
Find these: {list}
Find the following: {list}
Locate the following: {list}
Look for: {list}
Box: {list}
Bounding boxes: {list}
Boxes for: {list}
Show boxes for: {list}
Detect these: {list}
Detect these things: {list}
Detect objects: {list}
Detect objects of these kinds: {list}
Categories: {list}
Targets: {list}
Find all of these: {list}
Where are these? {list}
Annotate: {list}
Label with boxes: {list}
Localise: {list}
""",
    """
Mark with boxes: {list}
Detection targets: {list}
""",
    more.DETECT_LIST,
)
# ... and with a category in a sentence, `mention` is its singular.
DETECT_SENTENCE = lines_of(
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
Find each {one}.
Detect each {one} in the {picture}.
Locate the {many} with boxes.
Where are the {many}? Answer with boxes.
Show a box for every {one}.
Draw a bounding box around each {one}.
Draw bounding boxes around all {many} in the {picture}.
Give a box for each {one}.
I need boxes around all {many}.
Can you draw boxes around the {many}?
Return the boxes of all {many}.
Box the {many}.
Box all {many} in the {picture}.
Annotate all {many} with boxes.
Surround every {one} with a box.
Localise all {many}.
Detect {many}.
Find {many}.
Find any {many}.
Highlight all {many}.
Outline every {one} with a box.
""",
    """
Mark each {one} with a box.
Put boxes around the {many}.
""",
    more.DETECT_SENTENCE,
)
DETECT_ALL = lines_of(
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
Detect all things.
Find all things in the {picture}.
Find every object.
Find each object in the {picture}.
Locate everything.
Locate every object in the {picture}.
Box everything.
Box every object.
Draw a box around every object.
Draw boxes around all things.
Draw a bounding box around everything.
Give me the boxes of all objects.
Give the bounding box of each object.
Show boxes for all objects.
Show every object with a box.
Annotate all objects.
Annotate the {picture} with boxes.
Label all objects with boxes.
Label everything in the {picture}.
Run object detection.
Object detection
Detect objects.
Detect
Return boxes for all objects.
Which objects are there? Answer with boxes.
Segment the scene's objects.
What is where?
Surround every object with a box.
""",
    """
Put a box around each object.
Mark everything with boxes.
""",
    more.DETECT_ALL,
)
POINT = lines_of(
    """
Point to the {name}.
Point at the {name}.
Point to the {name} in the {picture}.
Show me the {name} with a point.
Point out the {name}.
Give the point of the {name}.
Put a point on the {name}.
Where is the {name}? Answer with a point.
Point out where the {name} is.
Point to where the {name} is.
Show me where the {name} is with a point.
Click on the {name}.
Tap the {name}.
Give me a point on the {name}.
Give a point for the {name}.
Where should I click to hit the {name}?
Point: {name}
Put a dot on the {name}.
Touch the {name}.
Select the {name} with a point.
""",
    """
Mark the {name} with a point.
Which point is on the {name}?
""",
    more.POINT,
)
POINT_MANY = lines_of(
    """
Point to all {many}.
Point at every {one}.
Point to every {one}.
Point out all {many}.
Put a point on every {one}.
Point to the {many}.
Mark all {many} with points.
Point to each {one}.
Give a point for every {one}.
Put a dot on all {many}.
Click on every {one}.
Show all {many} with points.
Points for all {many}.
Count the {many} by pointing.
Point at the {many} in the {picture}.
""",
    """
Mark each {one} with a point.
""",
    more.POINT_MANY,
)
# With a <hint> in the system turn, a plain question is answered in markup.
HINT_LIST = lines_of(
    """
{list}
{list}
Detect: {list}
Find: {list}
Detect {list}
Locate: {list}
Detect the following: {list}
Find the following: {list}
Find these: {list}
Targets: {list}
Categories: {list}
Where are these? {list}
Look for these: {list}
""",
    """
Search for: {list}
""",
    more.HINT_LIST,
)
HINT_SENTENCE = lines_of(
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
{many}
{one}
each {one}
Find every {one}.
Detect the {many}.
Detect {many}.
Detect every {one}.
Locate all {many}.
Locate every {one} in the {picture}.
Which {many} are there?
Where is each {one}?
Where are all the {many}?
Where in the {picture} are the {many}?
Show all {many}.
Show every {one}.
Show me every {one} in the {picture}.
Mark the {many}.
Mark every {one}.
Point at every {one}.
Count all {many}.
How many {many} do you see?
How many {many}?
Do you see any {many}?
Is there {article} in the {picture}?
Give me all {many}.
Highlight the {many}.
I need all {many}.
I want to see the {many}.
Search for {many}.
Look for {article}.
""",
    """
Where do you see {many}?
I am looking for {many}.
""",
    more.HINT_SENTENCE,
)
HINT_ONE = lines_of(
    """
Where is the {name}?
the {name}
Find the {name}.
Locate the {name}.
Show me the {name}.
What {colour} is the {name}?
Point to the {name}.
Where's the {name}?
Where do you see the {name}?
Where is the {name} in the {picture}?
Detect the {name}.
Show the {name}.
Mark the {name}.
Point at the {name}.
What is the {colour} of the {name}?
How big is the {name}?
I need the {name}.
Click on the {name}.
Locate the {name} in the {picture}.
Look for the {name}.
Is the {name} large?
Highlight the {name}.
""",
    """
Can you find the {name}?
""",
    more.HINT_ONE,
)
HINT_ALL = lines_of(
    """
Detect all objects.
Find everything.
What is in the {picture}?
Describe the {picture}.
all objects
Detect everything.
How many objects are there?
What do you see?
Find all objects.
Find every object.
Detect every object.
Detect all objects in the {picture}.
Detect all things.
Detect objects.
Detect
everything
all things
every object
Locate everything.
Locate all objects.
Mark all objects.
Mark every object.
Show me everything.
Show all objects.
What objects are there?
What objects are in the {picture}?
What is this?
Which things can you see?
What can you see in this {picture}?
What's in the {picture}?
Describe this.
Describe the scene.
Describe what you see.
Caption this {picture}.
Count everything.
Count all objects.
Annotate the {picture}.
Label everything.
Object detection
Segment the scene's objects.
List all objects.
List everything that you see.
Where is everything?
""",
    """
Everything in the {picture}.
""",
    more.HINT_ALL,
)
# About videos, as sequences of frames.
WHEN_CLIP = lines_of(
    """
When is the {name} visible? Answer with a clip.
When can the {name} be seen? Answer with a clip.
Clip the moment with the {name}.
Clip: {name}
Clip the {name}.
Mark the time of the {name} with a clip.
Give the clip in which the {name} is there.
Show me the {name} as a clip.
From when to when is the {name} there? Use a clip.
Find the clip with the {name}.
Cut out the part with the {name}.
At what time do you see the {name}? Reply with a clip.
""",
    """
Give me a clip of the {name}.
Which clip shows the {name}?
""",
)
HINT_CLIP = lines_of(
    """
When is the {name} visible?
When does the {name} appear?
When can the {name} be seen?
When do you see the {name}?
{name}
the {name}
Find the {name}.
Clip the {name}.
Clip the moment with the {name}.
From when to when is the {name} there?
At what time is the {name} there?
How long is the {name} visible?
Detect: {name}
Is there {one}?
During which part is the {name} there?
Show me when the {name} is there.
Mark the {name}.
In which seconds is the {name} on screen?
""",
    """
Tell me when the {name} is in view.
Over what time can I see the {name}?
""",
)
CLIP_ALL = lines_of(
    """
When does each thing appear?
Clip everything.
Clip all objects.
What happens?
What happens when?
Find all events.
Mark all objects.
Describe the video.
all objects
What do you see?
""",
    """
List all events.
""",
)
VIDEO_EXISTS = lines_of(
    """
Is there {one} in the video?
Does {one} appear?
Do you see {one} at any time?
Does the video show {one}?
Is {one} in the clip?
Does {one} come into the video?
Can you see {one} in this video?
Is there ever {one}?
Did {one} appear?
Is there {one}?
""",
    """
Is {one} ever visible?
Does the clip contain {one}?
""",
)
VIDEO_MOVES = lines_of(
    """
Which way does the {name} move?
In which direction does the {name} move?
Where does the {name} go?
Does the {name} move? Where to?
How does the {name} move?
What is the direction of the {name}?
Which direction does the {name} take?
Where is the {name} going?
Tell me which way the {name} goes.
In what direction is the {name} moving?
""",
    """
Which way is the {name} heading?
Say where the {name} moves.
""",
    more.VIDEO_MOVES,
)
VIDEO_FIRST = lines_of(
    """
What appears first?
Which object appears first?
What do you see first?
What comes first?
Which thing comes first?
What is seen first in the video?
What is there before the others?
Name the first object in the video.
""",
    """
Which object is the first to appear?
""",
    more.VIDEO_FIRST,
)
VIDEO_LAST = lines_of(
    """
What is seen last?
What stays longest into the end?
Which object is there last?
What is the last thing in the video?
Which object is seen last?
What is visible at the very end?
Name the last object in the video.
What disappears last?
""",
    """
Which object is the last to be seen?
""",
    more.VIDEO_LAST,
)
CHART_EXTREME = lines_of(
    """
Which bar is the {extreme}?
Which bar is {extreme}?
What is the {extreme} bar?
Which is the {extreme} bar?
Name the {extreme} bar.
Which of the bars is the {extreme}?
Tell me which bar is the {extreme}.
What's the {extreme} bar in the chart?
Which bar in the chart is the {extreme}?
Find the {extreme} bar and name it.
""",
    """
Of all bars, which is the {extreme}?
The {extreme} bar is which one?
""",
    more.CHART_EXTREME,
)
CHART_COMPARE = lines_of(
    """
Is the {one} {longer} than the {other}?
Is the {one} the {longer} one, compared with the {other}?
Would you say the {one} is {longer} than the {other}?
Look at the chart. Is the {one} {longer} than the {other}?
Tell me if the {one} is {longer} than the {other}.
Compare the {one} with the {other}. Is it {longer}?
""",
    """
Do you see the {one} being {longer} than the {other}?
""",
    more.CHART_COMPARE,
)
CHART_CAPTION = lines_of(
    """
Describe the chart.
Describe this {picture}.
What does the chart show?
What is in this {picture}?
What do you see?
Caption this chart.
What does this {picture} show?
What is shown in the chart?
Describe what you see.
What kind of {picture} is this?
""",
    """
Summarise the chart.
What can be seen in the chart?
""",
)
CHART_COUNT = lines_of(
    """
How many bars are there?
How many bars does the chart have?
Count the bars.
How many bars do you see?
What is the number of bars?
Number of bars?
How many bars are in the {picture}?
How many bars are shown?
""",
    """
How many bars can you count?
""",
    more.CHART_COUNT,
)
CHART_VALUE = lines_of(
    """
What is the value of the {name}?
Which value has the {name}?
What value is written at the {name}?
How much is the {name}?
Read the value of the {name}.
Tell me the value of the {name}.
What number stands at the {name}?
Value of the {name}?
""",
    """
What does the {name} amount to?
""",
    more.CHART_VALUE,
)
CHART_LABEL = lines_of(
    """
What is the label of the {name}?
Which label has the {name}?
What letter stands at the {name}?
Read the label of the {name}.
How is the {name} labelled?
Which letter is written at the {name}?
Label of the {name}?
""",
    """
What letter does the {name} have?
""",
    more.CHART_LABEL,
)
CHART_LABELLED = lines_of(
    """
Which bar has the label {label}?
Which bar is labelled {label}?
What is the bar with the label {label}?
Which bar stands at the letter {label}?
Name the bar with the letter {label}.
What bar does the {label} belong to?
""",
    """
Which bar carries the letter {label}?
""",
)
VIDEO_COUNT = lines_of(
    """
How many {many} appear?
How many {many} are in the video?
How many different {many} are there?
Count the {many} in the video.
How many {many} does the video show?
How many things do you see in all?
""",
    """
How many {many} can be seen in the clip?
""",
    more.VIDEO_COUNT,
)
VIDEO_CAPTION = lines_of(
    """
Describe the video.
What happens in the video?
What does the video show?
Caption this video.
What do you see in the video?
Tell me what happens.
What happens?
Describe this clip.
What is in the video?
Summarise the video.
""",
    """
Write a caption for the video.
""",
    more.VIDEO_CAPTION,
)

PICTURE_WORDS = ("picture", "image", "photo")
COLOUR_WORDS = ("colour", "color")
POLITE_BEFORE = (
    "Please ", "Please ", "Please, ", "Can you tell me: ", "Hi! ", "Hello, ", "Hey, ", "Could you help me? ", "Quick question: ",
    "Question: ", "Q: ", "Look at the picture. ", "Look at this image: ", "Here is a picture. ", "I have a question. ", "So, ",
    "Now, ", "Okay. ", "Good morning! ", "In this picture: ", "About this photo: ", "Another question: ", "Task: ",
)  # fmt: skip
POLITE_AFTER = (
    " Please.", " Thanks!", " Thank you.", " Answer briefly.", " Be brief.", " Keep it short.", " Thanks in advance.", " please",
    " Be exact.", " Look closely.", " Take your time.", " Answer in English.", " Reply with the answer only.",
)  # fmt: skip


def fill(rng: random.Random, template: str, **slots: str) -> str:
    """Fills a template, with random words for `picture` and `colour`."""
    return template.format(picture=rng.choice(PICTURE_WORDS), colour=rng.choice(COLOUR_WORDS), **slots)


def in_some_style(rng: random.Random, question: str, keep_case: bool = False) -> str:
    """Varies the spelling of gray, politeness, final punctuation and letter case, as users do."""
    if "gray" in question and rng.random() < 0.5:
        question = question.replace("gray", "grey")
    if rng.random() < 0.12:
        before = rng.choice(POLITE_BEFORE)
        question = before + (question[0].lower() + question[1:] if before in ("Please ", "Please, ", "So, ", "Now, ") and not keep_case else question)
    if rng.random() < 0.09 and not keep_case:
        question += rng.choice(POLITE_AFTER)
    if rng.random() < 0.15 and not keep_case:
        question = question.rstrip(".?!")
    choice = rng.random()
    if not keep_case and choice < 0.15:
        question = question.lower()
    elif not keep_case and choice < 0.17:
        question = question.upper()
    return question
