"""The same answers as JSON: when the question asks for it, by key, by example or by a JSON schema; and when only the client's schema does, which the
server shows as the model's card says (`SCHEMA_PROMPT`), or not at all."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

from .markup import Annotation, parse_annotations
from .questions import Exchange
from .world import Scene
from .world.text import WORDS

# Task -> possible keys of the answer.
KEYS: dict[str, tuple[str, ...]] = {
    "count": ("count", "number", "n", "total", "amount", "how_many", "answer", "result"),
    "colour": ("color", "colour", "answer", "value", "result"),
    "exists": ("present", "exists", "found", "answer", "visible", "result"),
    "relation": ("true", "correct", "answer", "result"),
    "where": ("position", "place", "location", "where", "answer"),
    "read": ("text", "words", "content", "answer", "ocr"),
    "size": ("size", "answer", "object"),
    "left": ("object", "name", "answer", "thing"),
    "kind": ("shape", "object", "answer"),
    "caption": ("objects", "things", "items", "contents"),
}
SAME_AS = {"right": "left", "top": "left", "bottom": "left", "what-at": "left", "region": "left", "read region": "read"}
SCHEMA_PROMPT = "Answer as JSON with this schema: {schema}"  # The `schemaPrompt` of the card.
TYPE_NAMES = {int: "integer", str: "string", bool: "boolean", list: "array"}


def as_json(rng: random.Random, exchange: Exchange) -> Exchange | None:
    """The exchange in JSON; None for tasks without a JSON form."""
    value = bare_value(exchange)
    if value is None:
        return None
    key = rng.choice(keys_for(exchange))
    kind = TYPE_NAMES[type(value)]
    # Not by `schema_of`: the evaluation asks with this, and would have other questions after it.
    schema: dict[str, Any] = {"type": kind, "items": {"type": "string"}} if kind == "array" else {"type": kind}
    whole = {"type": "object", "properties": {key: schema}, "required": [key]}
    if rng.random() < 0.5:
        whole["additionalProperties"] = False
    ask = rng.choice(
        (
            f'Answer as JSON: {{"{key}": {kind}}}',
            f'Reply in JSON: {{"{key}": ...}}',
            f'Answer in JSON with the key "{key}".',
            f'Return a JSON object with the key "{key}".',
            f'Use JSON. Key: "{key}"',
            f"Answer as JSON with this schema: {json.dumps(whole)}",
            f"Return JSON that matches the schema {json.dumps(whole)}",
            f"JSON schema: {json.dumps(whole, separators=(',', ':'))}",
        )
    )
    question = exchange.question + rng.choice((" ", " ", "\n")) + ask
    return replace(exchange, task="JSON", question=question, answer=json.dumps({key: value}, ensure_ascii=False))


def with_schema(rng: random.Random, exchange: Exchange) -> Exchange:
    """An exchange whose question asks for JSON, with a schema after the question that also binds the reply."""
    return replace(exchange, question=_shown(rng, exchange.question, json.loads(exchange.answer)))


def _shown(rng: random.Random, question: str, value: Any) -> str:
    """The question with a schema of the value, in the server's wording."""
    return question + "\n" + SCHEMA_PROMPT.format(schema=schema_of(rng, value))


def _form(exchange: Exchange) -> str:
    """The task whose keys are its."""
    return "count" if exchange.task.startswith("count") else SAME_AS.get(exchange.task, exchange.task)


def keys_for(exchange: Exchange) -> tuple[str, ...]:
    """The possible keys of the answer."""
    return KEYS[_form(exchange)]


def bare_value(exchange: Exchange) -> int | bool | str | list[str] | None:
    """The answer without the words around it; None for tasks without such a form."""
    task, answer = _form(exchange), exchange.answer
    bare = answer.rstrip(".").lower()
    if task == "count":
        return int(answer)
    if task == "exists":
        return answer == "Yes."
    if task == "relation":
        return {"yes": True, "no": False}.get(bare)
    if task == "read":
        return answer if len(exchange.printed) == 1 else None
    if task == "caption":
        # "A red star, a blue ring and a cat." -> names; printed words would need quoting twice.
        if exchange.printed:
            return None
        return [part.strip().split(" ", 1)[1] for part in bare.replace(" and ", ", ").split(", ")]
    if task not in KEYS:
        return None
    if bare.startswith(("a ", "an ")):
        return bare.split(" ", 1)[1]
    return bare if task not in ("left", "kind") else None


