"""Tests of all tasks but questions about one image: tools, thoughts, JSON, exemplars, focus, videos, and the evaluation's questions."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import Any

import jinja2
import numpy as np
import pytest
from PIL import Image

from lookout_training import further_questions, phrasings
from lookout_training.__main__ import MODEL_DIRECTORY, build_parser
from lookout_training.charts import CHART_TASKS, ask_about_chart
from lookout_training.chat import SMALL_TALK
from lookout_training.clips import CLIP_HINT_TASKS, CLIP_TASKS
from lookout_training.config import HELD_OUT_SEED
from lookout_training.conversations import FOCUS_TOOL, NAMING, exemplar_lesson, exemplar_task, naming_lesson, with_focus
from lookout_training.evaluation_set import (
    CALL,
    MORE_SHIFTS,
    SHIFTS,
    chart_questions,
    clip_questions,
    focus_questions,
    picture_questions,
    shifted_world,
    tool_questions,
)
from lookout_training.export import chat_template
from lookout_training.further_questions import FURTHER_TASKS
from lookout_training.looks import places_of
from lookout_training.markup import clip_leaf, parse_annotations, parse_clips
from lookout_training.more_phrasings import TALK
from lookout_training.more_requests import MORE_REQUESTS
from lookout_training.phrasings import Phrasings, Split
from lookout_training.prompts import END, IGNORED, MOST_REPEATED, SampleMaker
from lookout_training.questions import WORD_TASKS, grid_point, sentence, with_article
from lookout_training.scoring import CALLS, GROUNDING, clip_overlap, same_calls, same_facts
from lookout_training.stage2 import Layout, make_batch
from lookout_training.structured import SCHEMA_PROMPT, as_json, bound_json, with_schema
from lookout_training.thoughts import with_thought
from lookout_training.tokenizer import Tokenizer
from lookout_training.tools import HELD_OUT_TOOLS, MORE_TOOLS, TOOLS, VERBS, Tool, ToolPrompt, natural_tool
from lookout_training.world import CELL, COLOUR_NAMES, EMOJI_NAMES, PLAIN_WORLD, SHAPES, TRAINING_WORLD, Scene, render_scene
from lookout_training.world.chart import Chart, render_chart
from lookout_training.world.clip import render_clip
from lookout_training.world.palette import COLOURS, SHADES
from lookout_training.world.scene import World
from lookout_training.world.shapes import outline, rough_outline
from lookout_training.world.text import FONTS, MORE_FONTS, UNSEEN_FONTS, installed, load_font, random_lettering, random_text


@pytest.fixture(scope="session")
def maker() -> SampleMaker:
    return SampleMaker(Tokenizer.load())


def all_phrasings() -> dict[str, Phrasings]:
    return {name: value for module in (phrasings, further_questions) for name, value in vars(module).items() if isinstance(value, Phrasings)}


@pytest.mark.parametrize("name", list(all_phrasings()))
def test_no_phrasing_of_the_evaluation_is_trained_on(name: str) -> None:
    def plain(text: str) -> str:
        return re.sub(r"[^a-z{}]+", " ", text.lower()).strip()

    lines = all_phrasings()[name]
    assert len(lines.seen) >= 4 and lines.held_out
    assert not {plain(text) for text in lines.seen} & {plain(text) for text in lines.held_out}


def test_slips_spoil_one_word_and_no_slot() -> None:
    rng = random.Random(5)
    for lines in all_phrasings().values():
        for template in lines.seen:
            slipped = phrasings.with_slip(rng, template)
            assert re.findall(r"\{\w+\}", slipped) == re.findall(r"\{\w+\}", template)
            before, after = template.split(" "), slipped.split(" ")
            assert len(before) - len(after) in (0, 1)
            if len(before) == len(after):
                assert sum(a != b for a, b in zip(before, after, strict=True)) <= 1
    asked = [phrasings.WHERE.pick(rng, Split.MISTYPED) for _ in range(2000)]
    assert 0.05 < sum(text not in phrasings.WHERE.seen for text in asked) / len(asked) < phrasings.SLIPS
    assert not set(asked) & set(phrasings.WHERE.held_out)


def test_no_small_talk_or_tool_request_of_the_evaluation_is_trained_on() -> None:
    for talk in SMALL_TALK:
        held_out = {text.lower() for text in talk.held_out}
        assert not held_out & {text.lower() for text in talk.seen}
        assert not held_out & {talk.question(random.Random(seed), Split.SEEN).lower() for seed in range(300)}
    assert not set(VERBS) & {word for tool in HELD_OUT_TOOLS for name in tool.names for word in name.split("_") if word not in ("set", "up", "food", "room")}
    names = {name for tool in TOOLS for name in tool.names}
    assert not names & {name for tool in HELD_OUT_TOOLS for name in tool.names}
    for tool in TOOLS:
        assert not {*tool.requests, *tool.more_requests} & set(tool.held_out_requests)


def test_phrasings_for_training_alone_are_no_others_and_have_slots_that_are_filled() -> None:
    lists = [value for value in vars(phrasings).values() if isinstance(value, phrasings.Phrasings)]
    assert sum(bool(lines.more) for lines in lists) > 20
    for lines in lists:
        kept, more = ({line.lower() for line in part} for part in ((*lines.seen, *lines.held_out), lines.more))
        assert len(lines.more) == len(more) and not kept & more
        slots, filled = (set(re.findall(r"\{(\w+)\}", " ".join(part))) for part in (lines.more, lines.seen))
        assert slots <= filled | {"picture", "colour"}
        assert {lines.pick(random.Random(seed), Split.SEEN) for seed in range(300)} <= set(lines.seen)
    for talk in SMALL_TALK:
        assert not set(talk.held_out) & set(TALK[talk.seen[0]])
    assert TALK.keys() == {talk.seen[0] for talk in SMALL_TALK}
    assert MORE_REQUESTS.keys() == {tool.names[0] for tool in (*TOOLS, *MORE_TOOLS)}
    for tool in (*TOOLS, *MORE_TOOLS):
        for line in tool.more_requests:
            assert set(re.findall(r"\{(\d)\}", line)) == {str(index) for index in range(len(tool.parameters))}, line


def test_a_made_up_tool_is_not_asked_for_as_its_namesake() -> None:
    prompt = ToolPrompt(random.Random(0), Split.SEEN, made_up=1.0)
    prompt.offers = [prompt._offer(random.Random(0), Tool(("open_door",), "Open the door.", (), ("Open it.",), ()))]
    assert {prompt.request(random.Random(seed), Split.SEEN)[0] for seed in range(30)} == {"Open it."}


def render(messages: list[dict], tools: list[dict] | None = None) -> str:
    """JSON in the given order, as the server writes it."""
    environment = jinja2.Environment()
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return environment.from_string(chat_template()).render(messages=messages, tools=tools, add_generation_prompt=True)


def test_tools_in_the_system_turn_are_what_the_template_renders() -> None:
    for seed in range(30):
        prompt = ToolPrompt(random.Random(seed), Split.SEEN)
        if '":' in prompt.system.replace('": ', ""):  # Parameters without spaces, as some clients send them.
            continue
        assert render([{"role": "user", "content": "x"}], prompt.schemas).split(END)[0] == f"<|im_start|>system\n{prompt.system}"


@pytest.mark.parametrize("split", list(Split))
def test_calls_are_json_with_the_declared_names(split: Split) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        prompt = ToolPrompt(rng, split)
        declared = {schema["function"]["name"]: schema["function"]["parameters"] for schema in prompt.schemas}
        task, question, answer = prompt.ask(rng, split)
        calls = [json.loads(call) for call in CALL.findall(answer)]
        assert len(calls) == {"tool call": 1, "parallel calls": 2}.get(task, 0)
        for call in calls:
            assert list(call["arguments"]) == list(declared[call["name"]]["properties"])
            for value in call["arguments"].values():
                said = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
                assert said in question


def test_thoughts_come_before_the_answer_and_json_is_json() -> None:
    forms = 0
    for seed in range(60):
        rng = random.Random(seed)
        _, scene = render_scene(rng, 224, 224)
        for ask, _ in WORD_TASKS.values():
            exchange = ask(rng, scene, Split.SEEN)
            if not exchange:
                continue
            thought = with_thought(exchange, scene, announced=True)
            opened = with_thought(exchange, scene, announced=False)
            assert opened.begun + opened.answer == thought.answer
            assert re.fullmatch(r"<think>\n[^<>]+\n</think>\n\n" + re.escape(exchange.answer), thought.answer)
            written = as_json(rng, exchange)
            if written:
                ((key, _),) = json.loads(written.answer).items()
                assert f'"{key}"' in written.question
                bound_too = with_schema(rng, written)
                assert bound_too.question.startswith(written.question + "\nAnswer as JSON with this schema: ")
                assert_satisfies(json.loads(bound_too.answer), json.loads(bound_too.question.removeprefix(written.question).split("schema: ")[1]))
                forms += 1
    assert forms > 100


def test_schemas_are_shown_as_the_server_shows_them() -> None:
    assert json.loads((MODEL_DIRECTORY / "card.json").read_text())["schemaPrompt"] == SCHEMA_PROMPT


def assert_satisfies(value: Any, schema: dict[str, Any], definitions: dict[str, Any] | None = None) -> None:
    """Checks a value against the part of JSON Schema that `schema_of` writes."""
    definitions = definitions or schema.get("$defs", {})
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    kind = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}[schema["type"]]
    assert type(value) is kind
    if kind is dict:
        assert list(value) == list(schema["properties"]) == schema["required"]
        for key, inner in value.items():
            assert_satisfies(inner, schema["properties"][key], definitions)
    if kind is list:
        assert schema.get("minItems", len(value)) == len(value)
        for inner in value:
            assert_satisfies(inner, schema["items"], definitions)


def test_json_of_a_schema_is_json_in_the_tokens_the_whole_would_have_and_fits_a_schema_that_is_shown() -> None:
    tokenizer = Tokenizer.load()
    shown = 0
    listed = empty = 0
    tasks: Counter[str] = Counter()
    for seed in range(40):
        rng = random.Random(seed)
        _, scene = render_scene(rng, 224, 224, world=TRAINING_WORLD)
        for task, (ask, _) in WORD_TASKS.items():
            exchange = ask(rng, scene, Split.SEEN)
            bound = bound_json(rng, exchange, scene) if exchange else None
            if not exchange or not bound:
                continue
            tasks[task] += 1
            whole = bound.begun + bound.answer
            if not bound.answer:
                assert whole.islower() and whole in exchange.answer.lower()
                continue
            assert whole == json.dumps(json.loads(whole), ensure_ascii=False)
            assert tokenizer.encode(bound.begun) + tokenizer.encode(bound.answer) == tokenizer.encode(whole)
            assert bound.question.startswith(exchange.question)
            if '{"' in bound.question:
                shown += 1
                assert_satisfies(json.loads(whole), json.loads(bound.question[bound.question.index("schema: ") + 8 :]))
            places = places_of(bound, tokenizer.encode(bound.answer), tokenizer, scene)
            if task == "detect all":
                looked_at = {(place.x, place.y) for place in places if place}
                assert len(looked_at) == len({item.centre for item in scene.objects})
            elif task == "caption" and any(places):
                looked_in_turn = [place for place, _ in groupby(place for place in places if place)]
                assert [(place.x, place.y) for place in looked_in_turn] == [(x / scene.width, y / scene.height) for x, y in (item.centre for item in scene.objects)]
                listed += 1
            elif task == "detect":
                empty += whole == "[]"
    assert set(tasks) >= {"caption", "count kind", "colour", "exists", "where", "left", "region", "read", "detect", "detect all", "point", "point many"}
    assert shown > 100 and listed > 3 and empty
    assert "chat" not in tasks


def test_further_questions_are_answered_by_the_scene() -> None:
    asked: Counter[str] = Counter()
    for seed in range(80):
        rng = random.Random(seed)
        _, scene = render_scene(rng, 256, 256, text_heavy=seed % 3 == 0, world=TRAINING_WORLD)
        tasks = [(name, ask, hint) for hint, named in FURTHER_TASKS.items() for name, (ask, _) in named.items()]
        for name, ask, hint in tasks:
            exchange = ask(rng, scene, Split.SEEN)
            if not exchange:
                continue
            asked[name] += 1
            found, rest = parse_annotations(exchange.answer)
            if name == "which":
                colour = next(colour for colour in COLOUR_NAMES if colour.replace("gray", "gr") in exchange.question.lower().replace("grey", "gr").replace("gray", "gr"))
                assert exchange.answer.count(colour) == sum(item.colour == colour for item in scene.shapes)
            elif name == "colours of":
                assert all(colour in {item.colour for item in scene.shapes} for colour in re.findall(r"[a-z]{3,}", exchange.answer.lower()) if colour != "and")
            elif name == "count two":
                assert 0 < int(exchange.answer) <= len(scene.objects)
            elif name in ("point all text", "hint all text"):
                assert [grid_point(scene, *item.centre) for item in scene.texts] == [annotation.points[0] for annotation in found]
                assert {annotation.mention for annotation in found} == {"text"} and not rest
            elif name == "hint plural":
                assert (rest == "None.") != bool(found) and all(annotation.mention in exchange.question and annotation.mention[-1] == "s" for annotation in found)
            elif name == "where besides":
                assert set(exchange.answer.lower().rstrip(".").split()) <= {"top", "middle", "bottom", "left", "center", "right"}
            elif "text" in name:
                assert (rest == "None.") != bool(found) and {annotation.tag for annotation in found} <= {"point" if hint == "POINT" or "point" in name else "point_box"}
                for annotation in found:
                    (item,) = (item for item in scene.texts if item.text == annotation.mention)
                    assert annotation.mention in exchange.question
                    (x, y), grid = grid_point(scene, *item.centre), annotation.points
                    assert grid[0][0] <= x + 1 and x <= grid[-1][0] + 1 and grid[0][1] <= y + 1 and y <= grid[-1][1] + 1
    assert set(asked) == {name for named in FURTHER_TASKS.values() for name in named} and min(asked.values()) > 10


def test_rough_outlines_are_convex_and_hold_the_shape() -> None:
    for kind in SHAPES:
        points = outline(kind, 100, 100, 50, 10)
        rough = rough_outline(points)
        assert 3 <= len(rough) <= 8
        assert rough[0][1] == pytest.approx(min(y for _, y in rough), abs=0.1)
        area = sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(rough, rough[1:] + rough[:1], strict=True)) / 2
        assert area > 0.4 * 50 * 50  # Positive: clockwise where y grows downwards.


def test_exemplar_rows_are_what_the_template_renders(maker: SampleMaker) -> None:
    several = 0
    for seed in range(20):
        lesson = exemplar_lesson(random.Random(seed), 192, 192)
        messages = [{"role": "system", "content": lesson.head.split("<|im_start|>system\n")[1].split(END)[0]}]
        for turn in lesson.head.split("<|im_start|>")[2:]:
            role, content = turn.removesuffix(END + "\n").split("\n", 1)
            messages.append({"role": role, "content": content})
        for exchange in lesson.exchanges:
            asked = [*messages[:-1], {"role": "user", "content": messages[-1]["content"] + exchange.question}]
            assert render(asked) == f"{lesson.head}{exchange.question}{END}\n<|im_start|>assistant\n"
            found, rest = parse_annotations(exchange.answer.split("</think>\n\n")[-1])
            assert found or rest == "None."
            assert {annotation.mention for annotation in found} <= set(exchange.question.removeprefix("Detect: ").split(", "))
        several += len(lesson.exchanges) > 2
        sample = maker.lesson(lesson)
        assert len(sample.identifiers) == len(sample.labels) == len(sample.positions) == len(sample.segments)
        assert sample.identifiers.count(maker.image_token) == sum(scene.width * scene.height // CELL**2 for _, scene in lesson.pictures) > 0
        assert max(sample.segments) == len(sample.exchanges) > 1
    assert several


def test_naming_rows_ask_what_stands_where_the_answer_says(maker: SampleMaker) -> None:
    for seed in range(20):
        lesson = naming_lesson(random.Random(seed), 192, 192)
        ((_, scene),) = lesson.pictures
        shown, _ = parse_annotations(lesson.head.split("assistant\n")[1])
        assert len(shown) == len({exchange.question for exchange in lesson.exchanges})
        for exchange in lesson.exchanges:
            (leaf,) = (leaf for leaf in shown if any(line.format(leaf.mention).strip(".?").lower() in exchange.question.lower() for line in NAMING))
            assert any(
                sentence(with_article(item.name)) == exchange.answer.split("</think>\n\n")[-1]
                and leaf.points in ((grid_point(scene, *item.centre),), (grid_point(scene, *item.box[:2]), grid_point(scene, *item.box[2:])))
                for item in scene.objects
            )
        sample = maker.lesson(lesson)
        assert max(sample.segments) == len(sample.exchanges) > 0


def test_requests_to_made_up_tools_say_all_that_is_asked_for() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        tool = natural_tool(rng)
        values = [parameter.value(rng) for parameter in tool.parameters]
        for request in tool.requests:
            assert all(str(value) in request.format(*values) for value in values)


def test_exemplar_tasks_of_the_evaluation_show_what_they_ask_for() -> None:
    for seed in range(8):
        task = exemplar_task(random.Random(seed), 192, 192, negative=seed % 2 == 0)
        assert task.shown and (task.negative is None) == (seed % 2 == 1)
        found, rest = parse_annotations(task.answer)
        assert len(found) == len(task.wanted) and rest in ("", "None.")


def test_focus_row_calls_looks_and_reads(maker: SampleMaker) -> None:
    calls = 0
    for seed in range(6):
        talk = with_focus(random.Random(seed), 192, 192, Split.SEEN)
        picture = "<|vision_start|><|image_pad|><|vision_end|>"
        first = render([{"role": "user", "content": picture + talk.question}], [FOCUS_TOOL])
        assert talk.pieces[0][0] == first
        sample = maker.conversation(talk)
        trained = maker.tokenizer.decode(label for label in sample.labels if label != IGNORED)
        assert trained == "".join(text + END for text, wanted in talk.pieces if wanted)
        if talk.task == "focus":
            calls += 1
            call = json.loads(CALL.findall(talk.pieces[1][0])[0])
            left, top, right, bottom = call["arguments"]["box"]
            assert 0 <= left < right <= 1000 and 0 <= top < bottom <= 1000
            turns = [{"role": "user", "content": picture + talk.question}]
            turns.append({"role": "assistant", "content": "", "tool_calls": [{"function": call}]})
            turns.append({"role": "tool", "content": picture})
            # The template writes the arguments with the same spaces as the row.
            assert render(turns, [FOCUS_TOOL]) == "".join(text + (END if wanted else "") for text, wanted in talk.pieces[:-1])
    assert calls


def test_frames_are_told_by_pairs_with_their_mean_time(maker: SampleMaker) -> None:
    for seed in range(8):
        rng = random.Random(seed)
        frames, clip = render_clip(rng, 128, 160)
        assert len(frames) == len(clip.times) and all(frame.shape == (160, 128, 3) for frame in frames)
        sample = maker.video(rng, clip, Scene(128, 160))
        text = maker.tokenizer.decode(i for i, s in zip(sample.identifiers, sample.segments, strict=True) if s == 0)
        assert re.findall(r"<(\d+\.\d) seconds>", text) == [f"{clip.pair_time(pair):.1f}" for pair in clip.pairs]
        assert sample.identifiers.count(maker.image_token) == 20 * len(clip.pairs)


def test_clips_are_markup_and_overlap_with_themselves() -> None:
    assert clip_leaf("red circle", 1.0, 2.5) == '<clip mention="red circle" t="1 seconds 2.5 seconds" />'
    assert parse_clips('<clip mention="a&amp;b" t="0.25 seconds" />') == ([("a&b", 0.25, 0.25)], "")
    for seed in range(30):
        rng = random.Random(seed)
        _, clip = render_clip(rng, 128, 128)
        for ask, _ in (*CLIP_TASKS.values(), *CLIP_HINT_TASKS.values()):
            for split in Split:
                exchange = ask(rng, clip, split)
                if exchange and "clip" in exchange.task:
                    assert parse_clips(exchange.answer)[1] in ("", "None.")
                    assert clip_overlap(exchange.answer, exchange.answer, 0.5) == 1.0
    late, early = clip_leaf("a", 2, 3), clip_leaf("a", 0, 1)
    assert clip_overlap(late, early, 0.5) == 0.0 and clip_overlap("None.", early, 0.5) == 0.0


def test_calls_are_compared_by_value() -> None:
    truth = json.dumps([{"name": "f", "arguments": {"a": 1, "b": "x"}}])
    assert same_calls('[{"name":"f","arguments":{"b":"x","a":1}}]', truth)
    assert not same_calls('[{"name":"f","arguments":{"a":2,"b":"x"}}]', truth)
    assert not same_calls("I have no tool for that.", truth) and same_calls("I have no tool for that.", "[]")


def test_captions_are_compared_by_what_they_list() -> None:
    truth = 'A red star, a dog, a dog and the text "SALT and A, B".'
    assert same_facts('A dog, the text "SALT and A, B", a red star and a dog.', truth)
    assert not same_facts('A dog, the text "SALT and A, B" and a red star.', truth)
    assert not same_facts('A dog, the text "SALT and A, C", a red star and a dog.', truth)
    assert not same_facts('A dog, a red star, a dog and the text "SALT and A, B", I think.', truth)
    assert same_facts("A dog", "A dog.") and not same_facts("Dog.", "A dog.") and same_facts("Nothing.", "Nothing.")


def test_a_row_asks_for_the_same_text_only_twice(maker: SampleMaker) -> None:
    batch = make_batch(11, 16, maker, layout=Layout.PICTURE_FIRST)
    asked = [Counter(exchange.answer for exchange in exchanges if exchange.printed) for exchanges in batch.exchanges]
    assert max(max(counts.values(), default=0) for counts in asked) == MOST_REPEATED


def test_text_of_a_region_is_what_stands_there() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        _, scene = render_scene(rng, 224, 224, text_heavy=True, world=TRAINING_WORLD)
        exchange = WORD_TASKS["read region"][0](rng, scene, Split.SEEN)
        if not scene.texts:
            assert exchange is None
            continue
        x, y, *rest = (int(number) / 1000 * 224 for number in re.findall(r"\d+", exchange.question))
        x, y = (x, y) if not rest else ((x + rest[0]) / 2, (y + rest[1]) / 2)
        nearest = min(scene.texts, key=lambda item: abs(item.centre[0] - x) + abs(item.centre[1] - y))
        assert nearest.text == exchange.answer and exchange.printed == (nearest.text,)


def test_training_prints_with_no_font_of_the_shifted_world_and_with_those_that_are_there() -> None:
    assert not set(UNSEEN_FONTS) & set(TRAINING_WORLD.fonts)
    families = [{name.split("/")[1] for name in fonts} for fonts in (UNSEEN_FONTS, MORE_FONTS)]
    assert not families[0] & families[1]
    assert installed([FONTS[0], "nobody/NoSuchFont.ttf"]) == [FONTS[0]]
    assert set(FONTS) <= set(TRAINING_WORLD.fonts)


def test_each_shift_of_the_shifted_world_can_be_had_alone() -> None:
    assert shifted_world([]) == PLAIN_WORLD
    assert shifted_world(["jpeg", "objects"]) == replace(PLAIN_WORLD, jpeg_quality=30, extra_objects=2)
    assert set(shifted_world().fonts) == set(UNSEEN_FONTS)
    assert set(build_parser().parse_args(["evaluate"]).shifts) == set(SHIFTS)
    assert shifted_world(build_parser().parse_args(["evaluate", "--shifts", *MORE_SHIFTS]).shifts) == replace(PLAIN_WORLD, shades=1.0)
    assert set(SHADES) == set(COLOURS)

    def objects(shifts: list[str]) -> int:
        questions = picture_questions(6, shifted=True, shifts=shifts)
        return sum(len(parse_annotations(question.truth)[0]) for question in questions if question.row == "detect all, hint")

    # Compression changes the look of an image, not its content.
    assert 0 < objects(["jpeg"]) == objects([]) < objects(["objects"])


def test_boxes_of_altered_letters_hold_their_ink() -> None:
    world = World(altered_letters=1.0)
    altered = 0
    for seed in range(40):
        rng = random.Random(seed)
        font = load_font(rng.choice(FONTS), rng.randint(12, 34))
        letters = random_lettering(rng, font, world.altered_letters)
        text = random_text(rng, strange=0.5)
        left, top, right, bottom = letters.ink(text)
        picture = Image.new("RGB", (int(right) + 60, int(bottom) + 40))
        letters.print(picture, 30, 20, text, (255, 255, 255))
        inked = picture.convert("L").point(lambda value: 255 * (value > 60)).getbbox()
        assert inked == pytest.approx((30 + left, 20 + top, 30 + right, 20 + bottom), abs=1)
        advances = letters.advances(text)
        assert len(advances) == len(text) + 1 and advances == sorted(advances)
        assert left - 0.4 * font.size < advances[0] and advances[-1] < right + 0.4 * font.size  # A dot is narrower than its place.
        altered += not letters.as_designed
    assert altered == 40


def test_things_stand_above_each_other_where_a_world_wants_it() -> None:
    def pairs(world: World) -> int:
        count = 0
        for seed in range(60):
            _, scene = render_scene(random.Random(seed), 224, 224, world=world)
            places = [(item.name, int(item.centre[0] // 32)) for item in scene.objects if not item.text]
            count += len(places) - len(set(places))
        return count

    assert pairs(World(stacked=1.0)) > 3 * pairs(World())


def test_made_up_tools_are_mistaken_for_each_other() -> None:
    shared = several = 0
    for seed in range(200):
        names = [offer.tool.names[0].split("_") for offer in ToolPrompt(random.Random(seed), Split.SEEN, made_up=1.0).offers]
        assert len({tuple(name) for name in names}) == len(names)
        several += len(names) > 1
        shared += any(a[0] == b[0] or a[1] == b[1] for i, a in enumerate(names) for b in names[:i])
    assert several > 100 and shared > 0.4 * several


def test_answers_are_to_be_found_where_they_stand(maker: SampleMaker) -> None:
    tokenizer = maker.tokenizer
    leaves = letters = names = 0
    for seed in range(60):
        rng = random.Random(seed)
        _, scene = render_scene(rng, 224, 224, text_heavy=seed % 2 == 0)
        for task in ("detect all", "read", "caption"):
            exchange = WORD_TASKS[task][0](rng, scene, Split.SEEN)
            if exchange is None:
                continue
            tokens = maker._encode_answer(exchange)
            places = places_of(exchange, tokens, tokenizer, scene)
            assert len(places) == len(tokens) and places[-1] is None  # The end of the turn is nowhere in the image.
            for token, place in zip(tokens, places, strict=True):
                if place is None:
                    continue
                x, y, said = place.x * scene.width, place.y * scene.height, tokenizer.decode([token])
                here = [item for item in scene.objects if abs(item.centre[0] - x) < 1 and abs(item.centre[1] - y) < 1]
                if place.printed:
                    shown = {c.glyph for item in scene.texts for c in item.characters if c.left < x < c.right and item.box[1] <= y <= item.box[3]}
                    assert said in shown
                    letters += 1
                else:
                    assert here
                    leaves += task == "detect all"
                    names += task == "caption"
    assert min(leaves, letters, names) > 300


def test_looks_point_at_the_tokens_of_the_picture(maker: SampleMaker) -> None:
    batch = make_batch(11, 8, maker, layout=Layout.EXEMPLAR)
    rows, tokens = np.nonzero(batch.looks["object"] != IGNORED)
    assert len(rows) and (batch.identifiers[rows, batch.looks["object"][rows, tokens]] == maker.image_token).all()
    assert (batch.labels[rows, tokens] != IGNORED).all()
    # The question is about the last image.
    first_questions = [np.argmax(segments > 0) for segments in batch.segments]
    assert all(first_questions[row] - look < 160 for row, look in zip(rows, batch.looks["object"][rows, tokens], strict=True))


def test_calls_are_copied_from_the_prompt(maker: SampleMaker) -> None:
    batch = make_batch(3, 48, maker, layout=Layout.TOOLS)
    copied, same = 0, 0
    for tokens, labels, sources in zip(batch.identifiers, batch.labels, batch.looks["source"], strict=True):
        for place in np.flatnonzero(sources != IGNORED):
            said, shown = (maker.tokenizer.decode([token]) for token in (labels[place], tokens[sources[place]]))
            copied += 1
            same += said in shown or shown.strip() in said
    assert copied > 500
    assert same > 0.95 * copied  # The others are split differently.


@pytest.mark.parametrize("layout", list(Layout))
def test_every_layout_makes_a_batch(maker: SampleMaker, layout: Layout) -> None:
    batch = make_batch(11, 4, maker, layout=layout)
    pictures = 0 if batch.pixels is None else len(batch.pixels) * (batch.pixels.shape[1] // 32) * (batch.pixels.shape[2] // 32)
    if layout is not Layout.DENSE:
        assert (batch.identifiers == maker.image_token).sum() == pictures
        assert ((batch.weights > 0) == (batch.labels != IGNORED)).all()
    assert (batch.targets is not None) == (layout not in (Layout.TOOLS, Layout.NO_PICTURE, Layout.FOCUS, Layout.VIDEO))


def test_emoji_have_colours_and_are_no_shapes() -> None:
    assert len(EMOJI_NAMES) >= 60 and not set(EMOJI_NAMES) & set(SHAPES)
    for seed in range(40):
        pixels, scene = render_scene(random.Random(seed), 224, 224)
        for item in scene.things:
            left, top, right, bottom = (max(0, round(value)) for value in item.box)
            assert np.ptp(pixels[top:bottom, left:right].reshape(-1, 3), axis=0).max() > 60


def test_evaluation_uses_its_own_seeds_and_words() -> None:
    questions = [*picture_questions(2), *focus_questions(1), *tool_questions(2), *clip_questions(1)]
    assert HELD_OUT_SEED == 10**9
    assert {question.split for question in questions} == set(phrasings.EVALUATED)
    assert {question.judge for question in questions} >= {GROUNDING, CALLS}
    assert all(question.truth for question in questions)


# ---- Charts -------------------------------------------------------------------------------------------------------


def _charts(count: int) -> list[Chart]:
    return [render_chart(random.Random(seed), 224, 192)[1] for seed in range(count)]


def _extent(chart: Chart, colour: str) -> float:
    left, top, right, bottom = next(bar.item.box for bar in chart.bars if bar.item.colour == colour)
    return bottom - top if chart.standing else right - left


def test_bars_are_within_the_picture_and_as_long_as_they_say() -> None:
    for chart in _charts(60):
        ratios = [_extent(chart, bar.item.colour) / bar.length for bar in chart.bars]
        assert max(ratios) / min(ratios) < 1.1
        assert all(0 <= low <= high <= limit for item in chart.scene.objects for low, high, limit in ((item.box[0], item.box[2], 224), (item.box[1], item.box[3], 192)))


def test_answers_about_charts_are_what_is_drawn() -> None:
    seen = set()
    for seed, chart in enumerate(_charts(60)):
        for name, (ask, _) in CHART_TASKS.items():
            exchange = ask(random.Random(seed), chart, Split.SEEN)
            if exchange is None:
                continue
            seen.add(name)
            question = exchange.question.lower()
            if name == "chart extreme":
                longest = any(word in question for word in ("longest", "biggest", "largest", "tallest", "highest"))
                extents = {bar.item.colour: _extent(chart, bar.item.colour) for bar in chart.bars}
                assert exchange.answer.split()[1] == (max if longest else min)(extents, key=extents.get)
            elif name == "chart compare":
                first, second = sorted((bar.item.colour for bar in chart.bars if bar.item.name in question.replace("grey", "gray")), key=question.replace("grey", "gray").index)
                longer = any(word in question for word in ("longer", "bigger", "larger", "taller", "higher"))
                assert (exchange.answer == "Yes.") == ((_extent(chart, first) > _extent(chart, second)) == longer)
            elif name in ("chart value", "chart label") and exchange.printed:
                assert exchange.answer in {item.text for item in chart.scene.texts}
    assert seen == set(CHART_TASKS)


def test_charts_fit_into_samples(maker: SampleMaker) -> None:
    batch = make_batch(5, 8, maker, layout=Layout.CHART)
    assert batch.pixels is not None and len(batch.pixels) == 8
    asked = {exchange.task for row in batch.exchanges for exchange in row}
    assert asked & set(CHART_TASKS)
    for chart in _charts(20):
        for hint in (None, "BOX", "POINT"):
            ask_about_chart(random.Random(1), chart, Split.SEEN, hint)
    assert {question.row for question in chart_questions(8)} >= set(CHART_TASKS)
