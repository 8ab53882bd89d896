"""Stage 1 for audio: trains the audio tower alone to recognise what is heard at every token."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .audio_features import CHUNK_TOKENS, SAMPLE_RATE, log_mel
from .audio_network import AudioTower, encode_clips, initialise_audio
from .audio_speech import CACHE, HELD_OUT_VOICES, CachedSpeech, LiveSpeech, Speech, build_cache, spoken_sentences, vocabulary
from .audio_world import BEEP, TONES, Kind, Sound, any_sound, record, spoken_sentence
from .config import CONFIGS, HELD_OUT_SEED, NetworkConfig
from .gguf_files import read_tensors, stored_pair
from .optimiser import Optimiser, hidden_matrices
from .running import TrainingClock, TrainingRun, choose_device, half_precision, load_checkpoint, on_device, prefetch, save_checkpoint
from .tokenizer import Tokenizer

CHECKPOINT = "audio-tower.pt"
SENTENCES = 0.15  # Share of the clips that are whole questions.
NOTHING = 0  # Class of a token in which nothing is heard.
LABELS = ("", *vocabulary(), *TONES, BEEP)
NOTHING_WEIGHT = 0.3  # Silence is half of all tokens.
PIECE_WEIGHT = 0.5
SHARPNESS = 20.0  # Factor of the cosine between a token and the language model's embedding.
NORM_WEIGHT = 0.05


@dataclass
class AudioBatch:
    """Clips with what is heard at every token: a class in LABELS and an entry of the language model's vocabulary."""

    clips: list[np.ndarray]  # (chunks, bins, 100) float32 each.
    labels: np.ndarray  # Tokens of all clips, in order.
    pieces: np.ndarray
    sounds: list[Sound]