# ---- Bound by a schema ----------------------------------------------------------------------------------------------

# A client's schema binds the reply, so the server leaves the model no choice of how it begins. What follows must be learnt all the same: version 11
# answered "How many squares?" with {"count": 206333333333333}, and all its exercises in JSON had asked for JSON in words.
LISTS = ("objects", "items", "detections", "things", "results", "found", "list")
LABELS = ("label", "name", "category", "mention", "object", "class", "type", "what")
BOXES = ("bbox_2d", "box", "bbox", "bounding_box", "rect")
CORNERS = (("x1", "y1", "x2", "y2"), ("left", "top", "right", "bottom"), ("xmin", "ymin", "xmax", "ymax"))
POINTS = ("point_2d", "point", "position", "center", "centre")
SENTENCES = ("description", "caption", "summary", "text", "answer")
COLOURS = ("color", "colour")
SHAPES = ("shape", "kind", "type", "object")
ASKED = (" Answer in JSON.", " Reply as JSON.", " Use JSON.", " Return JSON.")
SHOWN = 0.65  # Share of the schemas that the model sees.
PYDANTIC = 0.35  # Share of these in the form of that library, which `parse` of the `openai` client sends.
DESCRIBED = 0.12  # Share of the properties with a description.
DESCRIPTIONS = ("What is asked for", "The answer", "As seen in the picture", "One word", "In a few words", "All that are visible", "0 to 1000", "Never empty")
BARE_LIST = re.compile(r"\[")  # The model must learn whether there is anything to list.
OPENING = re.compile(r'\{"[^"]*":|[\[{]+"')  # Up to the first value, or into the first key or text.


def bound_json(rng: random.Random, exchange: Exchange, scene: Scene) -> Exchange | None:
    """The exchange about `scene` with an answer in JSON of some schema; None for tasks without such a form.

    The schema follows the question, or the model does not see it at all. The start of the reply is not trained on, because the schema
    decides it. Some answers are a bare word, as with a regular expression.
    """
    word = bare_value(exchange)
    if isinstance(word, str) and not exchange.printed and rng.random() < 0.15:
        return replace(exchange, task="JSON", answer="", begun=word)  # Only its end has to be learnt.
    value = _bound_value(rng, exchange, scene)
    if not isinstance(value, dict | list):
        return None
    text = json.dumps(value, ensure_ascii=False)
    opening = OPENING.match(text) if value and rng.random() < (0.7 if isinstance(value, list) else 1.0) else BARE_LIST.match(text)
    if opening is None:
        return None
    begun = text[: text.index('"') + 1 if opening.re is OPENING and rng.random() < 0.4 else opening.end()]
    question = exchange.question
    if rng.random() < 0.2:
        question += rng.choice(ASKED)
    if rng.random() < SHOWN:
        question = _shown(rng, question, value)
    return replace(exchange, task="JSON", question=question, answer=text[len(begun) :], begun=begun)


def _bound_value(rng: random.Random, exchange: Exchange, scene: Scene) -> Any:
    task = _form(exchange)
    if task in ("detect", "detect all", "point", "point many"):
        return _placed(rng, exchange)
    if task == "caption":
        return _described(rng, exchange, scene)
    if task == "read" and len(exchange.printed) > 1:
        return {_key(rng, ("lines", "texts", "words", "text")): list(exchange.printed)}
    value: Any = bare_value(exchange)
    if value is None:
        return None
    if isinstance(value, bool) and rng.random() < 0.2:
        value = "yes" if value else "no"
    elif isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.1:
        value = str(value)
    return {_key(rng, keys_for(exchange)): value}


def _key(rng: random.Random, usual: tuple[str, ...]) -> str:
    """A usual one, or what a client may have made of it."""
    key = rng.choice(usual)
    style = rng.random()
    if style < 0.6:
        return key
    if style < 0.72:
        return rng.choice(("the", "my", "image", "picture", "main", "total", "num", "is")) + "_" + key
    if style < 0.84:
        return rng.choice(("the", "image", "picture", "main", "detected", "is")) + key.title().replace("_", "")
    if style < 0.92:
        return key.capitalize()
    return rng.choice(WORDS).lower()


