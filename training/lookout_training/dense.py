"""Dense targets and heads on the merged image tokens. They teach the vision tower what is where and are discarded after training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .running import on_device
from .world import CELL, COLOUR_NAMES, EMOJI_NAMES, GLYPHS, SHAPES, Scene
from .world.chart import BAR
from .world.scene import Character

KINDS = [*SHAPES, "text", *EMOJI_NAMES, BAR]
NO_COLOUR = -100  # Of an emoji; what cross-entropy leaves out.
SUB_ROWS, SUB_COLUMNS = 2, 4  # Character classes per token: sub-cells of 16 x 8 pixels.
NO_CHARACTER = len(GLYPHS)  # The last class.
SPELLED = 20  # Distinct positions in a text; the last stands for all further ones.
LINES = 8  # Distinct texts of an image, from the top; the last stands for all below it.
NO_PLACE = -100  # Of a sub-cell without a character; what cross-entropy leaves out.
PLACES = 6  # left, top, right, bottom, centre x, centre y; each as two digits of 0..999.


@dataclass
class DenseTargets:
    """Per token of a batch; N = tokens, row-major. `kind` is -1 where no object has its centre."""

    kind: np.ndarray  # (B, N) int64
    colour: np.ndarray  # (B, N) int64; NO_COLOUR for an emoji
    box: np.ndarray  # (B, N, 4) centre x, y within the grid cell (cells), log width, log height (cells)
    places: np.ndarray  # (B, N, PLACES) float32: coordinates as shares of the image times 10
    digits: np.ndarray  # (B, N, PLACES, 2) int64: hundreds and tens of coordinates in 0..1000
    characters: np.ndarray  # (B, N, SUB_ROWS * SUB_COLUMNS) int64, NO_CHARACTER where empty
    spelled: np.ndarray  # (B, N, SUB_ROWS * SUB_COLUMNS) int64: place of the character in its text; NO_PLACE where empty
    lines: np.ndarray  # (B, N, SUB_ROWS * SUB_COLUMNS) int64: which text the character belongs to, from the top; NO_PLACE where empty


def dense_targets(scene: Scene) -> DenseTargets:
    """Targets of one scene (without the batch axis)."""
    rows, columns = scene.height // CELL, scene.width // CELL
    kind = np.full((rows, columns), -1, np.int64)
    colour = np.zeros((rows, columns), np.int64)
    box = np.zeros((rows, columns, 4), np.float32)
    places = np.zeros((rows, columns, PLACES), np.float32)
    digits = np.zeros((rows, columns, PLACES, 2), np.int64)
    fine = np.full((rows * SUB_ROWS, columns * SUB_COLUMNS), NO_CHARACTER, np.int64)
    spelled = np.full(fine.shape, NO_PLACE, np.int64)
    lines = np.full(fine.shape, NO_PLACE, np.int64)
    line_of = {id(item): line for line, item in enumerate(scene.texts)}
    for item in sorted(scene.objects, key=lambda item: item.area):
        left, top, right, bottom = item.box
        x, y = item.centre
        row, column = min(rows - 1, int(y // CELL)), min(columns - 1, int(x // CELL))
        kind[row, column] = KINDS.index(item.kind)
        colour[row, column] = COLOUR_NAMES.index(item.colour) if item.colour else NO_COLOUR
        width, height = max(1.0, right - left), max(1.0, bottom - top)
        box[row, column] = (x / CELL - column, y / CELL - row, math.log(width / CELL), math.log(height / CELL))
        relative = (left / scene.width, top / scene.height, right / scene.width, bottom / scene.height, x / scene.width, y / scene.height)
        places[row, column] = 10 * np.array(relative)
        for place, value in enumerate(relative):
            number = max(0, min(999, round(value * 1000)))
            digits[row, column, place] = (number // 100, number // 10 % 10)
        line = min(line_of.get(id(item), 0), LINES - 1)
        for character, rows_and_columns in _covered_by(fine.shape, item.characters, top, bottom):
            fine[rows_and_columns] = GLYPHS.index(character.glyph)
            spelled[rows_and_columns] = min(character.index, SPELLED - 1)
            lines[rows_and_columns] = line
    tokens = rows * columns

    def by_token(grid: np.ndarray) -> np.ndarray:
        return grid.reshape(rows, SUB_ROWS, columns, SUB_COLUMNS).transpose(0, 2, 1, 3).reshape(tokens, SUB_ROWS * SUB_COLUMNS)

    return DenseTargets(
        kind.reshape(tokens),
        colour.reshape(tokens),
        box.reshape(tokens, 4),
        places.reshape(tokens, PLACES),
        digits.reshape(tokens, PLACES, 2),
        by_token(fine),
        by_token(spelled),
        by_token(lines),
    )


def _covered_by(
    shape: tuple[int, ...], characters: tuple[Character, ...], top: float, bottom: float
) -> Iterator[tuple[Character, tuple[np.ndarray, ...]]]:
    """Yields each character of a line and an index of the 16 x 8 pixel sub-cells whose centres its advance box covers."""
    height, width = CELL / SUB_ROWS, CELL / SUB_COLUMNS
    row_centres = (np.arange(shape[0]) + 0.5) * height
    column_centres = (np.arange(shape[1]) + 0.5) * width
    covered_rows = (row_centres >= top - 1) & (row_centres <= bottom + 1)
    if not covered_rows.any():  # The line is lower than a sub-cell: take the nearest.
        covered_rows = np.abs(row_centres - (top + bottom) / 2) <= height / 2
    for character in characters:
        covered_columns = (column_centres >= character.left) & (column_centres < character.right)
        yield character, np.ix_(covered_rows, covered_columns)


def stack_targets(targets: list[DenseTargets]) -> DenseTargets:
    """Makes a batch from single images of one size."""
    return DenseTargets(*(np.stack([getattr(t, name) for t in targets]) for name in DenseTargets.__dataclass_fields__))


class DenseHeads(nn.Module):
    """One linear layer per question, on (B, N, width) image tokens."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.objectness = nn.Linear(width, 1)
        self.kind = nn.Linear(width, len(KINDS))
        self.colour = nn.Linear(width, len(COLOUR_NAMES))
        self.box = nn.Linear(width, 4)
        self.places = nn.Linear(width, PLACES)
        self.digits = nn.Linear(width, PLACES * 2 * 10)
        self.characters = nn.Linear(width, SUB_ROWS * SUB_COLUMNS * (NO_CHARACTER + 1))
        self.spelled = nn.Linear(width, SUB_ROWS * SUB_COLUMNS * SPELLED)
        self.lines = nn.Linear(width, SUB_ROWS * SUB_COLUMNS * LINES)


