"""The same answers as JSON, when the question asks for it: by key, by example, or by a JSON schema."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from .questions import Exchange

# Task -> keys that the answer may be asked under.
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
SAME_AS = {"right": "left", "top": "left", "bottom": "left", "what-at": "left"}
TYPE_NAMES = {int: "integer", str: "string", bool: "boolean", list: "array"}


def as_json(rng: random.Random, exchange: Exchange) -> Exchange | None:
    """The exchange in JSON; None for tasks that have no such form."""
    task = "count" if exchange.task.startswith("count") else SAME_AS.get(exchange.task, exchange.task)
    value = _value(task, exchange)
    if value is None:
        return None
    key = rng.choice(KEYS[task])
    kind = TYPE_NAMES[type(value)]
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


def _value(task: str, exchange: Exchange) -> Any:
    answer = exchange.answer
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
    if task in ("left", "kind"):
        return bare.split(" ", 1)[1] if bare.startswith(("a ", "an ")) else None
    return bare if task in KEYS else None
