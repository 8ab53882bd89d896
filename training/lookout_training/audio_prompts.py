"""Training samples with audio, packed like the images of `prompts`: isolated questions after a shared prefix.

Audio tokens have equal positions on all axes, like text.
"""

from __future__ import annotations

import random
from collections import Counter
from enum import Enum

import numpy as np

from .audio_features import CHUNK_TOKENS, log_mel
from .audio_questions import ask_about_sound, spoken_question
from .audio_speech import Speech
from .audio_world import Sound, any_sound, record, spoken_sentence
from .phrasings import Split
from .prompts import ASSISTANT, END, IGNORED, PICTURE, PREFIX, SYSTEM_TEXTS, Sample, SampleMaker, system_turn
from .questions import Exchange, ask_something
from .tokenizer import Tokenizer
from .world import Scene, as_served, pick_size, render_scene

AUDIO = "<|audio_start|><|audio_pad|><|audio_end|>"


class SoundLayout(Enum):
    """The layout of a row. All rows of a batch share one."""

    SOUND = "sound"
    SOUND_LAST = "sound last"  # One question per row, before the audio.
    SPOKEN_QUESTIONS = "spoken questions"  # An image, and audio that asks about it.
    SOUND_AND_PICTURE = "sound and picture"  # Questions about either.


SOUND_LAYOUT_WEIGHTS = {
    SoundLayout.SOUND: 70,
    SoundLayout.SOUND_LAST: 6,
    SoundLayout.SPOKEN_QUESTIONS: 18,
    SoundLayout.SOUND_AND_PICTURE: 6,
}
MOST_QUESTIONS = 4  # Written questions about one sound, or spoken questions about one image.
WITH_PICTURE = (SoundLayout.SPOKEN_QUESTIONS, SoundLayout.SOUND_AND_PICTURE)


