"""Evaluation through the running server, on pictures and phrasings that were never trained on. Needs Pillow and numpy only."""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from .audio_evaluate import HEARD_ROWS, heard_questions
from .client import ChatClient, png_data_url
from .config import HELD_OUT_SEED
from .phrasings import Split
from .questions import BOX_HINT_TASKS, POINT_HINT_TASKS, WORD_TASKS, Asker
from .scoring import GroundingScore, same_words
from .world import pick_size, render_scene

TEXT_HEAVY = 0.12  # Share of the pictures, as in training.
BOX_HINT = {"system": "<hint>BOX</hint>"}
BOX_FORMAT = {"vision_config": {"annotation_format": "box"}}
POINT_HINT = {"system": "<hint>POINT</hint>"}
POINT_FORMAT = {"vision_config": {"annotation_format": "point"}}

# Row of the table -> how to ask, and extra arguments of ChatClient.ask.
ROWS: dict[str, tuple[Asker, dict[str, Any]]] = {
    **{task: (WORD_TASKS[task][0], {}) for task in WORD_TASKS if task not in ("detect", "detect all", "point", "point many")},
    "detect, in words": (WORD_TASKS["detect"][0], {}),
    "detect, hint": (BOX_HINT_TASKS["hint detect"][0], BOX_HINT),
    "detect, annotation_format": (BOX_HINT_TASKS["hint detect"][0], BOX_FORMAT),
    "detect one, hint": (BOX_HINT_TASKS["hint one"][0], BOX_HINT),
    "detect all, in words": (WORD_TASKS["detect all"][0], {}),
    "detect all, hint": (BOX_HINT_TASKS["hint all"][0], BOX_HINT),
    "point, in words": (WORD_TASKS["point"][0], {}),
    "point, hint": (POINT_HINT_TASKS["hint point"][0], POINT_HINT),
    "point, annotation_format": (POINT_HINT_TASKS["hint point"][0], POINT_FORMAT),
}
# Gate -> (rows pooled, least value).
GATES: dict[str, tuple[tuple[str, ...], float]] = {
    "colour": (("colour",), 0.80),
    "exists": (("exists",), 0.80),
    "left": (("left",), 0.80),
    "right": (("right",), 0.80),
    "count": (("count kind", "count colour", "count both", "count all"), 0.60),
    "spoken words": (("said",), 0.90),
    "detection F1@.5": (("detect, in words", "detect, hint", "detect all, in words", "detect all, hint"), 0.50),
}


@dataclass
class Question:
    """One request and its truth."""

    row: str
    split: Split
    picture: str  # Data URL, empty where the question is about a sound.
    question: str
    truth: str
    extra: dict[str, Any]
    answer: str = ""


@dataclass
class Cell:
    """Results of one row and one kind of phrasing."""

    asked: int = 0
    right: int = 0
    grounding: GroundingScore = field(default_factory=GroundingScore)

    def add(self, question: Question) -> None:
        self.asked += 1
        if is_grounding(question.row):
            self.grounding.add(question.answer, question.truth)
        else:
            self.right += same_words(question.answer, question.truth)


def is_grounding(row: str) -> bool:
    return row.startswith(("detect", "point"))


def questions(pictures: int) -> Iterator[Question]:
    """Every row once per picture and kind of phrasing, where the picture allows it."""
    for index in range(pictures):
        rng = random.Random(HELD_OUT_SEED + 10_000 + index)
        width, height = pick_size(rng)
        pixels, scene = render_scene(rng, width, height, text_heavy=rng.random() < TEXT_HEAVY)
        picture = png_data_url(pixels)
        for row, (ask, extra) in ROWS.items():
            for split in Split:
                for _ in range(3):  # A task may have a variant that this scene allows.
                    exchange = ask(rng, scene, split)
                    if exchange:
                        yield Question(row, split, picture, exchange.question, exchange.answer, extra)
                        break


def collect(asked: list[Question]) -> dict[str, dict[Split, Cell]]:
    """Row -> kind of phrasing -> results."""
    table = {row: {split: Cell() for split in Split} for row in (*ROWS, *HEARD_ROWS)}
    for question in asked:
        table[question.row][question.split].add(question)
    return table


