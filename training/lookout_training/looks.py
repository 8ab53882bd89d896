"""Where the answer's next token comes from: the centre of the object that is written, the character that is read, or the token of the
prompt that a function call repeats.

Two attention heads of the language model are trained to look there. Without this, a network finds what it needs among hundreds of
tokens only by trial: it takes letters from the wrong line and puts coordinates between two objects of a kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .questions import Exchange, with_article
from .tokenizer import Tokenizer
from .world import Scene, SceneObject


class Place(NamedTuple):
    """A place, as shares of the image's width and height."""

    x: float
    y: float
    printed: bool  # Whether it is the place of a character, not of an object.


LEAF = re.compile(r'<(?:point_box|point|polygon) mention="[^"<>]*"> ((?:\(\d+,\d+\) )+)</')
PAIR = re.compile(r"\((\d+),(\d+)\)")
ITEM = re.compile(r"\{[^{}]*\}")  # A thing in JSON.
NUMBER = re.compile(r"\d+")
QUOTED = re.compile(r'"([^"]*)"')


def places_of(exchange: Exchange, tokens: list[int], tokenizer: Tokenizer, scene: Scene) -> list[Place | None]:
    """The place in `scene` of each token of the encoded answer; None where there is no place or more than one."""
    by_character = _by_character(exchange, scene)
    places: list[Place | None] = []
    offset = 0
    for token in tokens:
        places.append(by_character[offset] if offset < len(by_character) else None)
        offset += len(tokenizer.decode([token]))
    return places


def _by_character(exchange: Exchange, scene: Scene) -> list[Place | None]:
    answer = exchange.answer
    places: list[Place | None] = [None] * len(answer)
    said = answer.find("</think>") + 1  # A thought may be about another image.
    for match in LEAF.finditer(answer, said):
        points = [(int(x) / 1000, int(y) / 1000) for x, y in PAIR.findall(match[1])]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        places[match.start() : match.end()] = [Place((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2, printed=False)] * len(match[0])
    if exchange.task == "JSON":
        places[:] = _places_in_json(exchange.begun + answer, scene)[len(exchange.begun) :]
    if exchange.task in ("caption", "which"):
        _place_names(answer, scene, places)
    position = 0
    for word in exchange.printed:
        begin = answer.find(f'"{word}"', position) + 1 or answer.index(word, position)
        position = begin + len(word)
        items = [item for item in scene.texts if item.text == word]
        if len(items) != 1:
            continue
        _, top, _, bottom = items[0].box
        for character in items[0].characters:
            x = (character.left + character.right) / 2 / scene.width
            places[begin + character.index] = Place(x, (top + bottom) / 2 / scene.height, printed=True)
    return places


def _places_in_json(text: str, scene: Scene) -> list[Place | None]:
    """Things with four numbers are boxes, those with two are points; as many names or things without numbers as the scene has are the scene's."""
    places: list[Place | None] = [None] * len(text)
    names = {item.name for item in scene.objects}
    quoted = [match for match in QUOTED.finditer(text) if match[1] in names]
    things = [match for match in ITEM.finditer(text) if not NUMBER.search(match[0])]
    for matches in (quoted, things):
        if len(matches) == len(scene.objects) > 1:
            for match, item in zip(matches, scene.objects, strict=True):
                places[match.start() : match.end()] = [_centre(item, scene)] * len(match[0])
    for match in ITEM.finditer(text):
        numbers = [int(number) / 1000 for number in NUMBER.findall(QUOTED.sub("", match[0]))]
        if len(numbers) in (2, 4):
            xs, ys = numbers[::2], numbers[1::2]
            places[match.start() : match.end()] = [Place(sum(xs) / len(xs), sum(ys) / len(ys), printed=False)] * len(match[0])
    return places


def _centre(item: SceneObject, scene: Scene) -> Place:
    x, y = item.centre
    return Place(x / scene.width, y / scene.height, printed=False)


def _place_names(caption: str, scene: Scene, places: list[Place | None]) -> None:
    """A caption names the objects in the scene's order, or only those that were asked for."""
    position = 0
    for item in scene.objects:
        words = with_article(item.name) if item.text is None else f'the text "{item.text}"'
        begin = caption.lower().find(words.lower(), position)
        if begin < 0:
            continue
        position = begin + len(words)
        places[begin:position] = [_centre(item, scene)] * len(words)


class Written:
    """Text as tokens, of which the first is number `first` of its row."""

    def __init__(self, tokens: list[int], tokenizer: Tokenizer, first: int) -> None:
        pieces = [tokenizer.decode([token]) for token in tokens]
        self.text = "".join(pieces)
        self.tokens = [first + index for index, piece in enumerate(pieces) for _ in piece]  # Of each character.

    def starts(self) -> Iterator[tuple[int, int]]:
        """Each token and its first character."""
        last = -1
        for character, token in enumerate(self.tokens):
            if token != last:
                yield token, character
            last = token


class Definition(NamedTuple):
    """A function in the system turn."""

    text: str
    tokens: list[int]  # Of each character.


NAMED = re.compile(r'\{"type": ?"function", ?"function": ?\{"name": ?"([^"]+)"')
DEFINITION = re.compile(rf"(?<=\n){NAMED.pattern}.*\}}(?=\n)")
CALL = re.compile(r'<tool_call>\n\{"name": "([^"]+)", "arguments": (\{.*?\})\}\n</tool_call>')
ARGUMENT = re.compile(r'"([^"]+)": (?:"([^"]*)"|(\d+))')


def definitions(prompt: Written) -> dict[str, Definition]:
    """Definitions by name, without names that occur twice."""
    found: dict[str, Definition] = {}
    twice: set[str] = set()
    for match in DEFINITION.finditer(prompt.text):
        twice |= {match[1]} & found.keys()
        found[match[1]] = Definition(match[0], prompt.tokens[match.start() : match.end()])
    return {name: definition for name, definition in found.items() if name not in twice}


def copied_from(functions: dict[str, Definition], question: Written, answer: Written) -> dict[int, int]:
    """Token that predicts a part of a call -> the token of the prompt that it copies. Parts that the prompt has several times are left out.

    `answer`: each of its tokens has the number of the token that predicts it.
    """
    sources: list[int | None] = [None] * len(answer.text)
    for call in CALL.finditer(answer.text):
        function = functions.get(call[1])
        if function is None:
            continue
        name = NAMED.match(function.text)
        sources[call.start(1) : call.end(1)] = function.tokens[name.start(1) : name.end(1)]
        for argument in ARGUMENT.finditer(answer.text, call.start(2), call.end(2)):
            key = function.text.find(f'"{argument[1]}"', function.text.find('"properties"')) + 1
            if key:
                sources[argument.start(1) : argument.end(1)] = function.tokens[key : key + len(argument[1])]
            group = 2 if argument[2] is not None else 3
            value = argument[group]
            places = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", question.text)] if value else []
            if len(places) == 1:
                sources[argument.start(group) : argument.end(group)] = question.tokens[places[0] : places[0] + len(value)]
    return {token: sources[first] for token, first in answer.starts() if sources[first] is not None}
