"""Training samples: a shared prompt prefix with images, followed by several questions as isolated segments.

Each segment sees the prefix and itself, and its positions continue directly after the prefix. The server computes the same
when it answers several questions about one image.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

import numpy as np

from .charts import ask_about_chart
from .chat import NO_PICTURE, copying
from .clips import ask_about_clip
from .conversations import PICTURE, Conversation, ExemplarLesson
from .further_questions import ask_bound, ask_further
from .looks import Definition, Place, Written, copied_from, definitions, places_of
from .phrasings import Split
from .questions import Exchange, ask_something, chat
from .structured import as_json, bound_json, with_schema
from .thoughts import with_thought
from .tokenizer import Tokenizer
from .tools import ToolPrompt
from .world import CELL, Scene, render_scene
from .world.chart import Chart
from .world.clip import Clip
from .world.text import WORDS

Position = tuple[int, int, int]  # Time, row, column.
PREFIX = 0  # Segment number of the shared prefix.
IGNORED = -1  # Label of a token that is not trained on.
SYSTEM_TEXTS = (
    "You are a helpful assistant.",
    "You are a helpful vision assistant.",
    "Answer the question about the image.",
    "You are a careful assistant that looks at pictures.",
    "Be brief.",
    "Keep your answers short.",
    "Reply in English.",
    "You see pictures and answer questions.",
    "Your task is to answer questions about the picture.",
    "Use only the information in the picture.",
    "You are Lookout.",
    "Be polite and precise.",
    "Your task is to find objects.",
    "Only answer what is asked.",
)


class Layout(Enum):
    """The positions of a batch's images. All rows of a batch share one layout."""

    PICTURE_FIRST = "picture first"
    PICTURE_LAST = "picture last"  # One question per row, before the image.
    TWO_PICTURES = "two pictures"
    NO_PICTURE = "no picture"
    TOOLS = "tools"
    TOOLS_AND_PICTURE = "tools and picture"
    EXEMPLAR = "exemplar"
    NAMING = "naming"
    FOCUS = "focus"
    VIDEO = "video"
    CHART = "chart"
    DENSE = "dense"  # Images without questions, most of them full of text. Only the vision tower learns, at low cost.


LAYOUT_WEIGHTS = {
    Layout.PICTURE_FIRST: 80,
    Layout.PICTURE_LAST: 3,
    Layout.TWO_PICTURES: 1,
    Layout.NO_PICTURE: 6,
    Layout.TOOLS: 22,
    Layout.TOOLS_AND_PICTURE: 2,
    Layout.EXEMPLAR: 13,
    Layout.NAMING: 5,
    Layout.FOCUS: 2,
    Layout.VIDEO: 10,
    Layout.CHART: 6,
    Layout.DENSE: 20,
}
TASK_HINTS = {None: 62, "BOX": 13, "POINT": 23, "POLYGON": 2}  # Weights.
MOST_REPEATED = 2  # Questions of a row with the same text for an answer.
MOST_TEXT = 400  # Tokens of packed questions and answers after a long prefix, without the last of them.
LONGEST_EXCHANGE = 450  # Tokens of a question and its answer.
THINKING = 0.05  # Share of the prompts that ask for a thought.
FURTHER = {None: 0.17, "BOX": 0.2, "POINT": 0.3}  # Share of the questions that no gate measures, or some gate too seldom, by the hint.
IN_JSON = 0.06  # Share of the questions in words that ask for JSON.
BOUND_TOO = 0.5  # Share of these whose reply is also bound by a schema.
BOUND = 0.17  # Share of the questions in words that say nothing of the JSON to which a schema binds the reply.
CHOSEN = 0.9  # Share of these whose question is one of `BOUND_TASKS`.
MADE_UP_TOOLS = 0.4  # Share of the tools on offer.


