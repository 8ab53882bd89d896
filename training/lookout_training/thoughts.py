"""Short thoughts before the answer: first what is seen, then what follows from it."""

from __future__ import annotations

import re
from dataclasses import replace

from .markup import parse_annotations
from .questions import Exchange, enumeration, listing, with_article
from .world import Scene

OF_TOOLS = {
    "tool call": "",
    "parallel calls": "",
    "no tool": "No tool does that.",
    "chat with tools": "No tool is needed.",
    "tool result": "I have the result.",
}
CALLED = re.compile(r'<tool_call>\n\{"name": "([^"]+)"')
MOST_OBJECTS = 8  # Longer lists are not written down.


OPENING = "<think>\n"


def with_thought(exchange: Exchange, scene: Scene | None, announced: bool) -> Exchange:
    """The exchange whose answer begins with a thought, as the chat template writes `reasoning_content`.

    If the system turn asks for a thought (`announced`), the model opens it; otherwise the server has opened it.
    """
    thought, printed = _thought(exchange, scene)
    answer = f"{thought}\n</think>\n\n{exchange.answer}"
    printed = (*printed, *exchange.printed)
    if announced:
        return replace(exchange, answer=OPENING + answer, printed=printed)
    return replace(exchange, answer=answer, printed=printed, begun=OPENING)


def _thought(exchange: Exchange, scene: Scene | None) -> tuple[str, tuple[str, ...]]:
    if exchange.task in OF_TOOLS:
        called = CALLED.findall(exchange.answer)
        return (f"I call {enumeration(called)}." if called else OF_TOOLS[exchange.task]), ()
    if scene is None or exchange.task in ("chat", "no picture", "copying"):
        return "This is about no picture.", ()
    if exchange.task in ("read", "caption") or len(scene.objects) > MOST_OBJECTS:
        names = [with_article(item.name) for item in scene.objects[:MOST_OBJECTS]]
        return f"I look at {enumeration(names)}{', and more' if len(scene.objects) > MOST_OBJECTS else ''}.", ()
    printed = tuple(item.text for item in scene.objects if item.text is not None)
    seen = f"I see {listing(scene.objects)}."
    if exchange.task.startswith("count"):
        return f"{seen} I count {exchange.answer}.", printed
    found, _ = parse_annotations(exchange.answer)
    if found:
        return f"{seen} {len(found)} of them {'is' if len(found) == 1 else 'are'} asked for.", printed
    return seen, printed
