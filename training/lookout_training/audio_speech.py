"""Spoken words and sentences by espeak-ng, with the position of every word, and a cache of them for training. Does not need PyTorch."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from .audio_features import SAMPLE_RATE
from .world import COLOUR_NAMES, SHAPES

NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
ANIMALS = "cat dog fish bird horse cow sheep lion tiger bear mouse rabbit monkey elephant duck frog snake bee".split()
THINGS = (
    "house car tree ball book chair table door window boat train plane apple banana flower sun moon bread milk cheese "
    "water coffee tea lamp key phone music kitchen garden"
).split()
OTHERS = (
    "yes no hello goodbye please thanks stop go left right up down open close start big small hot cold "
    "north south east west Monday Tuesday Wednesday Thursday Friday Saturday Sunday morning evening"
).split()
WORDS: tuple[str, ...] = tuple(dict.fromkeys([*NUMBERS, *COLOUR_NAMES, *SHAPES, *ANIMALS, *THINGS, *OTHERS]))

# Spoken questions about an image: task -> sentences. The slots are filled with kinds and colours of the world.
SPOKEN_QUESTIONS: dict[str, tuple[str, ...]] = {
    "colour": ("What colour is the {kind}?", "Which colour is the {kind}?"),
    "count kind": ("How many {kinds} are there?", "How many {kinds} do you see?"),
    "exists": ("Is there a {kind}?", "Do you see a {kind}?"),
    "where": ("Where is the {kind}?",),
    "left": ("What is on the left?",),
    "right": ("What is on the right?",),
    "count all": ("How many shapes are there?",),
}

# A voice is an accent with a variant of espeak-ng. The last ones are never trained on.
TRAINED_VOICES = tuple(
    (
        "en-us en-us+m1 en-us+m3 en-us+m4 en-us+m7 en-us+f1 en-us+f2 en-us+f4 en-us+Andy en-us+Gene en-us+Mike en-us+adam en-us+anika "
        "en-us+linda en-us+steph en-us-nyc+m2 en-us-nyc+f3 en en+m2 en+m5 en+f2 en+f3 en+Alex en+Hugo en+Lee "
        "en+belinda en+edward en+victor en-gb-x-rp+m3 en-gb-x-rp+f1 en-gb-scotland+m1 en-gb-scotland+f4 en-gb-x-gbclan+m4 "
        "en-gb-x-gbclan+f2 en-029+m7 en-029+f1"
    ).split()
)
HELD_OUT_VOICES = tuple("en-us+m6 en-us+f5 en-us+Annie en-us+robert en+m8 en+f5 en+david en+Michael en-gb-x-rp+paul".split())
SPEEDS = (120, 200)  # Words per minute.
PITCHES = (25, 75)  # espeak-ng's own scale.


def plural(word: str) -> str:
    """As in `questions`: "crosses"."""
    return word + ("es" if word.endswith("s") else "s")


def spoken_sentences() -> dict[str, tuple[str, str]]:
    """Every spoken question -> its task and the kind it is about ("" for none)."""
    sentences: dict[str, tuple[str, str]] = {}
    for task, forms in SPOKEN_QUESTIONS.items():
        for form in forms:
            for kind in SHAPES if "{kind" in form else [""]:
                sentences[form.format(kind=kind, kinds=plural(kind))] = (task, kind)
    return sentences


def words_of(text: str) -> list[str]:
    """The words that are spoken for a text."""
    return text.rstrip("?.").split()


def vocabulary() -> list[str]:
    """Every word that can be spoken, in a fixed order."""
    said = [word.lower() if word == words_of(text)[0] else word for text in spoken_sentences() for word in words_of(text)]
    return list(dict.fromkeys([*WORDS, *said]))


@dataclass(frozen=True)
class Utterance:
    """Speech without silence around it."""

    samples: np.ndarray  # float32 in -1..1 at SAMPLE_RATE.
    words: tuple[tuple[str, int, int], ...]  # Word, first sample, end.


class Speech(Protocol):
    """The source of utterances."""

    def separately(self, rng: random.Random, words: Sequence[str]) -> list[Utterance]:
        """Words spoken separately, in one voice."""
        ...

    def phrase(self, rng: random.Random) -> Utterance:
        """Two or three words of WORDS spoken as a phrase."""
        ...

    def sentence(self, rng: random.Random, text: str) -> Utterance:
        """One of `spoken_sentences`."""
        ...


# ---- espeak-ng ----------------------------------------------------------------------------------------------------


class _Event(ctypes.Structure):
    """espeak_EVENT of espeak-ng's speak_lib.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("message", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),  # Milliseconds.
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("identifier", ctypes.c_char * 8),
    )


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
_END_OF_EVENTS, _WORD_EVENT = 0, 1
_SYNCHRONOUS, _RATE, _PITCH, _UTF8 = 2, 1, 3, 1


