"""Parity: the server's greedy reply must be PyTorch's greedy reply, token for token, with the exported weights."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .audio_evaluate import wav_base64
from .audio_prompts import SoundSampleMaker
from .audio_questions import ask_about_sound
from .audio_speech import HELD_OUT_VOICES, LiveSpeech
from .audio_world import any_sound
from .client import ChatClient, png_data_url
from .config import CONFIGS, HELD_OUT_SEED
from .export import load_network, round_to_stored
from .generation import generate
from .phrasings import Split
from .prompts import Sample
from .questions import Exchange, ask_something
from .tokenizer import Tokenizer
from .world import pick_size, render_scene

REPLY_LIMIT = 160  # Tokens.


@dataclass
class Trial:
    """A question put to both sides."""

    exchange: Exchange
    prompt: Sample
    pixels: np.ndarray | None = None  # (height, width, 3) uint8
    samples: np.ndarray | None = None  # Mono, 16 kHz.


def trials(maker: SoundSampleMaker, prompts: int, sounds: int) -> Iterator[Trial]:
    """Questions about pictures that need no resizing, then about sounds."""
    for index in range(prompts):
        rng = random.Random(HELD_OUT_SEED + 20_000 + index)
        width, height = pick_size(rng)
        pixels, scene = render_scene(rng, width, height)
        # By words only: a system text of the server's own making would not be ours to compare.
        exchange = None
        while exchange is None:
            exchange = ask_something(rng, scene, Split.SEEN)
        yield Trial(exchange, maker.prompt(exchange.question, scene), pixels)
    if not sounds:
        return
    speech = LiveSpeech(HELD_OUT_VOICES)
    for index in range(sounds):
        rng = random.Random(HELD_OUT_SEED + 30_000 + index)
        sound = any_sound(rng, speech)
        exchange = None
        while exchange is None:
            exchange = ask_about_sound(rng, sound, Split.SEEN)
        yield Trial(exchange, maker.heard_prompt(exchange.question, sound.samples), samples=sound.samples)


def run(arguments: argparse.Namespace) -> None:
    """Asks both sides the same questions; exits with 1 if any reply differs."""
    tokenizer = Tokenizer.load()
    config = CONFIGS[arguments.config]
    maker = SoundSampleMaker(tokenizer, None, config.mel_bins)
    checkpoint = None if arguments.random else arguments.checkpoint or arguments.run_dir / "stage2.pt"
    network = round_to_stored(load_network(checkpoint, config))
    client = ChatClient(arguments.base_url, arguments.api_key, arguments.model)
    equal = asked = 0
    for trial in trials(maker, arguments.prompts, arguments.sounds if network.audio else 0):
        exchange, pixels, samples = trial.exchange, trial.pixels, trial.samples
        end, pictures = tokenizer["<|im_end|>"], None if pixels is None else pixels[None]
        (output,) = generate(
            network, [trial.prompt], pictures, end, maker.image_token, REPLY_LIMIT, half=False, audio_token=maker.audio_token
        )
        ours = tokenizer.decode(output)
        theirs = client.ask(
            exchange.question,
            None if pixels is None else png_data_url(pixels),
            limit=REPLY_LIMIT,
            sound=None if samples is None else wav_base64(samples),
        )
        asked += 1
        same = tokenizer.encode(ours) == tokenizer.encode(theirs) and ours == theirs
        equal += same
        print(
            f"{'equal ' if same else 'DIFFER'} {exchange.task}: {exchange.question!r} -> {ours[:200]!r}"
            + ("" if same else f" | server {theirs[:200]!r}"),
            flush=True,
        )
    print(f"{equal} of {asked} replies equal")
    if equal < asked:
        raise SystemExit(1)
