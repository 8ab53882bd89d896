"""The audio rows of the evaluation: voices and wordings that were never trained on. Needs only espeak-ng, Pillow and numpy."""

from __future__ import annotations

import base64
import io
import random
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np

from .audio_features import SAMPLE_RATE
from .audio_questions import SOUND_TASKS, spoken_question
from .audio_speech import HELD_OUT_VOICES, LiveSpeech
from .audio_world import any_sound, record, spoken_sentence
from .client import png_data_url
from .config import HELD_OUT_SEED
from .phrasings import EVALUATED, Split
from .world import pick_size, render_scene

SPOKEN = "spoken question"
HEARD_ROWS = (*SOUND_TASKS, SPOKEN)
FIRST_SEED = HELD_OUT_SEED + 40_000
SPOKEN_SHARE = 0.25  # Spoken questions about an image, per sound.

Heard = tuple[str, Split, str, str, str, dict[str, Any]]  # Row, wording, picture or "", question, truth, arguments of ChatClient.ask.


def wav_base64(samples: np.ndarray) -> str:
    """Mono float samples in -1..1 at SAMPLE_RATE as a WAV file of 16 bits."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(np.clip(np.round(samples * 32768), -32768, 32767).astype("<i2").tobytes())
    return base64.b64encode(buffer.getvalue()).decode()


def heard_questions(sounds: int) -> Iterator[Heard]:
    """Yields each row once per sound and kind of phrasing, where the sound allows it, then spoken questions about images."""
    speech = LiveSpeech(HELD_OUT_VOICES)
    for index in range(sounds):
        rng = random.Random(FIRST_SEED + index)
        sound = any_sound(rng, speech)
        audio = {"sound": wav_base64(sound.samples)}
        for row, (ask, _) in SOUND_TASKS.items():
            for split in EVALUATED:
                exchange = ask(rng, sound, split)
                if exchange:
                    yield row, split, "", exchange.question, exchange.answer, audio
    for index in range(round(SPOKEN_SHARE * sounds)):
        rng = random.Random(FIRST_SEED + 10_000 + index)
        pixels, scene = render_scene(rng, *pick_size(rng))
        for split in EVALUATED:
            spoken = None
            while spoken is None:
                spoken = spoken_question(rng, scene, split)
            text, exchange = spoken
            sound = record(rng, spoken_sentence(rng, speech, text))
            yield SPOKEN, split, png_data_url(pixels), exchange.question, exchange.answer, {"sound": wav_base64(sound.samples)}