class SoundSampleMaker(SampleMaker):
    """Lays out prompts with audio. `speech` provides the voices; without it only written prompts can be made."""

    def __init__(self, tokenizer: Tokenizer, speech: Speech | None, mel_bins: int, longest_text: int = 208) -> None:
        super().__init__(tokenizer, longest_text)
        self.speech = speech
        self.mel_bins = mel_bins
        self.audio_token = tokenizer["<|audio_pad|>"]

    def make_heard(self, rng: random.Random, layout: SoundLayout, scene: Scene | None, split: Split = Split.SEEN, offset: bool = True) -> Sample:
        """Makes a row with one sound or, for SPOKEN_QUESTIONS, one per question. `scene` is None where the layout has no image."""
        if self.speech is None:
            raise ValueError("no source of speech")
        sample = Sample()
        start = rng.randint(1, 4000) if offset and rng.random() < 0.1 else 0
        system = system_turn(rng.choice(SYSTEM_TEXTS)) if rng.random() < 0.15 else ""
        head = system + "<|im_start|>user\n"
        if layout is SoundLayout.SPOKEN_QUESTIONS and scene:
            self._append(sample, head + PICTURE, iter([scene]), start, PREFIX)
            self._pack_spoken(rng, sample, self.speech, scene, split)
            return sample
        sound = any_sound(rng, self.speech)
        if layout is SoundLayout.SOUND_LAST:
            exchange = None
            while exchange is None:
                exchange = ask_about_sound(rng, sound, split)
            self._append(sample, f"{head}{exchange.question}", iter(()), start, segment=1)
            self._append_sound(sample, sound, segment=1)
            self._append(sample, f"{END}\n{ASSISTANT}", iter(()), start, segment=1)
            self._answer(sample, exchange, 1)
            return sample
        pictures = iter([scene] if scene else [])
        sound_first = scene is None or rng.random() < 0.5
        self._append(sample, head if sound_first else head + PICTURE, pictures, start, PREFIX)
        self._append_sound(sample, sound, PREFIX)
        if scene and sound_first:
            self._append(sample, PICTURE, pictures, start, PREFIX)
        asked: Counter[str] = Counter()  # Tasks.

        def ask() -> Exchange | None:
            about_picture = scene is not None and rng.random() < 0.4
            exchange = ask_something(rng, scene, split) if about_picture and scene else ask_about_sound(rng, sound, split)
            if exchange is None or asked[exchange.task] == 2 or asked.total() == MOST_QUESTIONS * (1 if scene is None else 2):
                return None  # Prefer more sounds to more questions about one sound.
            asked[exchange.task] += 1
            return exchange

        self._pack(sample, ask)
        return sample

    def heard_prompt(self, question: str, samples: np.ndarray, scene: Scene | None = None) -> Sample:
        """A single question about a sound, after an image if there is one. The prompt ends where the answer begins."""
        sample = Sample()
        self._append(sample, "<|im_start|>user\n" + (PICTURE if scene else ""), iter([scene] if scene else []), 0, PREFIX)
        self._append_clip(sample, log_mel(samples, self.mel_bins), PREFIX)
        self._append(sample, f"{question}{END}\n{ASSISTANT}", iter(()), 0, PREFIX)
        return sample

    def _append_sound(self, sample: Sample, sound: Sound, segment: int) -> None:
        self._append_clip(sample, log_mel(sound.samples, self.mel_bins), segment)

    def _append_clip(self, sample: Sample, clip: np.ndarray, segment: int) -> None:
        """Appends the tokens of a sound and their markers to the sample."""
        identifiers = self._clip_tokens(clip)
        start = sample.positions[-1][0] + 1  # Media are always separated by a text token.
        sample.clips.append(clip)
        self._extend(sample, identifiers, start, segment, [IGNORED] * len(identifiers))

    def _clip_tokens(self, clip: np.ndarray) -> list[int]:
        tokenizer = self.tokenizer
        return [tokenizer["<|audio_start|>"], *[self.audio_token] * (len(clip) * CHUNK_TOKENS), tokenizer["<|audio_end|>"]]

    @staticmethod
    def _extend(sample: Sample, identifiers: list[int], start: int, segment: int, labels: list[int]) -> None:
        sample.identifiers += identifiers
        sample.positions += [(start + i,) * 3 for i in range(len(identifiers))]
        sample.segments += [segment] * len(identifiers)
        sample.labels += labels

    def _add_segment(self, sample: Sample, exchange: Exchange, before: list[int]) -> None:
        """Adds a question (after `before`) and its answer as a separate segment."""
        question = before + self.tokenizer.encode(f"{exchange.question}{END}\n{ASSISTANT}")
        answer = self._encode_answer(exchange)
        start = _after_prefix(sample)
        sample.exchanges.append(exchange)
        labels = [IGNORED] * (len(question) - 1) + answer
        self._extend(sample, question + answer[:-1], start, len(sample.exchanges), labels)

    def _pack_spoken(self, rng: random.Random, sample: Sample, speech: Speech, scene: Scene, split: Split) -> None:
        for _ in range(40):
            if len(sample.exchanges) == MOST_QUESTIONS:
                break
            spoken = spoken_question(rng, scene, split)
            if spoken is None:
                continue
            text, exchange = spoken
            sound = record(rng, spoken_sentence(rng, speech, text))
            clip = log_mel(sound.samples, self.mel_bins)
            self._add_segment(sample, exchange, self._clip_tokens(clip))
            sample.clips.append(clip)


def _after_prefix(sample: Sample) -> int:
    """The position after the shared prefix, which ends with at least one text token."""
    return sample.positions[sample.segments.count(PREFIX) - 1][0] + 1


def heard_samples(
    rng: random.Random, size: int, maker: SoundSampleMaker, split: Split = Split.SEEN, layout: SoundLayout | None = None, offset: bool = True
) -> tuple[list[Sample], list[np.ndarray], list[Scene]]:
    """Makes rows of one layout that cost about as much as `size` rows with an image. Images have one size; scenes are in reading order."""
    layout = layout or rng.choices(list(SOUND_LAYOUT_WEIGHTS), weights=list(SOUND_LAYOUT_WEIGHTS.values()))[0]
    width, height = pick_size(rng)
    rows = size if layout in WITH_PICTURE else 2 * size
    samples: list[Sample] = []
    pixels: list[np.ndarray] = []
    scenes: list[Scene] = []
    while len(samples) < rows:
        picture, scene = as_served(render_scene(rng, width, height)) if layout in WITH_PICTURE else (None, None)
        sample = maker.make_heard(rng, layout, scene, split, offset)
        if sample.exchanges:
            samples.append(sample)
            if picture is not None and scene is not None:
                pixels.append(picture)
                scenes.append(scene)
    return samples, pixels, scenes
