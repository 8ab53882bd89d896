"""Compares the logits of Transformers' model with those of the training code's network, for the prompt and the reply.

Arguments: the folder with the GGUF files, the folder of the exported model, a picture of a size that is kept, and
a question. Prints JSON: for the merger's two forms of GELU, the largest difference of a log probability.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from lookout_training.config import NANO
from lookout_training.generation import causal_mask
from lookout_training.network import VisionLanguageModel
from lookout_training.running import images_to_tensor
from lookout_training.warm_start import load_gguf
from PIL import Image
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

MOST_TOKENS = 200
TOKEN_SIDE = 2 * NANO.patch


def positions(tokens: list[int], image_token: int, rows: int, columns: int) -> list[tuple[int, int, int]]:
    """Time, row and column of each token."""
    places: list[tuple[int, int, int]] = []
    following = 0
    while len(places) < len(tokens):
        if tokens[len(places)] == image_token:
            places += [(following, following + row, following + column) for row in range(rows) for column in range(columns)]
            following += max(rows, columns)
        else:
            places.append((following,) * 3)
            following += 1
    return places


def of_training(gguf: Path, tokens: torch.Tensor, image_token: int, pixels: np.ndarray) -> torch.Tensor:
    """Log probabilities (N, vocabulary)."""
    network = VisionLanguageModel(NANO).eval()
    load_gguf(network, gguf)
    height, width, _ = pixels.shape
    x = network.language.embedding(tokens)
    x[tokens == image_token] = network.vision(images_to_tensor(pixels[None])).flatten(0, 1)
    places = positions(tokens[0].tolist(), image_token, height // TOKEN_SIDE, width // TOKEN_SIDE)
    hidden = network.language.hidden(x, torch.tensor([places]).transpose(1, 2), causal_mask(len(places)))
    return network.language.logits(hidden)[0].log_softmax(-1)


@torch.no_grad()
def main(gguf: str, exported: str, picture: str, question: str) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(exported, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(exported)
    image = Image.open(picture).convert("RGB")
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}]
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True)
    inputs = processor(text=[prompt], images=[image], return_tensors="pt")
    prompted = inputs["input_ids"].shape[1]
    tokens = model.generate(**inputs, max_new_tokens=MOST_TOKENS, do_sample=False)
    whole = processor.tokenizer.decode(tokens[0])
    pad = processor.image_token
    inputs = processor(text=[whole.replace(pad * whole.count(pad), pad)], images=[image], return_tensors="pt")
    expected = of_training(Path(gguf), inputs["input_ids"], model.config.image_token_id, np.array(image))
    differences = {}
    for form in ("none", "tanh"):
        model.model.visual.merger.act_fn = torch.nn.GELU(form)
        found = model(**inputs).logits[0].log_softmax(-1)
        differences[form] = (found - expected).abs().max().item()
    print(json.dumps({"replied": tokens.shape[1] - prompted, "largest": differences}))


main(*sys.argv[1:])
