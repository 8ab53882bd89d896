"""The tokenizer's training text: all planned tasks, plain English, JSON and tool calls."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from .chat import SMALL_TALK
from .phrasings import Split
from .questions import ask_something
from .world import pick_size, render_scene
from .world.text import WORDS, random_text

EMOJI_THINGS = """
cat dog fish bird bee car bus bicycle plane boat house tree flower sun moon apple banana pizza cake cup ball guitar
phone book key clock cow pig horse mouse rabbit bear lion tiger monkey elephant frog snake turtle duck chicken penguin
owl butterfly spider snail octopus whale dolphin shark crab train truck rocket ship helicopter motorcycle tractor taxi
ambulance traffic light bridge castle tent mountain volcano rainbow cloud umbrella snowman lightning fire drop leaf
cactus mushroom rose sunflower cherry grapes lemon orange pear peach strawberry watermelon pineapple tomato carrot corn
bread cheese egg hamburger hot dog ice cream cookie coffee tea glass bottle spoon fork knife hat shirt shoe glasses
crown ring bag gift balloon lamp candle bell camera television computer laptop printer radio drum piano violin trumpet
hammer wrench scissors pencil pen envelope newspaper lock door window chair bed bathtub toilet robot ghost skull person
man woman child boy girl baby hand foot eye ear nose mouth heart star football basketball tennis ball dice chess piece
chart bar chart pie chart line chart table row column axis legend value label title percent frame photo button icon menu
""".split()
ENGLISH = """
The quick brown fox jumps over the lazy dog. I can see pictures, count objects, read text and point to things.
Hello! How can I help you today? I am sorry, I do not know that. Please send me a picture. Thank you very much.
You are a helpful assistant. Answer the question about the image in one word. Answer with yes or no. Think step by step.
You are a careful vision assistant. Reply in English. Keep your answers short. Use only the information in the picture.
First I look at the picture. I see two cats and a red car. There are three of them, so the answer is three.
The left one is larger than the right one. It is above the blue square and below the green circle, next to the tree.
The ball moves from left to right. The light turns green after two seconds. The video shows a car that stops at the door.
In the first picture there is a house; in the second picture there is a boat. What changed between the two pictures?
When does the ball hit the wall? How long does the bird stay? What happens first? What happens next? What happens last?
What is said in the audio? I hear the word seven. The voice says open the door. Two beeps, one high and one low.
The highest bar is Tuesday with a value of 42. The total of all bars is 120. The second slice is the smallest.
Which of these is not like the others? What is the sum of the numbers? What time is it? It is a quarter past three.
Because the picture is too small I need to zoom in. Let me look closer at the top right corner of the image.
If there is no such object, say none. Otherwise list every object with its box. Return the result as JSON.
I cannot see that. There is nothing like that here. This is not a real photo. It was drawn by a computer program.
north south east west Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June
July August September October November December one two three four five six seven eight nine ten eleven twelve
zero first second third last next before after above below between inside outside behind front near far left right
""".strip().splitlines()
TOOL_NAMES = [
    "get_weather",
    "set_light",
    "search",
    "open_door",
    "turn_on",
    "turn_off",
    "play_music",
    "send_message",
    "set_lamp",
    "focus",
    "zoom",
    "calculate",
    "create_event",
    "book_table",
]
PROPERTIES = [
    "location",
    "color",
    "query",
    "name",
    "room",
    "state",
    "value",
    "text",
    "date",
    "time",
    "city",
    "count",
    "x",
    "y",
    "box",
    "label",
    "unit",
    "id",
    "url",
    "price",
]


def _json_texts(rng: random.Random) -> Iterator[str]:
    for _ in range(700):
        names = rng.sample(PROPERTIES, rng.randint(1, 4))
        types = ["string", "number", "integer", "boolean", "array"]
        properties = {name: {"type": rng.choice(types), "description": f"The {name} of the object to find."} for name in names}
        schema = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
        function = {"name": rng.choice(TOOL_NAMES), "description": "Does one thing with the given arguments.", "parameters": schema}
        yield json.dumps({"type": "function", "function": function})
        yield json.dumps(
            {"name": function["name"], "arguments": {name: rng.choice(["Paris", "red", True, 3, 21.5, None]) for name in names}}
        )
        yield json.dumps(
            {
                "count": rng.randrange(10),
                "objects": [{"label": rng.choice(EMOJI_THINGS), "color": "red", "box": [1, 2, 3, 4]}],
                "answer": "yes",
                "text": random_text(rng),
            }
        )
    tools = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n"
    tools += "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n"
    yield from [tools] * 60


def _emoji_texts(rng: random.Random) -> Iterator[str]:
    forms = [
        "Detect: {0}, {1}",
        "Is there a {0} in the picture?",
        "How many {0}s are there?",
        "A {0}, a {1} and 2 {2}s.",
        "Where is the {0}?",
        "The {0} is to the left of the {1}.",
        "An orange {0}.",
    ]
    for _ in range(4000):
        yield rng.choice(forms).format(*rng.sample(EMOJI_THINGS, 3))


def corpus(pictures: int = 2500) -> Iterator[str]:
    """All texts, reproducibly."""
    rng = random.Random(20)
    for index in range(pictures):
        width, height = pick_size(rng)
        _, scene = render_scene(rng, width, height, text_heavy=index % 10 == 0)
        for hint in (None, None, None, None, "BOX", "POINT"):
            exchange = ask_something(rng, scene, rng.choice(list(Split)), hint)
            if exchange:
                yield exchange.question
                yield exchange.answer
    yield from _emoji_texts(rng)
    for word in EMOJI_THINGS + WORDS:
        yield from (word, f" {word}", f" {word.capitalize()}", word.capitalize()) * 3
    for word in WORDS:
        yield from (word.upper(), f" {word.upper()}")
    for _ in range(4000):
        yield random_text(rng)
    for sentence in ENGLISH:
        yield from [sentence] * 25
    for talk in SMALL_TALK:
        for text in (*talk.seen, *talk.held_out, talk.answer):
            yield from [text] * 10
    yield from _json_texts(rng)
    yield from ["system\n", "user\n", "assistant\n", "BOX", "POINT", "POLYGON", "CLIP", "THINK", "BOX THINK", "<tools>", "</tools>"] * 300
    yield from (f"{minute / 2} seconds" for minute in range(400))
