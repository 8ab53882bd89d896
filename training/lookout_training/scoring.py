"""Compares answers with the ground truth, for the evaluation over HTTP and for the curves of stage 2. Does not need PyTorch."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from .markup import Annotation, Point, parse_annotations, parse_clips
from .questions import enumeration

IOU_THRESHOLD = 0.5
POINT_TOLERANCE = 30  # On the 0..1000 grid, per axis-independent distance.


def same_words(answer: str, truth: str) -> bool:
    """Whether two texts are equal, ignoring surrounding blanks and a final full stop."""
    return answer.strip().rstrip(".") == truth.strip().rstrip(".")


def same_facts(answer: str, truth: str) -> bool:
    """Whether two captions name the same objects, each equally often, in any order."""
    wanted = _facts(truth)
    return same_words(answer, truth) if wanted is None else _facts(answer) == wanted


FACT = re.compile(r'the text "[^"]*"|an? [a-z ]+?(?=, | and |$)')


def _facts(caption: str) -> list[str] | None:
    """The sorted objects that a caption lists; None if it is not such a list."""
    words = caption.strip().rstrip(".")
    words = words[:1].lower() + words[1:]
    found = FACT.findall(words)
    return sorted(found) if found and enumeration(found) == words else None


@dataclass
class GroundingScore:
    """Sums over replies with boxes or points."""

    truths: int = 0
    predictions: int = 0
    hits: int = 0  # Label equal and IoU >= 0.5, or distance <= POINT_TOLERANCE.
    iou_sum: float = 0.0  # Of the hits.
    distance_sum: float = 0.0  # Of points matched by label, on the 0..1000 grid.
    pairs: int = 0  # Points matched by label.
    malformed: int = 0  # Replies with anything but markup and blanks, or "None." wrongly spelt.

    @property
    def precision(self) -> float:
        return self.hits / self.predictions if self.predictions else float(self.truths == 0)

    @property
    def recall(self) -> float:
        return self.hits / self.truths if self.truths else float(self.predictions == 0)

    @property
    def f1(self) -> float:
        total = self.truths + self.predictions
        return 2 * self.hits / total if total else 1.0

    @property
    def mean_iou(self) -> float:
        return self.iou_sum / self.hits if self.hits else 0.0

    @property
    def mean_distance(self) -> float:
        return self.distance_sum / self.pairs if self.pairs else float("nan")

    def add(self, answer: str, truth: str) -> None:
        """Greedy matching, best pair first, of the leaves in `answer` with those in `truth`."""
        predicted, rest = parse_annotations(answer)
        wanted, _ = parse_annotations(truth)
        if rest and not (rest == "None." and not predicted):
            self.malformed += 1
        self.truths += len(wanted)
        self.predictions += len(predicted)
        pairs = [
            (closeness(a, b), i, j)
            for i, a in enumerate(predicted)
            for j, b in enumerate(wanted)
            if a.mention == b.mention and a.tag == b.tag
        ]
        used_predictions: set[int] = set()
        used_truths: set[int] = set()
        for value, i, j in sorted(pairs, reverse=True):
            if i in used_predictions or j in used_truths:
                continue
            used_predictions.add(i)
            used_truths.add(j)
            if predicted[i].tag == "point":
                self.pairs += 1
                self.distance_sum += -value
                self.hits += -value <= POINT_TOLERANCE
            elif value >= IOU_THRESHOLD:
                self.hits += 1
                self.iou_sum += value


def closeness(a: Annotation, b: Annotation) -> float:
    """Intersection over union of two boxes or polygons; minus the Euclidean distance of two points."""
    if a.tag == "point":
        (ax, ay), (bx, by) = a.points[0], b.points[0]
        return -(((ax - bx) ** 2 + (ay - by) ** 2) ** 0.5)
    if a.tag == "polygon":
        first, second = (_filled(annotation.points) for annotation in (a, b))
        return float((first & second).sum() / max(1, (first | second).sum()))
    (a_left, a_top), (a_right, a_bottom) = a.points
    (b_left, b_top), (b_right, b_bottom) = b.points
    width = max(0, min(a_right, b_right) - max(a_left, b_left))
    height = max(0, min(a_bottom, b_bottom) - max(a_top, b_top))
    union = (a_right - a_left) * (a_bottom - a_top) + (b_right - b_left) * (b_bottom - b_top) - width * height
    return width * height / union if union else 0.0


def _filled(points: tuple[Point, ...]) -> np.ndarray:
    """The polygon, drawn as a mask of 250 x 250 cells."""
    picture = Image.new("1", (250, 250))
    ImageDraw.Draw(picture).polygon([(x / 4, y / 4) for x, y in points], fill=1)
    return np.asarray(picture)


# How an answer is compared with the ground truth.
WORDS, FACTS, GROUNDING, JSON_VALUE, CALLS, CLIP = "words", "facts", "grounding", "JSON", "calls", "clip"


def same_json(answer: str, truth: str) -> bool:
    """Equal values; text is no JSON."""
    try:
        return json.loads(answer) == json.loads(truth)
    except ValueError:
        return False


def same_calls(answer: str, truth: str) -> bool:
    """The same functions with the same arguments in the same order; where none is right, anything said in words is."""
    wanted = json.loads(truth)
    try:
        return json.loads(answer) == wanted
    except ValueError:
        return not wanted


def clip_overlap(answer: str, truth: str, interval: float) -> float:
    """Intersection over union in time of the best pairs by mention; a frame stands for `interval` seconds around it."""
    predicted, wanted = parse_clips(answer)[0], parse_clips(truth)[0]
    if not wanted:
        return float(not predicted)
    total = 0.0
    for mention, start, end in wanted:
        overlaps = [
            max(0.0, min(end, b) - max(start, a) + interval) / (max(end, b) - min(start, a) + interval)
            for name, a, b in predicted
            if name == mention
        ]
        total += max(overlaps, default=0.0)
    return total / max(len(wanted), len(predicted))