class Espeak:
    """The synthesiser. Use one per process, because the library's state is global."""

    def __init__(self) -> None:
        name = ctypes.util.find_library("espeak-ng")
        if name is None:
            raise RuntimeError("libespeak-ng is not installed: apt-get install espeak-ng")
        self._library = ctypes.CDLL(name)
        self._rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, None, 0)
        if self._rate <= 0:
            raise RuntimeError("espeak-ng does not start")
        self._pieces: list[np.ndarray] = []
        self._starts: list[tuple[int, int]] = []  # Position in the text and time in milliseconds, per word.
        self._callback = _CALLBACK(self._collect)
        self._library.espeak_SetSynthCallback(self._callback)

    def _collect(self, wave: ctypes._Pointer[ctypes.c_short], count: int, events: ctypes._Pointer[_Event]) -> int:
        if wave and count:
            self._pieces.append(np.ctypeslib.as_array(wave, (count,)).copy())
        index = 0
        while events[index].type != _END_OF_EVENTS:
            if events[index].type == _WORD_EVENT:
                self._starts.append((events[index].text_position - 1, events[index].audio_position))
            index += 1
        return 0

    def say(self, text: str, voice: str, speed: int, pitch: int) -> Utterance:
        """`voice` as espeak-ng names it, `speed` in words per minute, `pitch` 0..99. Raises ValueError for an unknown voice."""
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice}")
        self._library.espeak_SetParameter(_RATE, speed, 0)
        self._library.espeak_SetParameter(_PITCH, pitch, 0)
        self._pieces, self._starts = [], []
        encoded = text.encode()
        self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 0, 0, _UTF8, None, None)
        samples = resample(np.concatenate(self._pieces).astype(np.float32) / 32768, self._rate)
        loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
        first, end = int(loud[0]), int(loud[-1]) + 1
        starts = [(place, max(0, start * SAMPLE_RATE // 1000 - first)) for place, start in self._starts]
        return Utterance(samples[first:end], align(text, starts, end - first))


def align(text: str, starts: list[tuple[int, int]], end: int) -> tuple[tuple[str, int, int], ...]:
    """Words with their first sample and end, from pairs of a position in `text` and a sample.

    espeak-ng may report a word twice, or two words as one ("of the"). Such words share the time equally.
    """
    words = words_of(text)
    known: dict[int, int] = {}
    for place, sample in starts:
        known.setdefault(len(text[:place].split()), sample)
    known[0], known[len(words)] = 0, end
    knots = sorted(place for place in known if place <= len(words))
    borders = np.interp(range(len(words) + 1), knots, [known[place] for place in knots]).astype(int).tolist()
    return tuple(zip(words, borders[:-1], borders[1:], strict=True))


def resample(samples: np.ndarray, rate: int) -> np.ndarray:
    """Resamples to SAMPLE_RATE by cutting off the spectrum above half of it."""
    count = round(len(samples) * SAMPLE_RATE / rate)
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return (np.fft.irfft(spectrum, count) * (count / len(samples))).astype(np.float32)


class LiveSpeech:
    """Synthesises utterances on demand, in the given voices."""

    def __init__(self, voices: Sequence[str]) -> None:
        self._espeak = Espeak()
        self._voices = voices

    def _manner(self, rng: random.Random) -> tuple[str, int, int]:
        return rng.choice(self._voices), rng.randint(*SPEEDS), rng.randint(*PITCHES)

    def separately(self, rng: random.Random, words: Sequence[str]) -> list[Utterance]:
        manner = self._manner(rng)
        return [self._espeak.say(word, *manner) for word in words]

    def phrase(self, rng: random.Random) -> Utterance:
        return self._espeak.say(random_phrase(rng), *self._manner(rng))

    def sentence(self, rng: random.Random, text: str) -> Utterance:
        return self._espeak.say(text, *self._manner(rng))


def random_phrase(rng: random.Random) -> str:
    return " ".join(rng.sample(WORDS, rng.choice((2, 2, 3))))


# ---- Cache --------------------------------------------------------------------------------------------------------

CACHE = "audio-cache"  # The cache's folder in the run folder.
VOICE_TURNS = 3  # Speeds and pitches per voice.
PHRASES_PER_TURN = 40


def build_cache(directory: Path) -> None:
    """Renders every word, every sentence and some phrases in every trained voice, into `samples.npy` (int16) and `index.json`."""
    directory.mkdir(parents=True, exist_ok=True)
    espeak = Espeak()
    rng = random.Random(5)
    pieces: list[np.ndarray] = []
    index: list[dict[str, object]] = []
    offset = 0
    for voice in TRAINED_VOICES:
        for turn in range(VOICE_TURNS):
            speed, pitch = rng.randint(*SPEEDS), rng.randint(*PITCHES)
            texts = [("word", word) for word in WORDS] + [("phrase", random_phrase(rng)) for _ in range(PHRASES_PER_TURN)]
            if turn == 0:
                texts += [("sentence", text) for text in spoken_sentences()]
            for kind, text in texts:
                said = espeak.say(text, voice, speed, pitch)
                samples = np.clip(np.round(said.samples * 32767), -32768, 32767).astype(np.int16)
                pieces.append(samples)
                index.append({"kind": kind, "text": text, "manner": f"{voice} {turn}", "offset": offset, "words": said.words})
                offset += len(samples)
    np.save(directory / "samples.partial.npy", np.concatenate(pieces))
    (directory / "samples.partial.npy").replace(directory / "samples.npy")
    (directory / "index.json").write_text(json.dumps(index))


class CachedSpeech:
    """Utterances of `build_cache`, read from disk when needed."""

    def __init__(self, directory: Path) -> None:
        self._samples = np.load(directory / "samples.npy", mmap_mode="r")
        self._index = json.loads((directory / "index.json").read_text())
        self._words: defaultdict[str, dict[str, int]] = defaultdict(dict)  # Manner -> word -> position in the index.
        self._sentences: defaultdict[str, list[int]] = defaultdict(list)
        self._phrases: list[int] = []
        for place, entry in enumerate(self._index):
            if entry["kind"] == "word":
                self._words[entry["manner"]][entry["text"]] = place
            elif entry["kind"] == "sentence":
                self._sentences[entry["text"]].append(place)
            else:
                self._phrases.append(place)
        self._manners = list(self._words)

    def _load(self, place: int) -> Utterance:
        entry = self._index[place]
        end = entry["words"][-1][2]
        samples = self._samples[entry["offset"] : entry["offset"] + end].astype(np.float32) / 32768
        return Utterance(samples, tuple((word, first, last) for word, first, last in entry["words"]))

    def separately(self, rng: random.Random, words: Sequence[str]) -> list[Utterance]:
        said = self._words[rng.choice(self._manners)]
        return [self._load(said[word]) for word in words]

    def phrase(self, rng: random.Random) -> Utterance:
        return self._load(rng.choice(self._phrases))

    def sentence(self, rng: random.Random, text: str) -> Utterance:
        return self._load(rng.choice(self._sentences[text]))
