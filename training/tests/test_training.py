"""Fast tests of everything that training and serving must agree on."""

from __future__ import annotations

import json
import random
from itertools import groupby, pairwise
from pathlib import Path

import jinja2
import numpy as np
import pytest
import torch

from lookout_training import stage1, stage2
from lookout_training.config import NANO
from lookout_training.conversations import PICTURE, ExemplarLesson
from lookout_training.dense import LINES, NO_CHARACTER, NO_PLACE, DenseHeads, dense_loss, dense_targets
from lookout_training.export import chat_template
from lookout_training.generation import causal_mask, generate
from lookout_training.markup import parse_annotations
from lookout_training.network import VisionLanguageModel, gelu, initialise_language, initialise_vision
from lookout_training.phrasings import Split
from lookout_training.prompts import ASSISTANT, IGNORED, PREFIX, Layout, SampleMaker
from lookout_training.questions import BOX_HINT_TASKS, NOTHING_FOUND, POINT_HINT_TASKS, WORD_TASKS, Exchange, ask_something
from lookout_training.running import TrainingClock, TrainingRun
from lookout_training.scoring import GroundingScore
from lookout_training.stage2 import LOOKING_HEADS, forward, image_tokens, looking_loss, make_batch, watched_heads
from lookout_training.team import Team
from lookout_training.tokenizer import USER_DEFINED, Tokenizer
from lookout_training.world import CELL, GLYPHS, as_served, pick_size, reading_order, render_scene, served_size
from lookout_training.world.served import LEAST_TOKENS, MOST_TOKENS

CARD = Path(__file__).resolve().parents[2] / "models/lookout-nano/card.json"
PACKED = [layout for layout in Layout if layout not in (Layout.DENSE, Layout.EXEMPLAR, Layout.FOCUS, Layout.VIDEO)]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.load()


@pytest.fixture(scope="session")
def maker(tokenizer: Tokenizer) -> SampleMaker:
    return SampleMaker(tokenizer)


@pytest.fixture(scope="session")
def network() -> VisionLanguageModel:
    torch.manual_seed(0)
    model = VisionLanguageModel(NANO)
    initialise_vision(model.vision)
    initialise_language(model.language)
    return model.eval()


def scenes(count: int, text_heavy: bool = False):
    for seed in range(count):
        rng = random.Random(seed)
        yield rng, *render_scene(rng, *pick_size(rng), text_heavy=text_heavy)


