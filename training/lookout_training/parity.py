"""Parity: the server's greedy reply must be PyTorch's greedy reply, token for token, with the exported weights."""

from __future__ import annotations

import argparse
import random

from .client import ChatClient, png_data_url
from .config import CONFIGS, HELD_OUT_SEED
from .export import load_network, round_to_stored
from .generation import generate
from .phrasings import Split
from .prompts import SampleMaker
from .questions import ask_something
from .tokenizer import Tokenizer
from .world import pick_size, render_scene

REPLY_LIMIT = 160  # Tokens.


def run(arguments: argparse.Namespace) -> None:
    """Asks both sides the same questions about pictures that need no resizing; exits with 1 if any reply differs."""
    tokenizer = Tokenizer.load()
    maker = SampleMaker(tokenizer)
    checkpoint = None if arguments.random else arguments.checkpoint or arguments.run_dir / "stage2.pt"
    network = round_to_stored(load_network(checkpoint, CONFIGS[arguments.config]))
    client = ChatClient(arguments.base_url, arguments.api_key, arguments.model)
    equal = 0
    for index in range(arguments.prompts):
        rng = random.Random(HELD_OUT_SEED + 20_000 + index)
        width, height = pick_size(rng)
        pixels, scene = render_scene(rng, width, height)
        # By words only: a system text of the server's own making would not be ours to compare.
        exchange = None
        while exchange is None:
            exchange = ask_something(rng, scene, Split.SEEN)
        prompt = maker.prompt(exchange.question, scene)
        output = generate(network, [prompt], pixels[None], tokenizer["<|im_end|>"], maker.image_token, REPLY_LIMIT, half=False)[0]
        ours = tokenizer.decode(output)
        theirs = client.ask(exchange.question, png_data_url(pixels), limit=REPLY_LIMIT)
        same = tokenizer.encode(ours) == tokenizer.encode(theirs) and ours == theirs
        equal += same
        print(
            f"{'equal ' if same else 'DIFFER'} {exchange.task}: {exchange.question!r} -> {ours[:200]!r}"
            + ("" if same else f" | server {theirs[:200]!r}"),
            flush=True,
        )
    print(f"{equal} of {arguments.prompts} replies equal")
    if equal < arguments.prompts:
        raise SystemExit(1)
