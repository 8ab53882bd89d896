"""Writes test/fixtures/track-scores.json: random tracks, and what py-motmetrics says of them.

Usage: python score_tracks.py > test/fixtures/track-scores.json, with motmetrics 1.4 installed
"""

import json
import random

import motmetrics
import numpy

# motmetrics 1.4 asks for what NumPy 2 no longer has.
numpy.asfarray = lambda values: numpy.asarray(values, dtype=float)

CLIPS = 12
NAMES = {"num_switches": "switches", "num_misses": "missed", "num_false_positives": "extra", "idf1": "idf1", "mota": "mota"}


def clip(rng):
    """Frames as [known, found], each a list of [id, left, top, right, bottom]. Found boxes are moved, lost and mixed up."""
    things = [[rng.randint(0, 60), rng.randint(0, 60), rng.randint(-6, 6), rng.randint(-6, 6)] for _ in range(rng.randint(1, 5))]
    ids = {index: index for index in range(len(things))}
    frames = []
    for frame in range(rng.randint(4, 10)):
        known, found = [], []
        for index, (x, y, dx, dy) in enumerate(things):
            if rng.random() < 0.1:
                continue
            left, top = x + dx * frame, y + dy * frame
            known.append([index, left, top, left + 20, top + 20])
            if rng.random() < 0.15:
                ids[index] = rng.randint(0, 9) + 10
            if rng.random() < 0.2:
                continue
            moved = [value + rng.randint(-4, 4) for value in (left, top, left + 20, top + 20)]
            if all(other[0] != ids[index] for other in found):
                found.append([ids[index], *moved])
        if rng.random() < 0.3:
            found.append([99, 5, 5, 30, 30])
        frames.append([known, found])
    return frames


def scores(frames):
    accumulator = motmetrics.MOTAccumulator(auto_id=True)
    for known, found in frames:
        boxes = [numpy.array([[l, t, r - l, b - t] for _, l, t, r, b in side]).reshape(-1, 4) for side in (known, found)]
        distances = motmetrics.distances.iou_matrix(*boxes, max_iou=0.5)
        accumulator.update([one[0] for one in known], [one[0] for one in found], distances)
    summary = motmetrics.metrics.create().compute(accumulator, metrics=list(NAMES), name="clip")
    return {NAMES[name]: round(float(summary[name].iloc[0]), 6) for name in NAMES}


def main():
    rng = random.Random(7)
    clips = [clip(rng) for _ in range(CLIPS)]
    lines = [json.dumps({"frames": frames, "scores": scores(frames)}, separators=(",", ":")) for frames in clips]
    print("[\n" + ",\n".join(lines) + "\n]")


main()