def token_targets(sound: Sound, chunks: int, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Label and piece of each token (13 per chunk). A word of several pieces spreads them over its time."""
    centres = (np.arange(chunks)[:, None] + 0.08 * np.arange(CHUNK_TOKENS)).reshape(-1) * SAMPLE_RATE
    labels = np.full(len(centres), NOTHING)
    pieces = np.full(len(centres), tokenizer.encode(",")[0])
    for span in sound.spans:
        name = span.label if span.label in _PLACES else span.label.lower()
        spelled = tokenizer.encode(f" {name}")
        inside = (centres >= span.first) & (centres < span.end)
        if not inside.any():  # Shorter than a token.
            inside[np.argmin(np.abs(centres - (span.first + span.end) / 2))] = True
        labels[inside] = _PLACES[name]
        share = np.linspace(0, len(spelled), inside.sum(), endpoint=False).astype(int)
        pieces[inside] = np.array(spelled)[share]
    return labels, pieces


_PLACES = {label: place for place, label in enumerate(LABELS)}


def make_batch(seed: int, size: int, speech: Speech, tokenizer: Tokenizer, bins: int) -> AudioBatch:
    """Makes `size` clips, reproducibly for one source of speech."""
    rng = random.Random(seed * 7919 + 29)
    sentences = list(spoken_sentences())
    sounds = [
        record(rng, spoken_sentence(rng, speech, rng.choice(sentences))) if rng.random() < SENTENCES else any_sound(rng, speech)
        for _ in range(size)
    ]
    clips = [log_mel(sound.samples, bins) for sound in sounds]
    targets = [token_targets(sound, len(clip), tokenizer) for sound, clip in zip(sounds, clips, strict=True)]
    return AudioBatch(clips, np.concatenate([a for a, _ in targets]), np.concatenate([b for _, b in targets]), sounds)


class AudioHeads(nn.Module):
    """Auxiliary heads that read what is heard from the tower's output. They are discarded after training.

    A linear classifier, and the cosine with the language model's own embeddings, so that the tower's output already means
    the word to the language model. The direction that all embeddings share ("never seen") is removed first.
    """

    def __init__(self, embedding: Tensor) -> None:
        super().__init__()
        width = embedding.shape[1]
        self.classes = nn.Linear(width, len(LABELS))
        common = F.normalize(embedding.mean(0), dim=0)
        apart = embedding - (embedding @ common)[:, None] * common
        self.register_buffer("directions", F.normalize(apart, dim=1), persistent=False)

    def loss(self, tokens: Tensor, labels: Tensor, pieces: Tensor) -> tuple[Tensor, dict[str, float]]:
        """`tokens` (N, width) float32."""
        logits = self.classes(tokens)
        weight = torch.ones(len(LABELS))
        weight[NOTHING] = NOTHING_WEIGHT
        label_loss = F.cross_entropy(logits, labels, weight)
        heard = labels != NOTHING
        cosine = F.normalize(tokens, dim=1) @ self.directions.t()
        per_token = F.cross_entropy(SHARPNESS * cosine, pieces, reduction="none")
        piece_loss = (per_token * torch.where(heard, 1.0, NOTHING_WEIGHT)).mean()
        norm_loss = (tokens.norm(dim=1) - 1).square().mean()
        parts = {
            "label": label_loss.item(),
            "piece": piece_loss.item(),
            "right": (logits.argmax(1) == labels)[heard].float().mean().item(),
            "norm": tokens.norm(dim=1).mean().item(),
        }
        return label_loss + PIECE_WEIGHT * piece_loss + NORM_WEIGHT * norm_loss, parts


def heard_labels(classes: np.ndarray) -> tuple[str, ...]:
    """Token classes -> what is heard, one entry per run of equal classes. A run of one token between others is ignored as an error."""
    heard: list[str] = []
    previous = NOTHING
    for place, current in enumerate(classes):
        if current != previous and current != NOTHING:
            lone = place + 1 == len(classes) or classes[place + 1] != current
            if not lone or (previous == NOTHING and (place + 1 == len(classes) or classes[place + 1] == NOTHING)):
                heard.append(LABELS[current])
        previous = current
    return tuple(heard)


@torch.no_grad()
def evaluate(tower: AudioTower, heads: AudioHeads, speech: Speech, tokenizer: Tokenizer, batches: int = 4, size: int = 64) -> dict[str, float]:
    """Accuracy on held-out seeds: of tokens, and of whole clips by kind."""
    right: dict[str, list[bool]] = {}
    tokens_right, tokens_count, pieces_right = 0, 0, 0
    for index in range(batches):
        batch = make_batch(HELD_OUT_SEED + index, size, speech, tokenizer, tower.config.mel_bins)
        outputs = encode_clips(tower, [on_device(clip) for clip in batch.clips])
        tokens = torch.cat(outputs).float()
        classes = heads.classes(tokens).argmax(1).cpu().numpy()
        found = (F.normalize(tokens, dim=1) @ heads.directions.t()).argmax(1).cpu().numpy()
        heard = batch.labels != NOTHING
        tokens_right += int((classes == batch.labels)[heard].sum())
        pieces_right += int((found == batch.pieces)[heard].sum())
        tokens_count += int(heard.sum())
        offset = 0
        for sound, output in zip(batch.sounds, outputs, strict=True):
            mine = heard_labels(classes[offset : offset + len(output)])
            offset += len(output)
            name = "sentence" if sound.kind is Kind.SPEECH and len(sound.spans) > 3 else sound.kind.value
            truth = tuple(label if label in _PLACES else label.lower() for label in sound.labels)
            right.setdefault(name, []).append(mine == truth)
    rates = {"tokens": tokens_right / tokens_count, "pieces": pieces_right / tokens_count}
    return rates | {name: float(np.mean(values)) for name, values in right.items()}


class AudioStage:
    """The tower, the heads, the optimiser and the position in the schedule."""

    def __init__(self, config: NetworkConfig, embedding: Tensor) -> None:
        torch.manual_seed(2)
        self.config = config
        self.tower = AudioTower(config)
        initialise_audio(self.tower)
        self.heads = AudioHeads(embedding)
        self.parameters = [*self.tower.parameters(), *self.heads.parameters()]
        matrices = hidden_matrices(self.tower)
        taken = {id(parameter) for parameter in matrices}
        self.optimiser = Optimiser()
        self.optimiser.add_muon(matrices, multiplier=12.0)
        self.optimiser.add_adamw([parameter for parameter in self.parameters if id(parameter) not in taken])
        self.step = 0
        self.seen = 0
        self.clock = TrainingClock()

    def save(self, path: Path) -> None:
        state = {
            "config": self.config.name,
            "audio": self.tower.state_dict(),
            "heads": self.heads.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "seen": self.seen,
            "seconds": self.clock.seconds,
        }
        save_checkpoint(path, state)

    def load(self, path: Path) -> None:
        state = load_checkpoint(path)
        self.tower.load_state_dict(state["audio"])
        self.heads.load_state_dict(state["heads"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seen = state["step"], state["seen"]
        self.clock = TrainingClock(state["seconds"])


def load_tower(tower: AudioTower, path: Path) -> None:
    """Loads the weights of this stage's checkpoint."""
    tower.load_state_dict(load_checkpoint(path)["audio"])


def run(arguments: argparse.Namespace) -> None:
    directory: Path = arguments.run_dir
    cache = directory / CACHE
    if not (cache / "index.json").exists():
        print("rendering speech", flush=True)
        build_cache(cache)
    torch.set_num_threads(arguments.threads)
    choose_device()
    tokenizer = Tokenizer.load()
    stage = AudioStage(CONFIGS[arguments.config], stored_embedding(arguments.language, CONFIGS[arguments.config]))
    checkpoint = directory / CHECKPOINT
    if checkpoint.exists():
        stage.load(checkpoint)
    speech, strangers = CachedSpeech(cache), LiveSpeech(HELD_OUT_VOICES)
    bins = stage.config.mel_bins
    batches = prefetch(lambda step: make_batch(step, arguments.batch, speech, tokenizer, bins), stage.step)
    training = TrainingRun(stage, checkpoint, arguments.minutes * 60, arguments.report_seconds, lambda: _report(stage, strangers, tokenizer))
    while training.goes_on:
        batch = next(batches)
        with half_precision():
            tokens = torch.cat(encode_clips(stage.tower, [on_device(clip) for clip in batch.clips]))
        loss, parts = stage.heads.loss(tokens.float(), on_device(batch.labels), on_device(batch.pieces))
        stage.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(stage.parameters, 1.0)
        rate = training.learning_rate(arguments.learning_rate, arguments.decay)
        stage.optimiser.step(rate)
        training.end_step(len(batch.clips), parts, rate)
    stage.save(checkpoint)
    print(f"audio done: step {stage.step} seen {stage.seen} {stage.clock.seconds:.0f}s | {_report(stage, strangers, tokenizer, 12)}", flush=True)


def _report(stage: AudioStage, strangers: Speech, tokenizer: Tokenizer, batches: int = 3) -> str:
    rates = evaluate(stage.tower, stage.heads, strangers, tokenizer, batches)
    return "voices never heard: " + " ".join(f"{name}={value:.3f}" for name, value in sorted(rates.items()))


def stored_embedding(directory: Path, config: NetworkConfig) -> Tensor:
    """The language model's embedding (vocabulary, width) from the exported file in `directory`."""
    model, _ = stored_pair(directory)
    return on_device(read_tensors(model)["token_embd.weight"]).view(config.vocabulary, config.width)