@dataclass(frozen=True)
class Mode:
    """The mode that the system turn asks for."""

    hint: str | None = None  # BOX, POINT, POLYGON.
    think: bool = False
    announced: bool = True  # Whether the system turn says that thinking is on; otherwise the server opens the thought.
    tools: ToolPrompt | None = None

    @property
    def tag(self) -> str:
        words = [word for word in (self.hint, "THINK" if self.think and self.announced else None) if word]
        return f"<hint>{' '.join(words)}</hint>" if words else ""


@dataclass(frozen=True)
class PlacedPicture:
    """An image of a row and the position of its first token."""

    scene: Scene
    first: int

    def token_at(self, place: Place) -> int:
        """The image token that covers a place."""
        columns, rows = self.scene.width // CELL, self.scene.height // CELL
        return self.first + min(rows - 1, max(0, int(place.y * rows))) * columns + min(columns - 1, max(0, int(place.x * columns)))


@dataclass
class Sample:
    """One row. All lists run over its tokens; `exchanges[k - 1]` belongs to segment k."""

    identifiers: list[int] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)  # The next token, where it is a training target.
    exchanges: list[Exchange] = field(default_factory=list)
    looks: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))  # As `LOOKING_HEADS` names them: token -> the token to look at.
    functions: dict[str, Definition] = field(default_factory=dict)  # That can be called.
    picture: PlacedPicture | None = None  # What the questions are about.
    clips: list[np.ndarray] = field(default_factory=list)  # Spectrograms (chunks, bins, 100) of the sounds, in reading order.


def system_turn(text: str) -> str:
    return f"<|im_start|>system\n{text}<|im_end|>\n"


def user_turn(content: str) -> str:
    return f"<|im_start|>user\n{content}<|im_end|>\n"


ASSISTANT = "<|im_start|>assistant\n"
END = "<|im_end|>"


