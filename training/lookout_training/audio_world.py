"""Sounds and their content (speech, tones, beeps or nothing), and the degradation of recordings. Does not need PyTorch."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from .audio_features import SAMPLE_RATE
from .audio_speech import WORDS, Speech, Utterance


class Kind(Enum):
    """The kind of content in a sound."""

    SPEECH = "speech"
    TONES = "tones"
    BEEPS = "beeps"
    NOTHING = "nothing"


TONES = ("high", "low", "rising", "falling")
BEEP = "beep"  # Not its number: the tower's positions restart every second, so only the language model can count.
MOST_BEEPS = 6
LONGEST_SECONDS = 4.4  # Maximum seconds of sounds made here, so that all fit into five chunks.


@dataclass(frozen=True)
class Span:
    """Something heard from sample `first` to `end`: a word, a tone, or "beep"."""

    label: str
    first: int
    end: int


@dataclass(frozen=True)
class Sound:
    """A recording with its ground truth."""

    samples: np.ndarray  # float32 in -1..1 at SAMPLE_RATE.
    kind: Kind
    spans: tuple[Span, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(span.label for span in self.spans)


# ---- Parts --------------------------------------------------------------------------------------------------------


def _faded(wave: np.ndarray) -> np.ndarray:
    """Fades both ends over 8 ms, so that they do not click."""
    ramp = np.minimum(1, np.arange(len(wave)) / (0.008 * SAMPLE_RATE))
    return (wave * ramp * ramp[::-1]).astype(np.float32)


def _timbre(rng: random.Random, phase: np.ndarray) -> np.ndarray:
    """A sine, or a tone with overtones that fall off."""
    wave = np.sin(phase)
    for overtone in range(2, rng.choice((1, 1, 2, 3, 5)) + 1):
        wave += np.sin(overtone * phase) * rng.uniform(0.1, 0.5) / overtone
    return wave * rng.uniform(0.3, 0.6)


def tone(rng: random.Random, name: str) -> np.ndarray:
    """0.5 to 1.1 s of a steady tone (high from 900, low to 350 Hz) or a glide over at least an octave."""
    count = round(rng.uniform(0.5, 1.1) * SAMPLE_RATE)
    if name in ("high", "low"):
        frequency = rng.uniform(900, 2200) if name == "high" else rng.uniform(120, 350)
        path = np.full(count, frequency)
    else:
        low = rng.uniform(150, 800)
        path = low * np.linspace(1, rng.uniform(2, 3.5), count)
        if name == "falling":
            path = path[::-1]
    return _faded(_timbre(rng, 2 * math.pi * np.cumsum(path) / SAMPLE_RATE))


def _silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


class _Tape:
    """Appends parts one after the other."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []
        self.spans: list[Span] = []
        self.length = 0

    def pause(self, seconds: float) -> None:
        self._add(_silence(seconds))

    def mark(self, label: str, samples: np.ndarray) -> None:
        self.spans.append(Span(label, self.length, self.length + len(samples)))
        self._add(samples)

    def speak(self, said: Utterance) -> None:
        self.spans += [Span(word, self.length + first, self.length + end) for word, first, end in said.words]
        self._add(said.samples)

    def _add(self, samples: np.ndarray) -> None:
        self.parts.append(samples)
        self.length += len(samples)

    def sound(self, kind: Kind) -> Sound:
        return Sound(np.concatenate(self.parts), kind, tuple(self.spans))


# ---- Sounds -------------------------------------------------------------------------------------------------------


def _edge(rng: random.Random) -> float:
    """Seconds of silence before and after the content."""
    return rng.choice((0.02, rng.uniform(0.05, 0.5), rng.uniform(0.05, 0.5)))


def words(rng: random.Random, speech: Speech) -> Sound:
    """One to three words, spoken separately or as a phrase."""
    tape = _Tape()
    tape.pause(_edge(rng))
    if rng.random() < 0.3:
        tape.speak(speech.phrase(rng))
    else:
        chosen = [rng.choice(WORDS) for _ in range(rng.choices((1, 2, 3), weights=(35, 40, 25))[0])]
        for index, said in enumerate(speech.separately(rng, chosen)):
            if index:
                tape.pause(rng.uniform(0.03, 0.35))
            tape.speak(said)
    tape.pause(_edge(rng))
    return tape.sound(Kind.SPEECH)


def spoken_sentence(rng: random.Random, speech: Speech, text: str) -> Sound:
    """One of the spoken questions."""
    tape = _Tape()
    tape.pause(_edge(rng))
    tape.speak(speech.sentence(rng, text))
    tape.pause(_edge(rng))
    return tape.sound(Kind.SPEECH)


def tones(rng: random.Random) -> Sound:
    """One tone, or two different ones."""
    tape = _Tape()
    tape.pause(_edge(rng))
    for index, name in enumerate(rng.sample(TONES, rng.choice((1, 1, 2)))):
        if index:
            tape.pause(rng.uniform(0.15, 0.5))
        tape.mark(name, tone(rng, name))
    tape.pause(_edge(rng))
    return tape.sound(Kind.TONES)


