"""The evaluation's questions: images, charts, frame sequences, sounds and tools from seeds that no training uses.

Every question knows how to ask the server (`reply`) and how to judge the answer (`judge`).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .audio_evaluate import heard_questions
from .charts import CHART_TASKS
from .client import ChatClient, png_data_url, user_turn
from .clips import CLIP_HINT_TASKS, CLIP_TASKS
from .config import HELD_OUT_SEED
from .conversations import exemplar_task, with_focus
from .further_questions import FURTHER_TASKS
from .markup import box_leaf
from .phrasings import Split
from .questions import (
    BOX_HINT_TASKS,
    NOTHING_FOUND,
    POINT_HINT_TASKS,
    POLYGON_HINT_TASKS,
    WORD_TASKS,
    Asker,
    Exchange,
    box_of,
    count_kind,
    grid_point,
    matches,
)
from .scoring import CALLS, CLIP, FACTS, GROUNDING, JSON_VALUE, WORDS
from .structured import TYPE_NAMES, as_json, bare_value, keys_for
from .tools import ToolPrompt
from .world import PLAIN_WORLD, Scene, World, chart_as_served, pick_size, render_scene, served_size, stretched
from .world.chart import render_chart
from .world.clip import FRAME_SIZES, render_clip
from .world.text import UNSEEN_FONTS

# The shifts of the shifted world, each also available on its own: unseen fonts, colours further off, more objects, strong compression.
SHIFTS: dict[str, dict[str, Any]] = {
    "fonts": {"fonts": tuple(UNSEEN_FONTS)},
    "colours": {"colour_jitter": 26},
    "objects": {"extra_objects": 2},
    "jpeg": {"jpeg_quality": 30},
}
# Not part of the shifted world: the colours of CSS and of style guides, which people use when they try the model.
MORE_SHIFTS: dict[str, dict[str, Any]] = {"shades": {"shades": 1.0}}
TEXT_HEAVY = 0.12  # Share of the images.
UNSEEN_PHRASINGS = 4  # After this many questions, one more has a phrasing that training does not use: a fifth of all.
SHORT_WORD = 6  # Letters.

Reply = Callable[[ChatClient], str]


@dataclass
class Question:
    """One request and its ground truth."""

    row: str
    split: Split
    shifted: bool
    question: str
    truth: str
    judge: str  # How the answer is compared with the ground truth; see `scoring`.
    reply: Reply
    answer: str = ""
    error: str = ""
    interval: float = 0.0  # Seconds between frames, for clips.
    extra: dict[str, Any] = field(default_factory=dict)


def hint(word: str) -> dict[str, Any]:
    return {"system": f"<hint>{word}</hint>"}


def annotations(form: str) -> dict[str, Any]:
    return {"vision_config": {"annotation_format": form}}


# Row -> how to ask about one image, and extra arguments of ChatClient.ask.
PICTURE_ROWS: dict[str, tuple[Asker, dict[str, Any]]] = {
    **{task: (WORD_TASKS[task][0], {}) for task in WORD_TASKS if task not in ("detect", "detect all", "point", "point many", "read", "region", "read region")},
    "count kind, thinking": (count_kind, {"reasoning_effort": "low"}),
    "detect, in words": (WORD_TASKS["detect"][0], {}),
    "detect, hint": (BOX_HINT_TASKS["hint detect"][0], hint("BOX")),
    "detect, annotation_format": (BOX_HINT_TASKS["hint detect"][0], annotations("box")),
    "detect one, hint": (BOX_HINT_TASKS["hint one"][0], hint("BOX")),
    "detect all, in words": (WORD_TASKS["detect all"][0], {}),
    "detect all, hint": (BOX_HINT_TASKS["hint all"][0], hint("BOX")),
    "point, in words": (WORD_TASKS["point"][0], {}),
    "point, hint": (POINT_HINT_TASKS["hint point"][0], hint("POINT")),
    "point, annotation_format": (POINT_HINT_TASKS["hint point"][0], annotations("point")),
    "polygon, annotation_format": (POLYGON_HINT_TASKS["hint polygon"][0], annotations("polygon")),
}
# The same for further questions; the second for images with text.
FURTHER_ROWS: dict[str, tuple[Asker, dict[str, Any]]] = {
    row: (FURTHER_TASKS[None][task][0], {})
    for row, task in (("which", "which"), ("colours of", "colours of"), ("count two kinds", "count two"), ("detect two, in words", "detect two"))
}
TEXT_ROWS: dict[str, tuple[Asker, dict[str, Any]]] = {
    "detect text by its words": (FURTHER_TASKS[None]["detect text"][0], {}),
    "point to text by its words": (FURTHER_TASKS["POINT"]["hint text"][0], annotations("point")),
}


def is_grounding(row: str) -> bool:
    return row.startswith(("detect", "point", "polygon"))


def _attempt(ask: Callable[[], Exchange | None]) -> Exchange | None:
    """Tries a task several times, because this scene may allow only some of its variants."""
    return next((exchange for exchange in (ask() for _ in range(3)) if exchange), None)


def _splits(index: int) -> tuple[Split, ...]:
    return (Split.SEEN, Split.HELD_OUT) if index % UNSEEN_PHRASINGS == 0 else (Split.SEEN,)


def shifted_world(shifts: Iterable[str] = SHIFTS) -> World:
    """The shifted world, or one with a given selection of SHIFTS and MORE_SHIFTS."""
    changes: dict[str, Any] = {}
    for shift in shifts:
        changes |= (SHIFTS | MORE_SHIFTS)[shift]
    return replace(PLAIN_WORLD, **changes)


def picture_questions(pictures: int, shifted: bool = False, shifts: Iterable[str] = SHIFTS) -> Iterator[Question]:
    """Yields each row once per image, where the image allows it. `shifts` is as in `shifted_world`."""
    world = shifted_world(shifts) if shifted else PLAIN_WORLD
    first = HELD_OUT_SEED + (100_000 if shifted else 10_000)
    for index in range(pictures):
        rng = random.Random(first + index)
        size = pick_size(rng)
        pixels, scene = render_scene(rng, *size, text_heavy=rng.random() < TEXT_HEAVY, world=world)
        picture, scene = png_data_url(pixels), stretched(scene, *served_size(*size))  # Lists are in the order of what the model sees.
        for split in _splits(index):
            yield from _asked(PICTURE_ROWS, rng, scene, picture, split, shifted)
            yield from _json_questions(rng, scene, picture, split, shifted)
            yield from _schema_questions(random.Random(first + 70_000 + index), scene, picture, split, shifted)
            region = WORD_TASKS["region"][0](random.Random(first + 50_000 + index), scene, split)
            if region:
                yield Question("region", split, shifted, region.question, region.answer, WORDS, _about(region.question, picture, {}))
            yield from _asked(FURTHER_ROWS, random.Random(first + 80_000 + index), scene, picture, split, shifted)
        pixels, scene = render_scene(rng, *size, text_heavy=True, world=world)
        picture, scene = png_data_url(pixels), stretched(scene, *served_size(*size))
        for split in _splits(index):
            exchange = _attempt(lambda rng=rng, scene=scene, split=split: WORD_TASKS["read"][0](rng, scene, split))
            if exchange and exchange.printed:
                short = len(exchange.printed) == 1 and len(exchange.answer) <= SHORT_WORD and " " not in exchange.answer
                row = "read, word" if short else "read, lines"
                yield Question(row, split, shifted, exchange.question, exchange.answer, WORDS, _about(exchange.question, picture, {}))
            exchange = WORD_TASKS["read region"][0](random.Random(first + 60_000 + index), scene, split)
            if exchange:
                yield Question("read region", split, shifted, exchange.question, exchange.answer, WORDS, _about(exchange.question, picture, {}))
            yield from _asked(TEXT_ROWS, random.Random(first + 90_000 + index), scene, picture, split, shifted)
        yield from _detect_questions(rng, size, world, shifted)


def _asked(rows: dict[str, Any], rng: random.Random, subject: Any, picture: str, split: Split, shifted: bool = False) -> Iterator[Question]:
    """Yields each row once about a scene or a chart, where that allows it."""
    for row, (ask, extra) in rows.items():
        exchange = _attempt(lambda ask=ask: ask(rng, subject, split))
        if exchange:
            judge = GROUNDING if is_grounding(row) else FACTS if row == "caption" else WORDS
            yield Question(row, split, shifted, exchange.question, exchange.answer, judge, _about(exchange.question, picture, extra))


def _about(question: str, picture: str | None, extra: dict[str, Any]) -> Reply:
    return lambda client: client.ask(question, picture, **extra)


def _json_questions(rng: random.Random, scene: Scene, picture: str, split: Split, shifted: bool) -> Iterator[Question]:
    """An answer bound to a JSON schema; the question asks for JSON too, and names the key."""
    exchange = _attempt(lambda: rng.choice([WORD_TASKS[task][0] for task in ("count kind", "colour", "exists")])(rng, scene, split))
    structured = as_json(rng, exchange) if exchange else None
    if not exchange or not structured:
        return
    (key, value), *_ = json.loads(structured.answer).items()
    form = _bound_to(_object({key: {"type": TYPE_NAMES[type(value)]}}))
    yield Question("JSON schema", split, shifted, structured.question, structured.answer, JSON_VALUE, _about(structured.question, picture, form))


# Keys that no training answer uses, for each kind of value.
UNSEEN_KEYS = {int: "quantity", str: "verdict", bool: "holds"}
LONGEST_LIST = 200  # Tokens, more than the names of any scene need. A model that does not know the form would continue to the limit.


def _schema_questions(rng: random.Random, scene: Scene, picture: str, split: Split, shifted: bool) -> Iterator[Question]:
    """Answers bound to a JSON schema that the question does not mention, as from clients that leave the form to `response_format`."""
    task = rng.choice(("count kind", "count colour", "colour", "exists", "where", "left"))
    exchange = _attempt(lambda: WORD_TASKS[task][0](rng, scene, split))
    value = bare_value(exchange) if exchange else None
    if exchange and value is not None:
        key = rng.choice(keys_for(exchange)) if split is Split.SEEN else UNSEEN_KEYS[type(value)]
        form = _bound_to(_object({key: {"type": TYPE_NAMES[type(value)]}}))
        yield Question("schema alone", split, shifted, exchange.question, json.dumps({key: value}), JSON_VALUE, _about(exchange.question, picture, form))
    exchange = WORD_TASKS["caption"][0](rng, scene, split)
    if exchange and not scene.texts:
        form = _bound_to(_object({"objects": {"type": "array", "items": {"type": "string"}}}))
        truth = json.dumps({"objects": [item.name for item in scene.objects]})
        yield Question("schema alone, list", split, shifted, exchange.question, truth, JSON_VALUE, _about(exchange.question, picture, {**form, "limit": LONGEST_LIST}))
    exchange = WORD_TASKS["detect"][0](rng, scene, split)
    if exchange:
        corners = {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4}
        form = _bound_to({"type": "array", "items": _object({"label": {"type": "string"}, "bbox_2d": corners})})
        asked = _in_markup(_about(exchange.question, picture, form))
        yield Question("detect, schema alone", split, shifted, exchange.question, exchange.answer, GROUNDING, asked)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _bound_to(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}


def _in_markup(ask: Reply) -> Reply:
    def reply(client: ChatClient) -> str:
        """The boxes of a JSON list as markup. A list that was cut off stays unchanged and counts as malformed."""
        text = ask(client)
        try:
            boxes = [(thing["label"], thing["bbox_2d"]) for thing in json.loads(text)]
        except ValueError:
            return text
        return "\n".join(box_leaf(label, (left, top), (right, bottom)) for label, (left, top, right, bottom) in boxes) or NOTHING_FOUND

    return reply


def _detect_questions(rng: random.Random, size: tuple[int, int], world: World, shifted: bool) -> Iterator[Question]:
    """The detect endpoint: by category, everything, by exemplar (every third with a negative one)."""
    task = exemplar_task(rng, *size, negative=rng.random() < 0.33, world=world)
    pixels, scene = task.target
    media = {"type": "image", "image_url": png_data_url(pixels)}
    categories = sorted({item.kind for item in scene.objects})[:2]
    found = "\n".join(box_of(scene, item, name) for item in scene.objects for name in categories if matches(item, name))
    everything = "\n".join(box_of(scene, item, item.name) for item in scene.objects)
    exemplar_pixels, exemplar_scene = task.exemplar
    shown = [{"mention": task.label, "point_box": _corners(item.box, exemplar_scene)} for item in task.shown]
    exemplars = [{"media": {"type": "image", "image_url": png_data_url(exemplar_pixels)}, "annotations": shown}]
    negatives = [{"media": {"type": "image", "image_url": png_data_url(task.negative[0])}}] if task.negative else []
    for row, body, truth in (
        ("detect endpoint, categories", {"categories": categories}, found),
        ("detect endpoint, everything", {}, everything),
        ("detect endpoint, exemplar", {"exemplars": exemplars, "negative_exemplars": negatives}, task.answer),
    ):
        ask = _detect({"media": media, **body}, scene)
        yield Question(row, Split.SEEN, shifted, ", ".join(categories) if "categories" in body else row, truth, GROUNDING, ask)


def _corners(box: tuple[float, float, float, float], scene: Scene) -> dict[str, dict[str, int]]:
    left, top, right, bottom = box
    limits = (scene.width - 1, scene.height - 1)
    corners = [tuple(max(0, min(limit, round(value))) for value, limit in zip(corner, limits, strict=True)) for corner in ((left, top), (right, bottom))]
    (x0, y0), (x1, y1) = corners
    return {"top_left": {"x": x0, "y": y0}, "bottom_right": {"x": x1, "y": y1}}


def _detect(body: dict[str, Any], scene: Scene) -> Reply:
    def reply(client: ChatClient) -> str:
        """The detections, which are in pixels, as markup."""
        lines = []
        for detection in client.post("/detect", body)["detections"]:
            box = detection["point_box"]
            corners = [grid_point(scene, box[name]["x"], box[name]["y"]) for name in ("top_left", "bottom_right")]
            lines.append(box_leaf(detection["mention"], *corners))
        return "\n".join(lines) or "None."

    return reply


def focus_questions(pictures: int) -> Iterator[Question]:
    """Questions about text that is too small to read in the image that the model sees first."""
    for index in range(pictures):
        rng = random.Random(HELD_OUT_SEED + 300_000 + index)
        for split in _splits(index):
            talk = with_focus(rng, *pick_size(rng), split)
            while talk.task != "focus" or talk.original is None:
                talk = with_focus(rng, *pick_size(rng), split)
            question, truth, picture = talk.question, talk.pieces[-1][0], png_data_url(talk.original)
            tools = {"vision_config": {"internal_tools": {"focus": True}}}
            yield Question("read small text, focus", split, False, question, truth, WORDS, _about(question, picture, tools))
            yield Question("read small text, no focus", split, False, question, truth, WORDS, _about(question, picture, {}))


def clip_questions(clips: int) -> Iterator[Question]:
    """Frame sequences as `video_frames`."""
    for index in range(clips):
        rng = random.Random(HELD_OUT_SEED + 400_000 + index)
        frames, clip = render_clip(rng, *rng.choice(FRAME_SIZES))
        while len(frames) < 2:
            frames, clip = render_clip(rng, *rng.choice(FRAME_SIZES))
        sent = [
            {"image_url": {"url": png_data_url(np.asarray(frame))}, "timestamp_ms": round(1000 * time)}
            for frame, time in zip(frames, clip.times, strict=True)
        ]
        interval = clip.times[1] - clip.times[0]
        rows = {
            **{task: (ask, {}) for task, (ask, _) in CLIP_TASKS.items()},
            "clip, annotation_format": (CLIP_HINT_TASKS["hint clip"][0], annotations("clip")),
        }
        for split in _splits(index):
            for row, (ask, extra) in rows.items():
                exchange = _attempt(lambda rng=rng, clip=clip, ask=ask, split=split: ask(rng, clip, split))
                if exchange:
                    judge = CLIP if row.startswith("clip") else WORDS
                    asked = _about(exchange.question, None, {"frames": sent, **extra})
                    yield Question(row, split, False, exchange.question, exchange.answer, judge, asked, interval=interval)


def chart_questions(charts: int) -> Iterator[Question]:
    """Questions about bar charts only, and detection of their bars."""
    rows = {
        **{task: (ask, {}) for task, (ask, _) in CHART_TASKS.items()},
        "detect bars": (lambda rng, chart, split: BOX_HINT_TASKS["hint all"][0](rng, chart.scene, split), annotations("box")),
    }
    for index in range(charts):
        rng = random.Random(HELD_OUT_SEED + 600_000 + index)
        pixels, chart = render_chart(rng, *pick_size(rng))
        picture, (_, chart) = png_data_url(pixels), chart_as_served(pixels, chart)
        for split in _splits(index):
            yield from _asked(rows, rng, chart, picture, split)


CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.S)


def tool_questions(prompts: int) -> Iterator[Question]:
    """Requests that need one call, several, or a tool that is not offered, and results to put into words."""
    for index in range(prompts):
        rng = random.Random(HELD_OUT_SEED + 500_000 + index)
        for split in _splits(index):
            prompt = ToolPrompt(rng, split)
            for _ in range(3):
                task, asked, answer = prompt.ask(rng, split)
                calls = [json.loads(call) for call in CALL.findall(answer)]
                truth, judge = (json.dumps(calls), CALLS) if calls or task == "no tool" else (answer, WORDS)
                messages = _messages(asked)
                yield Question(task, split, False, asked, truth, judge, _with_tools(messages, prompt.schemas))


def _messages(asked: str) -> list[dict[str, Any]]:
    """The turns of a question that contains earlier turns in the model's own format."""
    turns = asked.split("<|im_end|>\n")
    messages = [user_turn(turns[0])]
    if len(turns) > 1:
        call = json.loads(CALL.findall(turns[1])[0])
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]})
        result = turns[2].split("<tool_response>\n")[1].split("\n</tool_response>")[0]
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": result})
    return messages


def _with_tools(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
    def reply(client: ChatClient) -> str:
        """The calls as a JSON list, or the model's text."""
        message = client.chat({"messages": messages, "tools": tools, "max_completion_tokens": 300})
        calls = [call["function"] for call in message.get("tool_calls") or []]
        try:
            read = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls]
        except ValueError:  # Cut off by the limit.
            return f"{calls}"
        return json.dumps(read) if read else message["content"] or ""

    return reply


def sound_questions(sounds: int) -> Iterator[Question]:
    """Questions about audio; see `audio_evaluate`."""
    for row, split, picture, question, truth, extra in heard_questions(sounds) if sounds else ():
        yield Question(row, split, False, question, truth, WORDS, _about(question, picture or None, extra))