@pytest.mark.parametrize(
    "text",
    [
        "What colour is the star?",
        'Äpfel, 5 €, 😀\n\n  <point_box mention="red circle"> (120,340) (410,655) </point_box>\n<point mention="x"> (1,2) </point>',
        '<clip mention="door opens" t="3 seconds 7.25 seconds" />',
        "<|im_start|>user\n<hint>BOX THINK</hint>Hi<|im_end|>\n",
        '{"name": "get_weather", "arguments": {"location": "Paris"}}',
    ],
)
def test_tokenizer_round_trip(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_tokenizer_layout(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.tokens) == len(tokenizer.types) == NANO.vocabulary == len(set(tokenizer.tokens))
    assert all(tokenizer.encode(special) == [tokenizer[special]] for special in USER_DEFINED)
    assert tokenizer.encode("305") == [tokenizer[digit] for digit in "305"]


def test_box_leaf_is_short(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode('<point_box mention="red circle"> (120,340) (410,655) </point_box>')) == 20


def test_scene_is_reproducible_and_inside_the_picture() -> None:
    for seed, (_, pixels, scene) in enumerate(scenes(20)):
        again_rng = random.Random(seed)
        again, _ = render_scene(again_rng, *pick_size(again_rng))
        assert np.array_equal(pixels, again)
        assert pixels.shape == (scene.height, scene.width, 3)
        for item in scene.objects:
            left, top, right, bottom = item.box
            assert -1 <= left < right <= scene.width + 1 and -1 <= top < bottom <= scene.height + 1


@pytest.mark.parametrize(
    ("size", "served"),
    [  # The results of `targetSize` in src/media/resize.ts within the limits of card.json.
        ((192, 192), (416, 416)),
        ((224, 192), (448, 384)),
        ((256, 160), (512, 320)),
        ((256, 256), (416, 416)),
        ((128, 416), (256, 736)),
        ((2000, 1000), (640, 320)),
        ((640, 480), (512, 384)),
        ((33, 900), (96, 2112)),
        ((100, 3000), (64, 2560)),
    ],
)
def test_pictures_are_stretched_as_the_server_does(size: tuple[int, int], served: tuple[int, int]) -> None:
    assert served_size(*size) == served
    limits = json.loads(CARD.read_text())["image"]
    assert limits == {"pixelsPerToken": CELL, "minTokens": LEAST_TOKENS, "maxTokens": MOST_TOKENS}


def test_a_stretched_scene_is_the_same_to_who_asks_about_it() -> None:
    for _, pixels, scene in scenes(12):
        larger, same = as_served((pixels, scene))
        assert larger.shape == (same.height, same.width, 3)
        assert sorted(item.name for item in same.objects) == sorted(item.name for item in scene.objects)
        for item in same.objects:
            sides = np.array((same.width, same.height) * 2) / ((scene.width, scene.height) * 2)
            (twin,) = [other for other in scene.objects if other.name == item.name and item.box == pytest.approx(other.box * sides)]
            assert twin.radius / min(scene.width, scene.height) == pytest.approx(item.radius / min(same.width, same.height))
            assert [character.glyph for character in twin.characters] == [character.glyph for character in item.characters]
        assert same.objects == sorted(same.objects, key=reading_order)


def test_dense_targets_tell_lines_from_the_top() -> None:
    for _, _, scene in scenes(20, text_heavy=True):
        targets = dense_targets(scene)
        marked = targets.characters != NO_CHARACTER
        assert (targets.lines[~marked] == NO_PLACE).all()
        assert set(targets.lines[marked]) <= set(range(min(LINES, len(scene.texts))))
        rows = np.arange(len(marked)) // (scene.width // CELL)
        heights = [rows[(targets.lines == line).any(1)].mean() for line in sorted(set(targets.lines[marked]))[: LINES - 1]]
        assert all(above <= below + 1 for above, below in pairwise(heights))


def test_dense_targets_mark_every_visible_character() -> None:
    for _, _, scene in scenes(10, text_heavy=True):
        targets = dense_targets(scene)
        marked = {GLYPHS[index] for index in targets.characters[targets.characters != NO_CHARACTER]}
        wide = {c.glyph for item in scene.texts for c in item.characters if c.right - c.left > 9}
        assert wide <= marked


@pytest.mark.parametrize("split", list(Split))
def test_markup_answers_are_canonical(split: Split) -> None:
    tasks = {**WORD_TASKS, **BOX_HINT_TASKS, **POINT_HINT_TASKS}
    for rng, _, scene in scenes(30):
        for name, (ask, _) in tasks.items():
            exchange = ask(rng, scene, split)
            if exchange and any(word in name for word in ("detect", "point", "hint")):
                found, rest = parse_annotations(exchange.answer)
                assert rest == ("" if found else NOTHING_FOUND)
                assert len({annotation.tag for annotation in found}) <= 1
                score = GroundingScore()
                score.add(exchange.answer, exchange.answer)
                assert score.f1 == 1.0 and score.malformed == 0


def test_lists_name_one_category_after_another_and_text_comes_last_from_the_top() -> None:
    lists = 0
    for rng, _, scene in scenes(120):
        heights = [item.centre[1] for item in scene.texts]
        assert [*scene.texts] == scene.objects[len(scene.objects) - len(scene.texts) :] and heights == sorted(heights)
        exchange = BOX_HINT_TASKS["hint detect"][0](rng, scene, Split.SEEN)
        if exchange is None:
            continue
        mentions = [annotation.mention for annotation in parse_annotations(exchange.answer)[0]]
        assert len(list(groupby(mentions))) == len(set(mentions))
        lists += len(set(mentions)) > 1
    assert lists > 5


def test_the_first_stage_takes_pictures_with_their_targets() -> None:
    batch = stage1.make_batch(3, 4)
    assert batch.pixels.shape[0] == 4 and batch.pixels.dtype == np.uint8
    assert not np.array_equal(batch.pixels, stage1.make_batch(4, 4).pixels) and np.array_equal(batch.pixels, stage1.make_batch(3, 4).pixels)
    heads = DenseHeads(NANO.width)
    loss, parts = dense_loss(heads, torch.zeros(4, batch.pixels.shape[1] * batch.pixels.shape[2] // CELL**2, NANO.width), batch.targets)
    assert loss.isfinite() and parts


def test_strict_reader_refuses_bad_leaves() -> None:
    for bad in (
        '<point mention="x"> (1, 2) </point>',
        '<point_box mention="x"> (9,9) (1,1) </point_box>',
        '<point mention="x"> (1001,2) </point>',
    ):
        assert parse_annotations(bad)[0] == []


def render(messages: list[dict], **extra: object) -> str:
    environment = jinja2.Environment()
    return environment.from_string(chat_template()).render(messages=messages, add_generation_prompt=True, **extra)


@pytest.mark.parametrize("system", [None, "<hint>BOX</hint>You are a helpful assistant."])
def test_training_prompt_is_what_the_template_renders(maker: SampleMaker, system: str | None) -> None:
    _, _, scene = next(scenes(1))
    sample = maker.prompt("Where is the star?", scene, system)
    pads = "<|image_pad|>" * ((scene.width // 32) * (scene.height // 32))
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Where is the star?"}]})
    assert maker.tokenizer.decode(sample.identifiers) == render(messages).replace("<|image_pad|>", pads)


@pytest.mark.parametrize("layout", PACKED)
def test_packed_segments_read_like_rendered_conversations(maker: SampleMaker, layout: Layout) -> None:
    tokenizer = maker.tokenizer
    for rng, _, scene in scenes(12):
        pictures = {Layout.NO_PICTURE: [], Layout.TOOLS: [], Layout.TWO_PICTURES: [scene, scene]}.get(layout, [scene])
        sample = maker.make(rng, pictures, layout)
        pads = "<|image_pad|>" * ((scene.width // 32) * (scene.height // 32))
        for segment, exchange in enumerate(sample.exchanges, start=1):
            own = [i for i, s in enumerate(sample.segments) if s in (0, segment)]
            text = tokenizer.decode(sample.identifiers[i] for i in own).replace(pads, "<|image_pad|>")
            label = tokenizer.decode(sample.labels[i] for i in own if sample.labels[i] != IGNORED)
            assert label == exchange.answer + "<|im_end|>"
            assert text.endswith(ASSISTANT + exchange.begun + exchange.answer)
            places = [sample.positions[i][0] for i in own if sample.segments[i] == segment]
            if layout is not Layout.PICTURE_LAST:
                assert places == list(range(places[0], places[0] + len(places)))
            messages, rest = [], text.removesuffix(exchange.begun + exchange.answer)
            for turn in rest.split("<|im_start|>")[1:-1]:
                role, content = turn.removesuffix("<|im_end|>\n").split("\n", 1)
                messages.append({"role": role, "content": content})
            assert render(messages) == rest


def test_no_question_is_left_out_of_a_row_because_its_answer_is_long(maker: SampleMaker) -> None:
    """Otherwise lists would be shorter in training than in the world."""
    rng, _, scene = next(scenes(1))
    asked = [Exchange("detect", f"Question {number}?", " ".join(rng.choices(("red", "star"), k=rng.choice((1, 1, 120))))) for number in range(60)]
    sample = maker.lesson(ExemplarLesson("<|im_start|>user\n" + PICTURE, [(np.zeros((scene.height, scene.width, 3), np.uint8), scene)], asked))
    assert sample.exchanges == asked[: len(sample.exchanges)]
    lengths = [sum(number == segment for number in sample.segments) for segment in range(1, len(sample.exchanges) + 1)]
    assert sum(lengths[:-1]) < max(maker.longest_text, sample.segments.count(PREFIX)) <= sum(lengths)


def test_template_renders_tools_reasoning_and_media() -> None:
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "video"}, {"type": "input_audio"}, {"type": "text", "text": "Turn it on."}]},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "A lamp.",
            "tool_calls": [{"function": {"name": "set_lamp", "arguments": '{"on": true}'}}],
        },
        {"role": "tool", "content": "done"},
        {"role": "tool", "content": "again"},
    ]
    text = render(messages, tools=[{"type": "function", "function": {"name": "set_lamp"}}])
    assert text.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert '<tools>\n{"function": {"name": "set_lamp"}, "type": "function"}\n</tools>' in text
    assert "<|vision_start|><|video_pad|><|vision_end|><|audio_start|><|audio_pad|><|audio_end|>Turn it on.<|im_end|>\n" in text
    assert '<think>\nA lamp.\n</think>\n\n<tool_call>\n{"name": "set_lamp", "arguments": {"on": true}}\n</tool_call><|im_end|>\n' in text
    assert text.endswith(
        "<|im_start|>user\n<tool_response>\ndone\n</tool_response>\n<tool_response>\nagain\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_packed_segments_are_isolated(network: VisionLanguageModel, maker: SampleMaker) -> None:
    """A packed question has the same logits as the question on its own."""
    batch = make_batch(3, 1, maker, layout=Layout.PICTURE_FIRST, offset=False)
    one = make_batch(3, 1, maker, layout=Layout.PICTURE_FIRST, offset=False)
    assert np.array_equal(batch.identifiers, one.identifiers)
    own = (batch.segments[0] == 0) | (batch.segments[0] == 2)
    with torch.no_grad():
        _, packed, _ = forward(network, batch, maker.image_token)
        for name in ("identifiers", "segments", "labels"):
            setattr(one, name, getattr(batch, name)[:, own])
        one.positions = batch.positions[:, :, own]
        one.weights = batch.weights[:, own]
        _, alone, _ = forward(network, one, maker.image_token)
    trained = batch.labels[0] != IGNORED
    assert torch.allclose(packed[torch.from_numpy(own[trained])], alone, atol=0.02)


def test_generation_stops_at_the_limit(network: VisionLanguageModel, maker: SampleMaker) -> None:
    pixels, scene = render_scene(random.Random(1), 192, 192)
    output = generate(network, [maker.prompt("Hello", scene)], pixels[None], maker.tokenizer["<|im_end|>"], maker.image_token, limit=3)
    assert len(output) == 1 and len(output[0]) <= 3
    assert causal_mask(3).sum() == 6


def test_questions_are_reproducible() -> None:
    _, _, scene = next(scenes(1))
    first = [ask_something(random.Random(i), scene) for i in range(20)]
    assert first == [ask_something(random.Random(i), scene) for i in range(20)]


def test_gelu_is_that_of_the_graph() -> None:
    x = torch.linspace(-12, 12, 5001)
    assert torch.allclose(gelu(x), torch.nn.functional.gelu(x, approximate="tanh"), atol=1e-6)
    assert gelu(x.bfloat16()).dtype == torch.bfloat16


def test_heads_are_taught_where_to_look(maker: SampleMaker) -> None:
    torch.manual_seed(3)
    model = VisionLanguageModel(NANO)
    initialise_vision(model.vision)
    initialise_language(model.language)
    batch = make_batch(4, 2, maker, layout=Layout.PICTURE_FIRST)
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3)
    losses, seen = [], []
    for _ in range(14):
        watched = watched_heads(batch)
        forward(model, batch, maker.image_token, watched=watched)
        loss, shares = looking_loss(watched, batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        seen.append(shares["object"])
    assert losses[-1] < 0.7 * losses[0] and seen[-1] > 2 * seen[0]


def test_only_heads_with_something_to_see_are_watched(maker: SampleMaker) -> None:
    seen = {layout: set(watched_heads(make_batch(4, 8, maker, layout=layout))) for layout in (Layout.NO_PICTURE, Layout.PICTURE_FIRST, Layout.TOOLS)}
    assert seen == {Layout.NO_PICTURE: set(), Layout.PICTURE_FIRST: set(LOOKING_HEADS.values()), Layout.TOOLS: {LOOKING_HEADS["source"]}}


def test_fresh_heads_learn_while_the_network_rests(tmp_path: Path, maker: SampleMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage2, "HEAD_LESSONS", 6)
    monkeypatch.setattr(stage2, "make_batch", lambda *_, **__: batch)
    batch = make_batch(5, 1, maker, layout=Layout.DENSE)
    stage = stage2.Stage2(NANO)
    stage.heads_are_fresh = True
    network = {name: tensor.clone() for name, tensor in stage.network.state_dict().items()}
    with torch.no_grad():
        before, _ = dense_loss(stage.heads, image_tokens(stage.network, batch), batch.targets)
    stage2.teach_heads(stage, 1, maker, Team())
    with torch.no_grad():
        after, _ = dense_loss(stage.heads, image_tokens(stage.network, batch), batch.targets)
    assert after < 0.9 * before
    assert all(torch.equal(tensor, network[name]) for name, tensor in stage.network.state_dict().items())
    stage.save(tmp_path / "stage2.pt")
    again = stage2.Stage2(NANO)
    again.heads_are_fresh = True
    again.load(tmp_path / "stage2.pt")
    assert not stage.heads_are_fresh and not again.heads_are_fresh


class Kept:
    """A stage that only counts."""

    def __init__(self) -> None:
        self.step = self.seen = 0
        self.clock = TrainingClock()
        self.saved_at: list[int] = []

    def save(self, path: Path) -> None:
        self.saved_at.append(self.step)


def test_a_checkpoint_is_written_between_reports_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("lookout_training.running.time.monotonic", lambda: now)
    stage = Kept()
    training = TrainingRun(stage, tmp_path / "kept.pt", 650, 10_000, lambda: "not asked for")
    while training.goes_on:
        now += 5
        training.end_step(32, {"loss": 1.0}, 1e-4)
    assert stage.step == 130 and stage.seen == 130 * 32
    assert stage.saved_at == [61, 122]