def beeps(rng: random.Random) -> Sound:
    """One to MOST_BEEPS equal short tones in an even rhythm."""
    tape = _Tape()
    tape.pause(_edge(rng))
    length, gap = rng.uniform(0.08, 0.22), rng.uniform(0.14, 0.35)
    phase = 2 * math.pi * rng.uniform(350, 2000) * np.arange(round(length * SAMPLE_RATE)) / SAMPLE_RATE
    beep = _faded(_timbre(rng, phase))
    for number in range(rng.randint(1, MOST_BEEPS)):
        if number:
            tape.pause(gap)
        tape.mark(BEEP, beep)
    tape.pause(_edge(rng))
    return tape.sound(Kind.BEEPS)


def nothing(rng: random.Random) -> Sound:
    tape = _Tape()
    tape.pause(rng.uniform(0.3, 2.5))
    return tape.sound(Kind.NOTHING)


def any_sound(rng: random.Random, speech: Speech) -> Sound:
    """A recording of the mix."""
    kind = rng.choices(list(Kind), weights=(66, 15, 15, 4))[0]
    make = {Kind.SPEECH: lambda: words(rng, speech), Kind.TONES: lambda: tones(rng), Kind.BEEPS: lambda: beeps(rng)}
    return record(rng, make.get(kind, lambda: nothing(rng))())


# ---- Recording ----------------------------------------------------------------------------------------------------


def record(rng: random.Random, sound: Sound) -> Sound:
    """Simulates a recording: speed, room, background noise, loss of treble and level, stored in 16 bits."""
    noise = np.random.default_rng(rng.getrandbits(32))
    if sound.kind is Kind.SPEECH and rng.random() < 0.7:
        sound = _at_speed(sound, rng.uniform(0.88, 1.13))
    limit = round(LONGEST_SECONDS * SAMPLE_RATE)
    if len(sound.samples) > limit:
        sound = _at_speed(sound, len(sound.samples) / limit)
    samples = sound.samples
    if rng.random() < 0.25:
        samples = _in_room(rng, noise, samples)
    loudness = float(np.sqrt(np.mean(samples**2))) or 0.1
    if rng.random() < 0.75:
        ratio = 10 ** (-rng.uniform(12, 45) / 20)  # Signal to noise from 12 to 45 dB.
        samples = samples + loudness * ratio * _background(rng, noise, len(samples))
    if rng.random() < 0.15:
        samples = _dulled(rng, samples)
    samples = samples * (rng.uniform(0.03, 0.9) / max(1e-4, float(np.abs(samples).max())))
    return replace(sound, samples=(np.round(np.clip(samples, -1, 1) * 32767) / 32768).astype(np.float32))


def _at_speed(sound: Sound, speed: float) -> Sound:
    """Changes speed and pitch together, like a tape."""
    count = max(2, round(len(sound.samples) / speed))
    places = np.arange(count) * speed
    samples = np.interp(places, np.arange(len(sound.samples)), sound.samples).astype(np.float32)
    spans = tuple(Span(span.label, round(span.first / speed), min(count, round(span.end / speed))) for span in sound.spans)
    return Sound(samples, sound.kind, spans)


def _in_room(rng: random.Random, noise: np.random.Generator, samples: np.ndarray) -> np.ndarray:
    """Adds echoes that decay within 60 to 250 ms."""
    length = round(rng.uniform(0.06, 0.25) * SAMPLE_RATE)
    response = noise.standard_normal(length) * np.exp(-5 * np.arange(length) / length) * rng.uniform(0.02, 0.1)
    response[0] = 1
    size = _quick_size(len(samples) + length)
    spectrum = np.fft.rfft(samples, size) * np.fft.rfft(response, size)
    return np.fft.irfft(spectrum)[: len(samples)].astype(np.float32)


def _background(rng: random.Random, noise: np.random.Generator, count: int) -> np.ndarray:
    """Noise of level 1: white, falling off with frequency, or with mains hum."""
    slope = rng.choice((0, 0.5, 1.0))
    spectrum = np.fft.rfft(noise.standard_normal(_quick_size(count)))
    spectrum /= np.maximum(1, np.arange(len(spectrum)) * 20 / len(spectrum)) ** slope
    wave = np.fft.irfft(spectrum)[:count]
    wave /= max(1e-6, float(np.sqrt(np.mean(wave**2))))
    if rng.random() < 0.2:
        wave = wave + np.sin(2 * math.pi * rng.choice((50, 60, 100, 120)) * np.arange(count) / SAMPLE_RATE)
    return wave


def _dulled(rng: random.Random, samples: np.ndarray) -> np.ndarray:
    """Removes frequencies above 3 to 7 kHz, as on a telephone."""
    spectrum = np.fft.rfft(samples, _quick_size(len(samples)))
    spectrum[round(len(spectrum) * rng.uniform(3000, 7000) / (SAMPLE_RATE / 2)) :] = 0
    return np.fft.irfft(spectrum)[: len(samples)].astype(np.float32)


def _quick_size(count: int) -> int:
    """The next size whose Fourier transform has no large prime factor."""
    return -(-count // 2048) * 2048
