"""Evaluation through a running server, on data that was never trained on. Needs Pillow and numpy, and espeak-ng for audio; no PyTorch."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from .client import ChatClient
from .evaluation_set import (
    SHIFTS,
    Question,
    chart_questions,
    clip_questions,
    focus_questions,
    picture_questions,
    sound_questions,
    tool_questions,
)
from .phrasings import EVALUATED, Split
from .scoring import (
    CALLS,
    CLIP,
    FACTS,
    GROUNDING,
    JSON_VALUE,
    WORDS,
    GroundingScore,
    clip_overlap,
    same_calls,
    same_facts,
    same_json,
    same_words,
)

COUNTS = ("count kind", "count colour", "count both", "count all")
BY_CATEGORY = ("detect, in words", "detect, hint", "detect, annotation_format", "detect endpoint, categories")
EXHAUSTIVE = ("detect all, in words", "detect all, hint", "detect endpoint, everything")
# Gate -> pooled rows, minimum value, measure (a name of `Cell.measures`).
GATES: dict[str, tuple[tuple[str, ...], float, str]] = {
    **{task: ((task,), 0.95, "rate") for task in ("colour", "left", "right", "exists", "where", "what-at")},
    "count": (COUNTS, 0.90, "rate"),
    "detection by category, F1@.5": (BY_CATEGORY, 0.90, "f1"),
    "detection of everything, F1@.5": (EXHAUSTIVE, 0.88, "f1"),
    "mean IoU of matched boxes": ((*BY_CATEGORY, *EXHAUSTIVE), 0.80, "iou"),
    "points within 30/1000": (("point, in words", "point, hint", "point, annotation_format"), 0.92, "f1"),
    "reading, words up to 6 letters": (("read, word",), 0.85, "rate"),
    "reading, lines": (("read, lines",), 0.60, "rate"),
    "caption, every fact right": (("caption",), 0.70, "rate"),
    "detection by exemplar, F1@.5": (("detect endpoint, exemplar",), 0.75, "f1"),
    "clips, overlap in time": (("clip", "clip, annotation_format"), 0.60, "rate"),
    "spoken words": (("said",), 0.90, "rate"),
    "tool calls": (("tool call", "parallel calls"), 0.90, "rate"),
}
SHIFTED_LOSS = 0.12  # A gate may be this much lower in the shifted world.


@dataclass
class Cell:
    """Results of one row and one kind of phrasing."""

    asked: int = 0
    right: float = 0  # A clip counts by its overlap.
    failed: int = 0  # Rejected requests.
    grounding: GroundingScore = field(default_factory=GroundingScore)

    def add(self, question: Question) -> None:
        self.asked += 1
        self.failed += bool(question.error)
        if question.judge == GROUNDING:
            self.grounding.add(question.answer, question.truth)
        elif not question.error:
            self.right += rightness(question)

    def measure(self, name: str) -> float:
        """"rate" of right answers, "f1" or "iou" of leaves."""
        if name == "rate":
            return self.right / max(1, self.asked)
        return self.grounding.f1 if name == "f1" else self.grounding.mean_iou


def rightness(question: Question) -> float:
    """0 or 1; of clips the overlap in time, of boxes and points F1."""
    if question.judge == GROUNDING:
        score = GroundingScore()
        score.add(question.answer, question.truth)
        return score.f1
    if question.judge == CLIP:
        return clip_overlap(question.answer, question.truth, question.interval)
    same = {JSON_VALUE: same_json, CALLS: same_calls, FACTS: same_facts}.get(question.judge, same_words)
    return float(same(question.answer, question.truth))


def pooled(cells: Iterable[Cell]) -> Cell:
    """Sums of several cells."""
    total = Cell()
    for cell in cells:
        total.asked += cell.asked
        total.right += cell.right
        total.failed += cell.failed
        for name in GroundingScore.__dataclass_fields__:
            setattr(total.grounding, name, getattr(total.grounding, name) + getattr(cell.grounding, name))
    return total


Table = dict[str, dict[tuple[bool, Split], Cell]]  # Row -> (shifted world, kind of phrasing) -> results.


def collect(asked: list[Question]) -> Table:
    """Collects the rows in the order in which they were first asked."""
    table: Table = {}
    for question in asked:
        cells = table.setdefault(question.row, {(shifted, split): Cell() for shifted in (False, True) for split in EVALUATED})
        cells[question.shifted, question.split].add(question)
    return table


def _in_world(cells: dict[tuple[bool, Split], Cell], shifted: bool) -> Cell:
    return pooled(cell for (moved, _), cell in cells.items() if moved == shifted)


def _shown(cell: Cell, name: str) -> str:
    return f"{cell.measure(name):.2f}" if cell.asked else "-"


def markdown(asked: list[Question]) -> tuple[str, dict[str, Any]]:
    """The tables for a reader, and the same figures as plain values."""
    table = collect(asked)
    grounding = {question.row for question in asked if question.judge == GROUNDING}
    lines = ["| answers in words, calls, clips | seen phrasings | unseen phrasings | all | n | shifted world | n | refused |", "|---|---|---|---|---|---|---|---|"]
    for row, cells in table.items():
        if row in grounding:
            continue
        plain, shifted = _in_world(cells, False), _in_world(cells, True)
        seen, unseen = cells[False, Split.SEEN], cells[False, Split.HELD_OUT]
        figures = f"{_shown(seen, 'rate')} | {_shown(unseen, 'rate')} | {_shown(plain, 'rate')} | {plain.asked} | {_shown(shifted, 'rate')} | {shifted.asked}"
        lines.append(f"| {row} | {figures} | {plain.failed + shifted.failed} |")
    lines += [
        "",
        "| answers in markup | F1 seen | F1 unseen | F1 all | precision | recall | mean IoU / mean error | malformed | n objects | n | F1 shifted world | refused |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row, cells in table.items():
        if row not in grounding:
            continue
        plain, shifted = _in_world(cells, False), _in_world(cells, True)
        score = plain.grounding
        quality = f"{score.mean_distance:.0f}/1000" if row.startswith("point") else f"{score.mean_iou:.2f}"
        seen, unseen = _shown(cells[False, Split.SEEN], "f1"), _shown(cells[False, Split.HELD_OUT], "f1")
        lines.append(
            f"| {row} | {seen} | {unseen} | {score.f1:.2f} | {score.precision:.2f} | {score.recall:.2f} | {quality} | {score.malformed} "
            f"| {score.truths} | {plain.asked} | {_shown(shifted, 'f1')} | {plain.failed + shifted.failed} |"
        )
    gates, values = _gates(table)
    rows = {
        row: {
            f"{'shifted' if shifted else 'plain'} {split.value}": {"n": cell.asked, "right": cell.right, "refused": cell.failed}
            | ({"f1": cell.grounding.f1, "iou": cell.grounding.mean_iou} if row in grounding else {})
            for (shifted, split), cell in cells.items()
            if cell.asked
        }
        for row, cells in table.items()
    }
    return "\n".join([*lines, "", *gates]), {"rows": rows, "gates": values}


def _gates(table: Table) -> tuple[list[str], dict[str, Any]]:
    lines = ["| gate | value | needed | | shifted world | needed | |", "|---|---|---|---|---|---|---|"]
    values: dict[str, Any] = {}
    for name, (rows, needed, measure) in GATES.items():
        plain, shifted = (pooled(_in_world(table[row], moved) for row in rows if row in table) for moved in (False, True))
        if not plain.asked:
            continue
        value = plain.measure(measure)
        values[name] = {"value": value, "needed": needed, "pass": value >= needed}
        line = f"| {name} | {value:.2f} | {needed:.2f} | {_verdict(value, needed)} |"
        if shifted.asked:
            moved, least = shifted.measure(measure), max(0.0, value - SHIFTED_LOSS)
            values[name]["shifted"] = {"value": moved, "needed": least, "pass": moved >= least}
            line += f" {moved:.2f} | {least:.2f} | {_verdict(moved, least)} |"
        lines.append(line if shifted.asked else line + " - | - | |")
    return lines, values


def _verdict(value: float, needed: float) -> str:
    return "pass" if value >= needed else "FAIL"


def today_and_commit() -> str:
    """The origin of a table: the date and, in a checkout, the commit of the evaluating code."""
    try:
        folder = Path(__file__).parent
        found = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return f"{date.today()}"
    return f"{date.today()}, commit {found.stdout.strip()}"


def run(arguments: argparse.Namespace) -> None:
    """Asks everything and prints the tables. A rejected request is reported and counts as a wrong answer."""
    client = ChatClient(arguments.base_url, arguments.api_key, arguments.model)
    asked = [
        *picture_questions(arguments.pictures),
        *picture_questions(arguments.shifted, shifted=True, shifts=arguments.shifts),
        *focus_questions(arguments.pictures // 5),
        *tool_questions(arguments.tools),
        *chart_questions(arguments.charts),
        *clip_questions(arguments.clips),
        *sound_questions(arguments.sounds),
    ]
    if arguments.rows:
        asked = [question for question in asked if question.row in arguments.rows]

    def ask(question: Question) -> None:
        try:
            question.answer = question.reply(client)
        except (RuntimeError, OSError) as error:
            question.error = str(error)

    started = time.monotonic()
    with ThreadPoolExecutor(arguments.concurrency) as pool:
        list(pool.map(ask, asked))
    seconds = time.monotonic() - started
    # A caption is right in any order. Whether it is in the taught order is reported separately.
    in_order = [replace(question, row="caption, in reading order", judge=WORDS) for question in asked if question.judge == FACTS]
    text, values = markdown([*asked, *in_order])
    print(text)
    refused = [question for question in asked if question.error]
    some = "" if set(arguments.shifts) == set(SHIFTS) else f" ({', '.join(arguments.shifts) or 'nothing'} shifted)"
    sizes = f"{arguments.pictures} pictures, {arguments.shifted} of the shifted world{some}, {arguments.charts} charts, {arguments.clips} clips, {arguments.sounds} sounds"
    print(f"\n{today_and_commit()}: {len(asked)} questions about {sizes} in {seconds:.0f} s; refused requests: {len(refused)}")
    for row, _ in Counter(question.row for question in refused).most_common():
        first = next(question for question in refused if question.row == row)
        print(f"refused [{row}]: {first.error[:300]}")
    shown: Counter[str] = Counter()
    for question in asked:
        enough = 1.0 if question.judge == GROUNDING else 0.5
        if question.error or shown[question.row] >= arguments.show_errors or rightness(question) >= enough:
            continue
        shown[question.row] += 1
        print(f"[{question.row}] {question.question!r}: {question.answer!r} instead of {question.truth!r}")
    if arguments.json:
        values |= {"questions": len(asked), "seconds": seconds, "refused": len(refused)}
        arguments.json.write_text(json.dumps(values, indent=1) + "\n")
