"""Parity: the server's greedy reply must be PyTorch's greedy reply, token for token, with the exported weights.

With files in Q8_0, the weights are equal on both sides too, but the sums are not: llama.cpp also rounds what it multiplies with
such a matrix to eight bits. So a reply may diverge where PyTorch holds two tokens to be about equally likely. Only files in f16
can show that nothing else differs, because their sums agree closely (export both types to compare both).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from .audio_evaluate import wav_base64
from .audio_prompts import SoundSampleMaker
from .audio_questions import ask_about_sound
from .audio_speech import HELD_OUT_VOICES, LiveSpeech
from .audio_world import any_sound
from .client import ChatClient, png_data_url
from .config import CONFIGS, HELD_OUT_SEED
from .export import load_network, round_to_stored
from .generation import generate
from .gguf_files import WeightType
from .phrasings import Split
from .prompts import Sample
from .questions import Exchange, ask_something
from .tokenizer import Tokenizer
from .world import as_served, pick_size, render_scene

REPLY_LIMIT = 160  # Tokens.
# Nats between two tokens that count as equally likely. Version 0: 60 of 60 replies equal from f16 files, 55 of 60 from Q8_0, the others .001 to .41 off.
TIES = {WeightType.F16: 0.01, WeightType.Q8_0: 0.5}


@dataclass
class Trial:
    """A question for both sides."""

    exchange: Exchange
    prompt: Sample
    pixels: np.ndarray | None = None  # (height, width, 3) uint8
    samples: np.ndarray | None = None  # Mono, 16 kHz.


def trials(maker: SoundSampleMaker, prompts: int, sounds: int) -> Iterator[Trial]:
    """Questions about images that need no resizing, then about sounds."""
    for index in range(prompts):
        rng = random.Random(HELD_OUT_SEED + 20_000 + index)
        width, height = pick_size(rng)
        # A size that the server does not change.
        pixels, scene = as_served(render_scene(rng, width, height))
        # Questions in words only: with a hint, the server would add a system text that PyTorch does not see.
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


def first_gap(steps: list[Tensor], ours: list[int], theirs: list[int], end: int) -> float:
    """How much less likely, in nats, PyTorch holds the server's token where the replies first differ; 0 where they do not."""
    for logits, own, other in zip(steps, [*ours, end], [*theirs, end], strict=False):
        if own != other:
            return float(logits[0, own] - logits[0, other])
    return 0.0


def run(arguments: argparse.Namespace) -> None:
    """Asks both sides the same questions; exits with 1 if any reply differs by more than a tie."""
    tokenizer = Tokenizer.load()
    config = CONFIGS[arguments.config]
    maker = SoundSampleMaker(tokenizer, None, config.mel_bins)
    checkpoint = None if arguments.random else arguments.checkpoint or arguments.run_dir / "stage2.pt"
    weights = WeightType(arguments.type)
    network = round_to_stored(load_network(checkpoint, config), weights)
    client = ChatClient(arguments.base_url, arguments.api_key, arguments.model)
    equal = ties = asked = 0
    for trial in trials(maker, arguments.prompts, arguments.sounds if network.audio else 0):
        exchange, pixels, samples = trial.exchange, trial.pixels, trial.samples
        end, pictures = tokenizer["<|im_end|>"], None if pixels is None else pixels[None]
        steps: list[Tensor] = []
        (output,) = generate(
            network, [trial.prompt], pictures, end, maker.image_token, REPLY_LIMIT, half=False, audio_token=maker.audio_token, recorded=steps
        )
        ours = tokenizer.decode(output)
        theirs = client.ask(
            exchange.question,
            None if pixels is None else png_data_url(pixels),
            limit=REPLY_LIMIT,
            sound=None if samples is None else wav_base64(samples),
        )
        asked += 1
        gap = first_gap(steps, tokenizer.encode(ours), tokenizer.encode(theirs), end)
        verdict = "equal" if ours == theirs else "tie" if gap <= TIES[weights] else "DIFFER"
        equal += verdict == "equal"
        ties += verdict == "tie"
        print(
            f"{verdict:6} {exchange.task}: {exchange.question!r} -> {ours[:200]!r}"
            + ("" if ours == theirs else f" | server {theirs[:200]!r}, less likely by {gap:.3f}"),
            flush=True,
        )
    print(f"{equal} of {asked} replies equal" + (f", {ties} by one token that is as likely" if ties else ""))
    if equal + ties < asked:
        raise SystemExit(1)