def _described(rng: random.Random, exchange: Exchange, scene: Scene) -> Any:
    """Of a caption: its sentence, the names of the things, or the things with their properties."""
    if scene.texts:  # Printed words would need quoting twice.
        return None
    names = [item.name for item in scene.objects]
    form = rng.random()
    if form < 0.25:
        return {_key(rng, SENTENCES): exchange.answer}
    if form < 0.4:
        return {_key(rng, KEYS["caption"]): names}
    if form < 0.5:
        return names
    if form < 0.8 and all(item.colour for item in scene.objects):
        colour, shape = rng.choice(COLOURS), rng.choice(SHAPES)
        things = [{shape: item.kind, colour: item.colour} for item in scene.objects]
        if rng.random() < 0.4:
            things = [{colour: item.colour, shape: item.kind} for item in scene.objects]
        return things if rng.random() < 0.3 else {_key(rng, LISTS): things}
    parts = {rng.choice(SENTENCES): exchange.answer, rng.choice(LISTS): names, rng.choice(KEYS["count"]): len(names)}
    keys = rng.sample(list(parts), rng.choice((2, 2, 3)) if len(parts) > 2 else 2)
    return {key: parts[key] for key in keys}


def _placed(rng: random.Random, exchange: Exchange) -> Any:
    """Of annotations: a list of things with numbers on the grid 0..1000, or of the only point just these."""
    found, rest = parse_annotations(exchange.answer)
    if rest and found:
        return None
    label = rng.choice(LABELS)
    flat = rng.random() < 0.25
    corners, box, point = rng.choice(CORNERS), rng.choice(BOXES), rng.choice(POINTS)

    def numbers(annotation: Annotation) -> dict[str, Any]:
        values = [value for pair in annotation.points for value in pair]
        if annotation.tag == "point":
            return dict(zip("xy", values, strict=True)) if flat else {point: values}
        return dict(zip(corners, values, strict=True)) if flat else {box: values}

    if exchange.task == "point" and len(found) == 1 and rng.random() < 0.5:
        return numbers(found[0])
    things = [{label: annotation.mention, **numbers(annotation)} for annotation in found]
    return things if rng.random() < 0.4 else {_key(rng, LISTS): things}


def schema_of(rng: random.Random, value: Any) -> str:
    """A schema that the value satisfies, as text without blanks, in the server's form."""
    definitions: dict[str, Any] = {}
    pydantic = rng.random() < PYDANTIC
    closed = rng.random() < 0.6
    exact = rng.random() < 0.6

    def form(inner: Any, name: str) -> dict[str, Any]:
        titled = {"title": name.title().replace("_", " ")} if pydantic else {}
        described = {"description": rng.choice(DESCRIPTIONS)} if name and rng.random() < DESCRIBED else {}
        if isinstance(inner, dict):
            properties = {key: form(part, key) for key, part in inner.items()}
            whole: dict[str, Any] = {"type": "object", **described, "properties": properties, "required": list(inner)}
            if closed:
                whole["additionalProperties"] = False
            if not pydantic:
                return whole
            whole = dict(sorted((whole | titled).items()))
            if not name:
                return whole
            definition = name.title().replace("_", "").removesuffix("s")
            definitions[definition] = whole
            whole["title"] = definition
            return {"$ref": f"#/$defs/{definition}"}
        if isinstance(inner, list):
            inner = inner or [{rng.choice(LABELS): "", rng.choice(BOXES): [0, 0, 0, 0]}]  # Of what was not found.
            items = form(inner[0], name if isinstance(inner[0], dict) else "")
            items.pop("title", None)
            exactly = {"minItems": len(inner), "maxItems": len(inner)} if isinstance(inner[0], int) and exact else {}
            kind = {"type": "array", "items": items, **exactly}
        else:
            kind = {"type": TYPE_NAMES[type(inner)]}
        return dict(sorted({**kind, **titled, **described}.items())) if pydantic else {**kind, **described}

    schema = form(value, "")
    if pydantic:
        schema = ({"$defs": definitions} if definitions else {}) | schema | {"title": rng.choice(("Answer", "Reply", "Result", "Output", "Scene"))}
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