def dense_loss(heads: DenseHeads, tokens: Tensor, targets: DenseTargets) -> tuple[Tensor, dict[str, float]]:
    """Weighted sum of all head losses on float32 `tokens` (B, N, width), and the parts for the log."""
    kind = on_device(targets.kind)
    centre = kind >= 0
    at_centre = tokens[centre]
    objectness = F.binary_cross_entropy_with_logits(heads.objectness(tokens)[..., 0], centre.float())
    kind_loss = F.cross_entropy(heads.kind(at_centre), kind[centre])
    coloured = on_device(targets.colour)[centre]
    # Summed and divided, because the mean over no colours at all is not a number.
    colour_loss = F.cross_entropy(heads.colour(at_centre), coloured, reduction="sum") / (coloured != NO_COLOUR).sum().clamp(min=1)
    box_loss = F.smooth_l1_loss(heads.box(at_centre), on_device(targets.box)[centre], beta=0.1)
    true_places = on_device(targets.places)[centre]
    place_difference = heads.places(at_centre) - true_places
    place_loss = F.smooth_l1_loss(place_difference, torch.zeros_like(place_difference), beta=0.1)
    digit_targets = on_device(targets.digits)[centre].reshape(-1)
    digit_logits = heads.digits(at_centre).view(-1, 10)
    # The tens change fast across the image and are hard to learn without the hundreds, so their weight is small.
    digit_weights = torch.tensor([1.0, 0.2]).repeat(len(digit_targets) // 2)
    digit_loss = (F.cross_entropy(digit_logits, digit_targets, reduction="none") * digit_weights).sum() / digit_weights.sum()
    characters = on_device(targets.characters).reshape(-1)
    weight = torch.ones(NO_CHARACTER + 1)
    weight[NO_CHARACTER] = 0.1
    # Most sub-cells are empty; classify the covered ones and an eighth of the others.
    chosen = (characters != NO_CHARACTER) | (torch.arange(len(characters)) % 8 == int(characters.sum()) % 8)
    per_sub_cell = heads.characters(tokens).view(-1, NO_CHARACTER + 1)[chosen]
    character_loss = F.cross_entropy(per_sub_cell, characters[chosen], weight=weight)
    spelled_loss = _place_loss(heads.spelled(tokens), targets.spelled, SPELLED)
    line_loss = _place_loss(heads.lines(tokens), targets.lines, LINES)
    total = 4 * objectness + kind_loss + colour_loss + 2 * box_loss + 4 * place_loss + 1.5 * digit_loss + 2.0 * character_loss + spelled_loss + line_loss
    correct = (digit_logits.argmax(-1) == digit_targets).view(-1, 2).float().mean(0)
    parts = {
        "obj": objectness.item(),
        "kind": kind_loss.item(),
        "col": colour_loss.item(),
        "box": box_loss.item(),
        "off": 100 * place_difference.abs().mean().item(),
        "dig": digit_loss.item(),
        "char": character_loss.item(),
        "spell": spelled_loss.item(),
        "line": line_loss.item(),
        "h": correct[0].item(),
        "t": correct[1].item(),
    }
    return total, parts


def _place_loss(logits: Tensor, places: np.ndarray, classes: int) -> Tensor:
    """Mean cross-entropy of (B, N, sub-cells * classes) `logits` over the sub-cells with a character."""
    truth = on_device(places).reshape(-1)
    covered = truth != NO_PLACE
    return F.cross_entropy(logits.view(-1, classes)[covered], truth[covered], reduction="sum") / covered.sum().clamp(min=1)


@torch.no_grad()
def dense_counts(heads: DenseHeads, tokens: Tensor, targets: DenseTargets) -> dict[str, float]:
    """Counts that can be summed over batches; `dense_metrics` turns them into rates."""
    kind = on_device(targets.kind)
    centre = kind >= 0
    predicted = heads.objectness(tokens)[..., 0] > 0
    at_centre = tokens[centre]
    true_box = on_device(targets.box)[centre]
    iou = cell_iou(heads.box(at_centre), true_box)
    digits = heads.digits(at_centre).view(-1, PLACES, 2, 10).argmax(-1) == on_device(targets.digits)[centre]
    characters = on_device(targets.characters).reshape(-1)
    covered = characters != NO_CHARACTER
    read = heads.characters(tokens).view(-1, NO_CHARACTER + 1)[covered].argmax(-1) == characters[covered]
    return {
        "hit": (predicted & centre).sum().item(),
        "predicted": predicted.sum().item(),
        "centres": centre.sum().item(),
        "kind": (heads.kind(at_centre).argmax(-1) == kind[centre]).sum().item(),
        "colour": (heads.colour(at_centre).argmax(-1) == on_device(targets.colour)[centre]).sum().item(),
        "iou": iou.sum().item(),
        "iou50": (iou > 0.5).sum().item(),
        "hundreds": digits[..., 0].float().mean(-1).sum().item(),
        "tens": digits[..., 1].float().mean(-1).sum().item(),
        "read": read.sum().item(),
        "characters": covered.sum().item(),
    }


def dense_metrics(counts: dict[str, float]) -> dict[str, float]:
    """Precision and recall of the centre token, and the rates at true centres."""
    centres = max(1.0, counts["centres"])
    rates = {name: counts[name] / centres for name in ("kind", "colour", "iou", "iou50", "hundreds", "tens")}
    return {
        "P": counts["hit"] / max(1.0, counts["predicted"]),
        "R": counts["hit"] / centres,
        **rates,
        "read": counts["read"] / max(1.0, counts["characters"]),
    }


def cell_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (n, 4) given as centre and log size in cells."""
    a_half, b_half = a[:, 2:].clamp(max=4).exp() / 2, b[:, 2:].exp() / 2
    low = torch.maximum(a[:, :2] - a_half, b[:, :2] - b_half)
    high = torch.minimum(a[:, :2] + a_half, b[:, :2] + b_half)
    intersection = (high - low).clamp(min=0).prod(1)
    union = (2 * a_half).prod(1) + (2 * b_half).prod(1) - intersection
    return intersection / union
