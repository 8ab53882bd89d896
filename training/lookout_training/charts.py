"""Questions about bar charts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from . import phrasings
from .phrasings import Phrasings, Split, fill, in_some_style
from .questions import TASKS_OF_HINT, Exchange, enumeration, sentence, with_article
from .world.chart import Bar, Chart

Asker = Callable[[random.Random, Chart, Split], Exchange | None]
# The general questions that also suit a chart. Most others would be ambiguous: are labels objects?
OF_ANY_PICTURE = ("exists", "where", "left", "right", "kind", "detect", "detect all", "point", "point many")
LONGEST = ("longest", "biggest", "largest"), ("tallest", "highest")  # For any bar; for an upright one.
SHORTEST = ("shortest", "smallest"), ("lowest",)
LONGER = ("longer", "bigger", "larger"), ("taller", "higher")
SHORTER = ("shorter", "smaller"), ("lower",)


def _say(rng: random.Random, lines: Phrasings, split: Split, task: str, answer: str, printed: bool = False, **slots: str) -> Exchange:
    exchange = Exchange(task, in_some_style(rng, fill(rng, lines.pick(rng, split), **slots), keep_case="label" in slots), answer)
    return replace(exchange, printed=(answer,)) if printed else exchange


def _word(rng: random.Random, chart: Chart, words: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    return rng.choice(words[0] + words[1] if chart.standing else words[0])


def _name(bar: Bar) -> str:
    return sentence(with_article(bar.item.name))


def extreme(rng: random.Random, chart: Chart, split: Split) -> Exchange:
    longest = rng.random() < 0.5
    bar = (max if longest else min)(chart.bars, key=lambda bar: bar.length)
    word = _word(rng, chart, LONGEST if longest else SHORTEST)
    return _say(rng, phrasings.CHART_EXTREME, split, "chart extreme", _name(bar), extreme=word)


def compare(rng: random.Random, chart: Chart, split: Split) -> Exchange:
    one, other = rng.sample(chart.bars, 2)
    longer = rng.random() < 0.5
    answer = "Yes." if (one.length > other.length) == longer else "No."
    word = _word(rng, chart, LONGER if longer else SHORTER)
    return _say(rng, phrasings.CHART_COMPARE, split, "chart compare", answer, one=one.item.name, other=other.item.name, longer=word)


def caption(rng: random.Random, chart: Chart, split: Split) -> Exchange:
    bars = enumeration([with_article(bar.item.name) for bar in chart.bars])
    return _say(rng, phrasings.CHART_CAPTION, split, "chart caption", f"A bar chart with {bars}.")


def count(rng: random.Random, chart: Chart, split: Split) -> Exchange:
    return _say(rng, phrasings.CHART_COUNT, split, "chart count", str(len(chart.bars)))


def value(rng: random.Random, chart: Chart, split: Split) -> Exchange | None:
    bar = rng.choice(chart.bars)
    if bar.value is None:
        return None
    return _say(rng, phrasings.CHART_VALUE, split, "chart value", str(bar.value), printed=True, name=bar.item.name)


def label(rng: random.Random, chart: Chart, split: Split) -> Exchange | None:
    bar = rng.choice(chart.bars)
    if bar.label is None:
        return None
    if rng.random() < 0.5:
        return _say(rng, phrasings.CHART_LABEL, split, "chart label", bar.label, printed=True, name=bar.item.name)
    return _say(rng, phrasings.CHART_LABELLED, split, "chart label", _name(bar), label=bar.label)


CHART_TASKS: dict[str, tuple[Asker, float]] = {
    "chart caption": (caption, 8),
    "chart extreme": (extreme, 10),
    "chart compare": (compare, 8),
    "chart count": (count, 5),
    "chart value": (value, 6),
    "chart label": (label, 6),
}
ANY_PICTURE = 0.3  # Share of general questions among those without a hint.


def ask_about_chart(rng: random.Random, chart: Chart, split: Split, hint: str | None) -> Exchange | None:
    """Draws a random task. `hint` is None, "BOX", "POINT" or "POLYGON"."""
    if hint or rng.random() < ANY_PICTURE:
        tasks = TASKS_OF_HINT[hint]
        names = list(tasks) if hint else list(OF_ANY_PICTURE)
        name = rng.choices(names, weights=[tasks[name][1] for name in names])[0]
        return tasks[name][0](rng, chart.scene, split)
    name = rng.choices(list(CHART_TASKS), weights=[weight for _, weight in CHART_TASKS.values()])[0]
    return CHART_TASKS[name][0](rng, chart, split)