class SampleMaker:
    """Lays out prompts and packs questions."""

    def __init__(self, tokenizer: Tokenizer, longest_text: int = 208) -> None:
        self.tokenizer = tokenizer
        self.longest_text = longest_text  # Tokens of packed questions and answers per row, without the last of them.
        self.image_token = tokenizer["<|image_pad|>"]

    def make(self, rng: random.Random, scenes: list[Scene], layout: Layout, split: Split = Split.SEEN, offset: bool = True) -> Sample:
        """Makes a row about `scenes`: one, two or none, depending on the layout."""
        sample = Sample()
        start = rng.randint(1, 4000) if offset and rng.random() < 0.1 else 0
        mode = self._mode(rng, layout, split)
        head = self._system(rng, mode)
        if layout is Layout.PICTURE_LAST:
            exchange = self._ask(rng, scenes, layout, split, mode)
            if exchange is None:
                exchange = chat(rng, None, split)
                exchange = with_thought(exchange, None, mode.announced) if mode.think else exchange
            self._append(sample, head + f"<|im_start|>user\n{exchange.question}{PICTURE}{END}\n{ASSISTANT}{exchange.begun}", scenes, start, segment=1)
            self._answer(sample, exchange, 1)
            return sample
        head += "<|im_start|>user\n" + PICTURE * len(scenes)
        if scenes and rng.random() < 0.05 and not mode.think:  # An earlier turn of the conversation.
            earlier = self._ask(rng, scenes, layout, split, mode)
            if earlier:
                head += f"{earlier.question}{END}\n{ASSISTANT}{earlier.answer}{END}\n<|im_start|>user\n"
        self._append(sample, head, scenes, start, PREFIX)
        if len(scenes) > 1:
            sample.picture = None  # Either may be meant.
        if mode.tools:
            sample.functions = definitions(Written(sample.identifiers, self.tokenizer, 0))
        self._pack(sample, lambda: self._ask(rng, scenes, layout, split, mode))
        return sample

    @staticmethod
    def _mode(rng: random.Random, layout: Layout, split: Split) -> Mode:
        think, announced = rng.random() < THINKING, rng.random() < 0.3
        if layout in (Layout.TOOLS, Layout.TOOLS_AND_PICTURE):
            return Mode(think=think, announced=announced, tools=ToolPrompt(rng, split, made_up=MADE_UP_TOOLS))
        if layout is Layout.NO_PICTURE:
            return Mode(think=think, announced=announced)
        return Mode(rng.choices(list(TASK_HINTS), weights=list(TASK_HINTS.values()))[0], think, announced)

    def conversation(self, conversation: Conversation) -> Sample:
        """Makes a row with one segment: pieces of a conversation, some of which are trained on."""
        sample = Sample(exchanges=[conversation.exchange])
        pictures = iter(scene for _, scene in conversation.pictures)
        last = len(conversation.pieces) - 1
        for index, (text, trained) in enumerate(conversation.pieces):
            if not trained:
                self._append(sample, text, pictures, 0, segment=1)
                continue
            answer = self._encode(text, conversation.printed if index == last else ())
            start = _next_position(sample.positions)
            sample.labels[-1:] = answer
            # The end of the turn is an input only if the conversation continues.
            said = answer if index < last else answer[:-1]
            sample.identifiers += said
            sample.positions += [(start + i,) * 3 for i in range(len(said))]
            sample.segments += [1] * len(said)
            sample.labels += [IGNORED] * (len(sample.identifiers) - len(sample.labels))
        return sample

    def video(self, rng: random.Random, clip: Clip, grid: Scene, split: Split = Split.SEEN) -> Sample:
        """Frame pairs of the size of `grid`, each after its time, and questions about them."""
        hint = "CLIP" if rng.random() < 0.4 else None
        sample = Sample()
        head = self._system(rng, Mode(hint)) + "<|im_start|>user\n"
        head += "".join(f"<{clip.pair_time(pair):.1f} seconds>{PICTURE}" for pair in clip.pairs)
        self._append(sample, head, [grid] * len(clip.pairs), 0, PREFIX)
        self._pack(sample, lambda: ask_about_clip(rng, clip, split, hint))
        return sample

    def chart(self, rng: random.Random, chart: Chart, split: Split = Split.SEEN) -> Sample:
        """Questions about a chart."""
        hint = rng.choices(list(TASK_HINTS), weights=list(TASK_HINTS.values()))[0]
        sample = Sample()
        head = self._system(rng, Mode(hint)) + f"<|im_start|>user\n{PICTURE}"
        self._append(sample, head, [chart.scene], 0, PREFIX)
        self._pack(sample, lambda: ask_about_chart(rng, chart, split, hint))
        return sample

    def lesson(self, lesson: ExemplarLesson) -> Sample:
        """Questions about the last of several images, after example turns."""
        sample = Sample()
        self._append(sample, lesson.head, [scene for _, scene in lesson.pictures], 0, PREFIX)
        exchanges = iter(lesson.exchanges)
        self._pack(sample, lambda: next(exchanges, None))
        return sample

    def prompt(self, question: str, scene: Scene | None, system: str | None = None) -> Sample:
        """A single question in the server's layout. The prompt ends where the answer begins."""
        sample = Sample()
        head = system_turn(system) if system else ""
        self._append(sample, head + user_turn((PICTURE if scene else "") + question) + ASSISTANT, [scene] if scene else [], 0, PREFIX)
        return sample

    def _pack(self, sample: Sample, ask: Callable[[], Exchange | None]) -> None:
        """Fills the row with questions, each in a separate segment. After a long prefix there are more of them.

        The last one may exceed the limit. Otherwise only short answers would fit the remaining room, and long ones would become rare.
        Until version 14 they were: after a question with a schema, hardly any list but the empty one was left.
        """
        longest = max(self.longest_text, min(MOST_TEXT, len(sample.identifiers)))
        prefix_length = len(sample.identifiers)
        after_prefix = _next_position(sample.positions)
        asked: set[tuple[str, str]] = set()
        read: Counter[str] = Counter()
        failures = 0
        while failures < 10 and len(sample.identifiers) - prefix_length < longest:
            exchange = ask()
            if exchange is None or (exchange.question, exchange.begun) in asked or (exchange.printed and read[exchange.answer] >= MOST_REPEATED):
                failures += 1
                continue
            question = self.tokenizer.encode(f"{exchange.question}{END}\n{ASSISTANT}{exchange.begun}")
            answer = self._encode_answer(exchange)
            if len(question) + len(answer) > LONGEST_EXCHANGE:
                failures += 1
                continue
            asked.add((exchange.question, exchange.begun))
            read[exchange.answer] += 1
            sample.exchanges.append(exchange)
            self._look(sample, exchange, answer, len(sample.identifiers) + len(question) - 1)
            if sample.functions:
                self._copy(sample, question, answer)
            count = len(question) + len(answer) - 1
            sample.identifiers += question + answer[:-1]
            sample.positions += [(after_prefix + i,) * 3 for i in range(count)]
            sample.segments += [len(sample.exchanges)] * count
            sample.labels += [IGNORED] * (len(question) - 1) + answer

    def _ask(self, rng: random.Random, scenes: list[Scene], layout: Layout, split: Split, mode: Mode) -> Exchange | None:
        if mode.tools and (not scenes or rng.random() < 0.4):
            exchange: Exchange | None = Exchange(*mode.tools.ask(rng, split))
        elif layout is Layout.NO_PICTURE:
            exchange = self._ask_blindly(rng, split)
        elif layout is Layout.TWO_PICTURES:
            exchange = self._ask_about_one(rng, scenes, split, mode)
        else:
            exchange = ask_further(rng, scenes[0], split, mode.hint) if rng.random() < FURTHER.get(mode.hint, 0) else None
            exchange = exchange or ask_something(rng, scenes[0], split, mode.hint)
            if exchange and mode.hint is None:
                form = rng.random()
                if form < IN_JSON:
                    asked = as_json(rng, exchange)
                    exchange = (with_schema(rng, asked) if rng.random() < BOUND_TOO else asked) if asked else exchange
                elif form < IN_JSON + BOUND and not mode.think:
                    chosen = ask_bound(rng, scenes[0], split) if rng.random() < CHOSEN else None
                    exchange = bound_json(rng, chosen or exchange, scenes[0]) or exchange
        if exchange and mode.think and layout is not Layout.TWO_PICTURES:
            exchange = with_thought(exchange, scenes[0] if scenes else None, mode.announced)
        return exchange

    @staticmethod
    def _ask_blindly(rng: random.Random, split: Split) -> Exchange | None:
        if rng.random() < 0.5:
            return Exchange("copying", *copying(rng, split, WORDS))
        exchange = chat(rng, None, split)
        if exchange and rng.random() < 0.3:
            blind = ask_something(rng, rng.choice(_spare_scenes()), split)
            if blind and blind.task != "chat" and "point" not in blind.task and "detect" not in blind.task:
                exchange = Exchange("no picture", blind.question, NO_PICTURE)
        return exchange

    @staticmethod
    def _ask_about_one(rng: random.Random, scenes: list[Scene], split: Split, mode: Mode) -> Exchange | None:
        """A question about one of two images. If the question does not say which, it is about the last."""
        which = rng.randrange(2)
        exchange = ask_something(rng, scenes[which], split, mode.hint)
        if exchange and mode.hint is None and exchange.task != "chat" and "point" not in exchange.task and "detect" not in exchange.task:
            words = rng.choice(
                (
                    ("In the first picture: ", "In the second picture: "),
                    ("First picture: ", "Second picture: "),
                    ("Image 1: ", "Image 2: "),
                )
            )[which]
            exchange = replace(exchange, question=words + exchange.question)
        elif which == 0:
            return None
        return with_thought(exchange, scenes[which], mode.announced) if exchange and mode.think else exchange

    def _system(self, rng: random.Random, mode: Mode) -> str:
        text = rng.choice(SYSTEM_TEXTS) if rng.random() < (0.5 if mode.hint else 0.15) else ""
        if rng.random() < 0.2 and text:
            text += " " + rng.choice(SYSTEM_TEXTS)
        if mode.tag:
            text = mode.tag + (rng.choice(("", "", "\n", " ")) if text else "") + text
        if mode.tools:
            text += ("\n\n" if text else "") + mode.tools.system
        return system_turn(text) if text else ""

    def _append(self, sample: Sample, text: str, scenes: Iterable[Scene], start: int, segment: int) -> None:
        """Appends prompt text whose image tokens stand for the next of the scenes. `start`: the first position of the row."""
        pictures = iter(scenes)
        position = start if not sample.positions else _next_position(sample.positions)
        for identifier in self.tokenizer.encode(text):
            if identifier != self.image_token:
                sample.identifiers.append(identifier)
                sample.positions.append((position,) * 3)
                position += 1
                continue
            scene = next(pictures)
            rows, columns = scene.height // CELL, scene.width // CELL
            sample.picture = PlacedPicture(scene, len(sample.identifiers))
            sample.identifiers += [identifier] * (rows * columns)
            sample.positions += [(position, position + k // columns, position + k % columns) for k in range(rows * columns)]
            position += max(rows, columns)
        added = len(sample.identifiers) - len(sample.segments)
        sample.segments += [segment] * added
        sample.labels += [IGNORED] * added

    def _encode_answer(self, exchange: Exchange) -> list[int]:
        return self._encode(exchange.answer, exchange.printed)

    def _encode(self, answer: str, printed: tuple[str, ...]) -> list[int]:
        """The answer and the end of the turn. Words read from the image are spelled letter by letter."""
        identifiers: list[int] = []
        rest = answer
        for word in printed:
            start = rest.find(f'"{word}"') + 1 or rest.index(word)
            identifiers += self.tokenizer.encode(rest[:start]) + self.tokenizer.spell(word)
            rest = rest[start + len(word) :]
        identifiers += self.tokenizer.encode(rest)
        return [*identifiers, self.tokenizer[END]]

    def _answer(self, sample: Sample, exchange: Exchange, segment: int) -> None:
        answer = self._encode_answer(exchange)
        start = _next_position(sample.positions)
        sample.exchanges.append(exchange)
        self._look(sample, exchange, answer, len(sample.labels) - 1)
        sample.labels[-1] = answer[0]
        sample.identifiers += answer[:-1]
        sample.positions += [(start + i,) * 3 for i in range(len(answer) - 1)]
        sample.segments += [segment] * (len(answer) - 1)
        sample.labels += answer[1:]


    def _look(self, sample: Sample, exchange: Exchange, answer: list[int], start: int) -> None:
        """Notes where to look for the tokens of an answer; `start`: the token that predicts the first."""
        if sample.picture is None:
            return
        for index, place in enumerate(places_of(exchange, answer, self.tokenizer, sample.picture.scene)):
            if place:
                sample.looks["source" if place.printed else "object"][start + index] = sample.picture.token_at(place)

    def _copy(self, sample: Sample, question: list[int], answer: list[int]) -> None:
        """Notes what calls repeat of the prompt; question and answer are about to be appended."""
        first = len(sample.identifiers)
        asked, said = Written(question, self.tokenizer, first), Written(answer, self.tokenizer, first + len(question) - 1)
        sample.looks["source"] |= copied_from(sample.functions, asked, said)


def _next_position(positions: list[Position]) -> int:
    """The position of the token after the last one; prompts end with text, whose three coordinates agree."""
    return positions[-1][0] + 1


@lru_cache(maxsize=1)
def _spare_scenes() -> list[Scene]:
    rng = random.Random(0)
    return [render_scene(rng, 224, 224)[1] for _ in range(50)]