def pooled(cells: list[Cell]) -> Cell:
    """Sums of several cells."""
    total = Cell()
    for cell in cells:
        total.asked += cell.asked
        total.right += cell.right
        for name in GroundingScore.__dataclass_fields__:
            setattr(total.grounding, name, getattr(total.grounding, name) + getattr(cell.grounding, name))
    return total


def _rate(cell: Cell) -> str:
    return f"{cell.right / cell.asked:.2f}" if cell.asked else "-"


def markdown(table: dict[str, dict[Split, Cell]]) -> tuple[str, dict[str, Any]]:
    """The table for a reader, and the same figures as plain values."""
    lines = ["| answers in words | seen phrasings | held-out phrasings | all | n |", "|---|---|---|---|---|"]
    values: dict[str, Any] = {}
    for row, cells in table.items():
        if is_grounding(row):
            continue
        both = pooled(list(cells.values()))
        lines.append(f"| {row} | {_rate(cells[Split.SEEN])} | {_rate(cells[Split.HELD_OUT])} | {_rate(both)} | {both.asked} |")
        values[row] = {split.value: {"n": cell.asked, "right": cell.right} for split, cell in cells.items()}
    lines += [
        "",
        "| answers in markup | F1 seen | F1 held-out | F1 all | precision | recall | mean IoU / mean error | malformed | n objects | n |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row, cells in table.items():
        if not is_grounding(row):
            continue
        both = pooled(list(cells.values()))
        score = both.grounding
        quality = f"{score.mean_distance:.0f}/1000" if row.startswith("point") else f"{score.mean_iou:.2f}"
        seen, held_out = cells[Split.SEEN].grounding, cells[Split.HELD_OUT].grounding
        lines.append(
            f"| {row} | {seen.f1:.2f} | {held_out.f1:.2f} | {score.f1:.2f} | {score.precision:.2f} | {score.recall:.2f} | {quality} | {score.malformed} | {score.truths} | {both.asked} |"
        )
        values[row] = {
            split.value: {name: getattr(cell.grounding, name) for name in GroundingScore.__dataclass_fields__}
            | {"n": cell.asked, "f1": cell.grounding.f1}
            for split, cell in cells.items()
        }
    lines += ["", "| gate | value | needed | |", "|---|---|---|---|"]
    values["gates"] = {}
    for name, (rows, needed) in GATES.items():
        cell = pooled([cell for row in rows for cell in table[row].values()])
        value = cell.grounding.f1 if is_grounding(rows[0]) else cell.right / max(1, cell.asked)
        lines.append(f"| {name} | {value:.2f} | {needed:.2f} | {'pass' if value >= needed else 'FAIL'} |")
        values["gates"][name] = {"value": value, "needed": needed, "pass": value >= needed}
    return "\n".join(lines), values


def run(arguments: argparse.Namespace) -> None:
    """Asks everything and prints the tables. A failed request counts as a wrong answer and is reported."""
    client = ChatClient(arguments.base_url, arguments.api_key, arguments.model)
    asked = list(questions(arguments.pictures))
    asked += [Question(*heard) for heard in heard_questions(arguments.sounds)] if arguments.sounds else []
    failures: list[str] = []

    def ask(question: Question) -> None:
        try:
            question.answer = client.ask(question.question, question.picture or None, **question.extra)
        except (RuntimeError, OSError) as error:
            failures.append(str(error))

    started = time.monotonic()
    with ThreadPoolExecutor(arguments.concurrency) as pool:
        list(pool.map(ask, asked))
    seconds = time.monotonic() - started
    text, values = markdown(collect(asked))
    print(text)
    print(f"\n{len(asked)} questions about {arguments.pictures} held-out pictures and {arguments.sounds} sounds in {seconds:.0f} s; failed requests: {len(failures)}")
    if failures:
        print("first failure:", failures[0])
    if arguments.show_errors:
        wrong = [q for q in asked if not is_grounding(q.row) and not same_words(q.answer, q.truth)]
        for question in wrong[: arguments.show_errors]:
            print(f"[{question.row}] {question.question!r}: {question.answer!r} instead of {question.truth!r}")
    if arguments.json:
        values |= {"pictures": arguments.pictures, "sounds": arguments.sounds, "questions": len(asked), "seconds": seconds, "failed_requests": len(failures)}
        arguments.json.write_text(json.dumps(values, indent=1) + "\n")
