"""Stage 2: trains the vision tower and the language model together on packed questions. The dense heads stay as an auxiliary loss."""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .audio_network import encode_clips
from .audio_prompts import SoundSampleMaker, heard_samples
from .audio_speech import CACHE, CachedSpeech
from .audio_stage import CHECKPOINT, load_tower
from .config import CONFIGS, HELD_OUT_SEED, NetworkConfig
from .conversations import exemplar_lesson, naming_lesson, with_focus
from .dense import DenseHeads, DenseTargets, dense_loss, dense_targets, stack_targets
from .generation import generate
from .network import VisionLanguageModel, WatchedHeads, initialise_language
from .optimiser import Optimiser, hidden_matrices
from .phrasings import EVALUATED, Split
from .prompts import IGNORED, LAYOUT_WEIGHTS, Layout, Sample, SampleMaker
from .questions import BOX_HINT_TASKS, WORD_TASKS, Exchange
from .running import (
    StopRequest,
    TrainingClock,
    TrainingRun,
    half_precision,
    images_to_tensor,
    load_checkpoint,
    on_device,
    prefetch,
    prepare_process,
    save_checkpoint,
)
from .scoring import GroundingScore
from .team import Team, run_team
from .token_weights import answer_weight, token_weights
from .tokenizer import Tokenizer
from .warm_start import load_gguf
from .world import TRAINING_WORLD, Scene, as_served, chart_as_served, pick_size, render_scene
from .world.chart import render_chart
from .world.clip import FRAME_SIZES, render_clip

TEXT_HEAVY = 0.42  # Share of the images that are full of text.
DENSE_TEXT_HEAVY = 0.7  # The same in batches without questions.
AUXILIARY_WEIGHT = 0.4  # Weight of the dense loss.
REPORTED_LAYOUTS = (Layout.TOOLS, Layout.EXEMPLAR, Layout.NAMING, Layout.FOCUS, Layout.VIDEO, Layout.CHART)  # Besides one image.
HEAD_LESSONS = 40  # Batches without questions that train new dense heads before the first step.
HEAD_RATE = 3e-3  # Learning rate of the first of them; it falls to 0.
FIRST_WARM_STEP = 70_000  # Steps of weights whose files do not give them; version 3 is the last of these.
SOUND_SHARE = 0.06  # Share of the batches, where there is a cache of speech.
LOOKING_HEADS = {  # What is looked at -> layer and head.
    "object": (3, 1),  # That is written down.
    "source": (4, 1),  # The character that is read; the token of the prompt that a call repeats.
}
LOOKING_WEIGHT = 0.15  # Weight of the loss of `looking_loss`.


@dataclass
class Stage2Batch:
    """Rows of packed questions; N = padded tokens. `pixels` and `targets` hold all pictures in reading order."""

    pixels: np.ndarray | None  # (pictures, height, width, 3) uint8
    targets: DenseTargets | None
    identifiers: np.ndarray  # (B, N) int64; no rows at all in a batch for the dense heads alone
    positions: np.ndarray  # (B, 3, N) int64
    segments: np.ndarray  # (B, N) int64, -1 for padding
    labels: np.ndarray  # (B, N) int64, IGNORED where not trained on
    weights: np.ndarray  # (B, N) float32
    looks: dict[str, np.ndarray]  # For each of LOOKING_HEADS (B, N) int64, the token to be looked at; IGNORED where there is none
    exchanges: list[list[Exchange]]
    clips: list[np.ndarray]  # Spectrograms of the sounds of all rows, in reading order.


def collate(samples: list[Sample], pixels: list[np.ndarray], scenes: list[Scene]) -> Stage2Batch:
    """Pads the rows to a common length, a multiple of 16 tokens."""
    length = -(-max((len(sample.identifiers) for sample in samples), default=0) // 16) * 16
    size = len(samples)
    identifiers = np.zeros((size, length), np.int64)
    positions = np.zeros((size, 3, length), np.int64)
    segments = np.full((size, length), -1, np.int64)
    labels = np.full((size, length), IGNORED, np.int64)
    weights = np.zeros((size, length), np.float32)
    looks = {name: np.full((size, length), IGNORED, np.int64) for name in LOOKING_HEADS}
    for row, sample in enumerate(samples):
        count = len(sample.identifiers)
        identifiers[row, :count] = sample.identifiers
        positions[row, :, :count] = np.array(sample.positions).T
        segments[row, :count] = sample.segments
        labels[row, :count] = sample.labels
        for name, found in sample.looks.items():
            looks[name][row, list(found)] = list(found.values())
        for segment, exchange in enumerate(sample.exchanges, start=1):
            answer = (segments[row] == segment) & (labels[row] != IGNORED)
            weights[row, answer] = answer_weight(exchange.task, int(answer.sum()))
    weights *= token_weights(labels)
    targets = stack_targets([dense_targets(scene) for scene in scenes]) if scenes else None
    stacked = np.stack(pixels) if pixels else None
    clips = [clip for sample in samples for clip in sample.clips]
    exchanges = [sample.exchanges for sample in samples]
    return Stage2Batch(stacked, targets, identifiers, positions, segments, labels, weights, looks, exchanges, clips)


def make_batch(
    seed: int, size: int, maker: SampleMaker, split: Split = Split.SEEN, layout: Layout | None = None, offset: bool = True, rank: int = 0
) -> Stage2Batch:
    """Makes a batch of one layout and one image size, the same for all processes of a team, so that their batches take equally long."""
    rng = random.Random(seed * 7919 + 17)
    width, height = pick_size(rng)
    layout = layout or rng.choices(list(LAYOUT_WEIGHTS), weights=list(LAYOUT_WEIGHTS.values()))[0]
    if rank:
        rng.seed(f"{seed} {rank}")
    per_row = {Layout.TWO_PICTURES: 2, Layout.NO_PICTURE: 0, Layout.TOOLS: 0}.get(layout, 1)
    rows = {Layout.PICTURE_LAST: size * 2, Layout.PICTURE_FIRST: size}.get(layout, size // 2)
    if layout is Layout.DENSE:
        pictures = [as_served(render_scene(rng, width, height, rng.random() < DENSE_TEXT_HEAVY, TRAINING_WORLD)) for _ in range(2 * size)]
        return collate([], [pixels for pixels, _ in pictures], [scene for _, scene in pictures])
    if layout is Layout.CHART:
        charts = [chart_as_served(*render_chart(rng, width, height)) for _ in range(size)]
        return collate([maker.chart(rng, chart, split) for _, chart in charts], [pixels for pixels, _ in charts], [chart.scene for _, chart in charts])
    if layout is Layout.VIDEO:
        return _video_batch(rng, size // 2, maker, split)
    if layout in (Layout.EXEMPLAR, Layout.NAMING):
        teach, rows = (exemplar_lesson, size // 2) if layout is Layout.EXEMPLAR else (naming_lesson, size)
        lessons = [teach(rng, width, height) for _ in range(rows)]
        pictures = [picture for lesson in lessons for picture in lesson.pictures]
        return collate([maker.lesson(lesson) for lesson in lessons], [pixels for pixels, _ in pictures], [scene for _, scene in pictures])
    if layout is Layout.FOCUS:
        talks = [with_focus(rng, width, height, split, TRAINING_WORLD) for _ in range(size // 2)]
        pictures = [picture for talk in talks for picture in talk.pictures]
        # The dense heads know nothing of a crop.
        return collate([maker.conversation(talk) for talk in talks], [pixels for pixels, _ in pictures], [])
    samples: list[Sample] = []
    all_pixels: list[np.ndarray] = []
    all_scenes: list[Scene] = []
    while len(samples) < rows:
        pictures = [as_served(render_scene(rng, width, height, rng.random() < TEXT_HEAVY, TRAINING_WORLD)) for _ in range(per_row)]
        scenes = [scene for _, scene in pictures]
        sample = maker.make(rng, scenes, layout, split, offset)
        if sample.exchanges:
            samples.append(sample)
            all_pixels += [pixels for pixels, _ in pictures]
            all_scenes += scenes
    return collate(samples, all_pixels, all_scenes)


def _video_batch(rng: random.Random, rows: int, maker: SampleMaker, split: Split) -> Stage2Batch:
    """Frame sequences of one frame size. The network gets the mean of each pair's frames, because the two kernels are equal."""
    width, height = rng.choice(FRAME_SIZES)
    samples: list[Sample] = []
    pixels: list[np.ndarray] = []
    while len(samples) < rows:
        frames, clip = render_clip(rng, width, height)
        sample = maker.video(rng, clip, Scene(width, height), split)
        if sample.exchanges:
            samples.append(sample)
            pixels += [np.mean([frames[i] for i in pair], axis=0).round().astype(np.uint8) for pair in clip.pairs]
    return collate(samples, pixels, [])


def make_mixed_batch(seed: int, size: int, maker: SoundSampleMaker, rank: int = 0) -> Stage2Batch:
    """Makes a batch of the whole mix, with sounds in SOUND_SHARE of the batches. `rank` is as in `Team`."""
    rng = random.Random(seed * 7919 + 31)
    if maker.speech and rng.random() < SOUND_SHARE:
        if rank:
            rng.seed(f"{seed} {rank}")
        return collate(*heard_samples(rng, size, maker, Split.MISTYPED))
    return make_batch(seed, size, maker, Split.MISTYPED, rank=rank)


def attention_mask(segments: Tensor) -> Tensor:
    """(B, N) segments -> (B, 1, N, N): each token sees the shared prefix and its own segment, up to itself."""
    same = segments[:, :, None] == segments[:, None, :]
    shared = segments[:, None, :] == 0
    causal = torch.ones(segments.shape[1], segments.shape[1], dtype=torch.bool, device=segments.device).tril()
    return ((same | shared) & causal)[:, None]


def image_tokens(network: VisionLanguageModel, batch: Stage2Batch) -> Tensor | None:
    """(pictures, N, width) float32."""
    if batch.pixels is None:
        return None
    with half_precision():
        return network.vision(images_to_tensor(batch.pixels)).float()


def watched_heads(batch: Stage2Batch) -> WatchedHeads:
    """The heads that have a target in a batch."""
    return {head: None for name, head in LOOKING_HEADS.items() if (batch.looks[name] != IGNORED).any()}


def looking_loss(watched: WatchedHeads, batch: Stage2Batch) -> tuple[Tensor, dict[str, float]]:
    """Cross-entropy of the attention of LOOKING_HEADS with its targets, and the share of the attention on them."""
    loss, seen = torch.zeros(()), {}
    mask = attention_mask(on_device(batch.segments))
    for name, head in LOOKING_HEADS.items():
        scores = watched.get(head)
        if scores is None:
            continue
        wanted = batch.looks[name]
        rows, tokens = np.nonzero(wanted != IGNORED)
        logits = scores[rows, tokens].float().masked_fill(~mask[rows, 0, tokens], -1e9)
        entropy = F.cross_entropy(logits, on_device(wanted[rows, tokens]), reduction="none")
        loss = loss + entropy.mean()
        # Copying from a prompt and reading an image are measured separately.
        seen[name if batch.pixels is not None else f"{name}-text"] = (-entropy).exp().mean().item()
    return loss, seen


def forward(
    network: VisionLanguageModel, batch: Stage2Batch, image_token: int, audio_token: int = -1, watched: WatchedHeads | None = None
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Image tokens (pictures, N, width) float32 or None, logits (n, vocabulary) float32 and labels (n) at the trained places. `watched` as in `LanguageModel.hidden`."""
    identifiers = on_device(batch.identifiers)
    labels = on_device(batch.labels)
    with half_precision():
        x = network.language.embedding(identifiers)
        tokens = image_tokens(network, batch)
        if tokens is not None:
            places = (identifiers == image_token)[..., None]
            x = x.masked_scatter(places, tokens)
        if batch.clips and network.audio:
            heard = encode_clips(network.audio, [on_device(clip) for clip in batch.clips])
            x = x.masked_scatter((identifiers == audio_token)[..., None], torch.cat(heard).float())
        mask = attention_mask(on_device(batch.segments))
        hidden = network.language.hidden(x, on_device(batch.positions), mask, watched)
        chosen = labels != IGNORED
        logits = network.language.logits(hidden[chosen])
    return tokens, logits.float(), labels[chosen]


@torch.no_grad()
def exact_rates(
    network: VisionLanguageModel, maker: SoundSampleMaker, split: Split, batches: int, size: int = 16, heard: bool = False
) -> tuple[float, dict[str, float]]:
    """Mean token loss and, per task, the share of answers with every token right (teacher-forced), on held-out images or sounds."""
    right: defaultdict[str, list[bool]] = defaultdict(list)
    loss_sum, tokens = 0.0, 0
    layouts: list[Layout | None] = [Layout.PICTURE_FIRST] * batches + list(REPORTED_LAYOUTS)
    if heard:
        layouts = [None] * batches
    for index, layout in enumerate(layouts):
        seed = HELD_OUT_SEED + index
        if layout is None:
            batch = collate(*heard_samples(random.Random(seed), size, maker, split, offset=False))
        else:
            batch = make_batch(seed, size, maker, split, layout, offset=False)
        _, logits, labels = forward(network, batch, maker.image_token, maker.audio_token)
        loss_sum += F.cross_entropy(logits, labels, reduction="sum").item()
        tokens += len(labels)
        correct = np.zeros(batch.labels.shape, bool)
        correct[batch.labels != IGNORED] = (logits.argmax(-1) == labels).cpu().numpy()
        for row, exchanges in enumerate(batch.exchanges):
            for segment, exchange in enumerate(exchanges, start=1):
                answer = (batch.segments[row] == segment) & (batch.labels[row] != IGNORED)
                right[exchange.task].append(bool(correct[row, answer].all()))
    return loss_sum / tokens, {task: float(np.mean(values)) for task, values in right.items()}


@torch.no_grad()
def grounding(network: VisionLanguageModel, maker: SampleMaker, pictures: int = 24) -> dict[str, GroundingScore]:
    """Greedy generation of boxes and points on held-out images of 224 x 224 pixels."""
    tokenizer = maker.tokenizer
    scores: dict[str, GroundingScore] = {}
    for task, (ask, hint) in {
        "detect": (WORD_TASKS["detect"][0], None),
        "hint detect": (BOX_HINT_TASKS["hint detect"][0], "BOX"),
        "detect all": (WORD_TASKS["detect all"][0], None),
        "point": (WORD_TASKS["point"][0], None),
    }.items():
        rng = random.Random(HELD_OUT_SEED + 77)
        prompts, pixels, truths = [], [], []
        while len(prompts) < pictures:
            picture, scene = as_served(render_scene(rng, 224, 224))
            exchange = ask(rng, scene, Split.SEEN)
            if exchange:
                prompts.append(maker.prompt(exchange.question, scene, f"<hint>{hint}</hint>" if hint else None))
                pixels.append(picture)
                truths.append(exchange.answer)
        outputs = generate(network, prompts, np.stack(pixels), tokenizer["<|im_end|>"], maker.image_token)
        score = scores[task] = GroundingScore()
        for output, truth in zip(outputs, truths, strict=True):
            score.add(tokenizer.decode(output), truth)
    return scores


class Stage2:
    """The network, the auxiliary heads, the optimiser and the position in the schedule.

    `ear` is the checkpoint of a trained audio tower; without it the network has none.
    """

    def __init__(self, config: NetworkConfig, ear: Path | None = None) -> None:
        torch.manual_seed(1)
        self.config = config
        self.network = VisionLanguageModel(config)
        initialise_language(self.network.language)
        if ear and self.network.audio:
            load_tower(self.network.audio, ear)
        else:
            self.network.audio = None
        self.heads = DenseHeads(config.width)
        self.parameters = [*self.network.parameters(), *self.heads.parameters()]
        vision, language = hidden_matrices(self.network.vision), hidden_matrices(self.network.language)
        taken = {id(parameter) for parameter in (*vision, *language)}
        self.optimiser = Optimiser()
        self.optimiser.add_muon(vision, multiplier=7.0)
        self.optimiser.add_muon(language, multiplier=12.0)
        heard = list(self.network.audio.parameters()) if self.network.audio else []
        taken |= {id(parameter) for parameter in heard}
        self.optimiser.add_adamw([parameter for parameter in self.parameters if id(parameter) not in taken])
        if self.network.audio:  # Last, so that the state of a network that has only just been given its ear still fits.
            matrices = hidden_matrices(self.network.audio)
            taken = {id(parameter) for parameter in matrices}
            self.optimiser.add_muon(matrices, multiplier=5.0)
            self.optimiser.add_adamw([parameter for parameter in heard if id(parameter) not in taken])
        self.step = 0
        self.seen = 0
        self.heads_are_fresh = False
        self.clock = TrainingClock()

    def begin_from_stage1(self, path: Path) -> None:
        state = load_checkpoint(path)
        self.network.vision.load_state_dict(state["vision"])
        self.heads.load_state_dict(state["heads"])

    def begin_from_gguf(self, directory: Path) -> None:
        """Starts from exported weights. The dense heads are not exported and start untrained."""
        self.step = load_gguf(self.network, directory) or FIRST_WARM_STEP
        self.heads_are_fresh = True

    def _load_heads(self, stored: dict[str, Tensor]) -> None:
        """Loads the heads whose size is unchanged. The others, whose world has grown, start untrained."""
        own = self.heads.state_dict()
        fitting = {name: tensor for name, tensor in stored.items() if tensor.shape == own[name].shape}
        self.heads.load_state_dict(own | fitting)
        self.heads_are_fresh = len(fitting) < len(own)

    def _forget_heads(self) -> None:
        """Drops optimiser state whose size differs from its parameter's."""
        for member in self.optimiser.members:
            for parameter, state in member.state.items():
                if any(isinstance(value, Tensor) and value.dim() > 0 and value.shape != parameter.shape for value in state.values()):
                    state.clear()

    def save(self, path: Path) -> None:
        state = {
            "config": self.config.name,
            "network": self.network.state_dict(),
            "heads": self.heads.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "seen": self.seen,
            "seconds": self.clock.seconds,
        }
        save_checkpoint(path, state)

    def load(self, path: Path) -> None:
        state = load_checkpoint(path)
        # A checkpoint from before there was an audio tower leaves that, and its optimiser, as they are.
        self.network.load_state_dict(self.network.state_dict() | state["network"])
        multipliers = self.optimiser.multipliers
        states = state["optimiser"]
        self.optimiser.load_state_dict(states + self.optimiser.state_dict()[len(states) :])
        self.optimiser.multipliers = multipliers  # The code's current values, not the checkpoint's.
        self.step, self.seen = state["step"], state["seen"]
        self._load_heads(state["heads"])
        if self.heads_are_fresh:
            self._forget_heads()
        self.clock = TrainingClock(state["seconds"])


def teach_heads(stage: Stage2, size: int, maker: SoundSampleMaker, team: Team) -> dict[str, float]:
    """Trains new dense heads while the tower stays unchanged: their first gradients would only disturb it.

    Returns the parts of the last loss.
    """
    parameters = list(stage.heads.parameters())
    optimiser = torch.optim.Adam(parameters)
    parts: dict[str, float] = {}
    for lesson in range(HEAD_LESSONS):
        batch = make_batch(stage.step + lesson, size, maker, layout=Layout.DENSE, rank=team.rank)
        with torch.no_grad():
            tokens = image_tokens(stage.network, batch)
        loss, parts = dense_loss(stage.heads, tokens, batch.targets)
        optimiser.zero_grad()
        loss.backward()
        team.average_gradients(parameters)
        for group in optimiser.param_groups:
            group["lr"] = HEAD_RATE * (1 - lesson / HEAD_LESSONS)
        optimiser.step()
    stage.heads_are_fresh = False
    return parts


def report(stage: Stage2, maker: SoundSampleMaker, batches: int, generated: bool = True) -> str:
    """Held-out rates as one line of the log. `generated` adds boxes and points by greedy decoding, which takes a while."""
    parts = []
    if maker.speech:
        loss, rates = exact_rates(stage.network, maker, Split.SEEN, batches, size=8, heard=True)
        shown = " ".join(f"{task.replace(' ', '-')}={rate:.2f}" for task, rate in sorted(rates.items()))
        parts.append(f"sounds loss {loss:.3f} {shown}")
    for split in EVALUATED:
        loss, rates = exact_rates(stage.network, maker, split, batches if split is Split.SEEN else max(1, batches // 3))
        shown = " ".join(f"{task.replace(' ', '-')}={rate:.2f}" for task, rate in sorted(rates.items()))
        parts.append(f"{split.value} loss {loss:.3f} {shown}")
    for task, score in grounding(stage.network, maker).items() if generated else ():
        detail = f"distance {score.mean_distance:.0f}" if task == "point" else f"IoU {score.mean_iou:.2f}"
        parts.append(f"{task} F1 {score.f1:.2f} ({score.hits}/{score.predictions}/{score.truths}) {detail} malformed {score.malformed}")
    return " | ".join(parts)


def run(arguments: argparse.Namespace) -> None:
    run_team(_train, arguments, arguments.processes)


def _train(arguments: argparse.Namespace, team: Team) -> None:
    directory: Path = arguments.run_dir
    prepare_process(directory, team.size)
    config = CONFIGS[arguments.config]
    ear, cache = arguments.audio_dir / CHECKPOINT, arguments.audio_dir / CACHE
    hears = ear.exists() and cache.exists()
    maker = SoundSampleMaker(Tokenizer.load(), CachedSpeech(cache) if hears else None, config.mel_bins)
    checkpoint = directory / "stage2.pt"
    stage = Stage2(config, ear if hears else None)
    warm_up = 100
    if checkpoint.exists():
        stage.load(checkpoint)
        if stage.network.audio and arguments.new_ear:
            load_tower(stage.network.audio, ear)
        warm_up = 12
    elif arguments.from_gguf:
        stage.begin_from_gguf(arguments.from_gguf)
    else:
        stage.begin_from_stage1(directory / "stage1.pt")
    if not arguments.no_compile:
        # A fifth faster, after one or two minutes of compilation.
        for block in stage.network.vision.blocks:
            block.compile(dynamic=True)
        for block in stage.network.language.blocks:
            # With 512-bit vectors, the backward pass of rows without images is not finite on some Intel processors.
            block.compile(dynamic=True, options={"cpp.simdlen": 256})
    planned = stage.clock.seconds + arguments.more_minutes * 60 if arguments.more_minutes else arguments.minutes * 60
    size = arguments.batch // team.size
    if stage.heads_are_fresh:
        parts = teach_heads(stage, size, maker, team)
        if team.leads:
            print("dense heads | " + " ".join(f"{name} {value:.3f}" for name, value in parts.items()), flush=True)
    batches = prefetch(lambda step: make_mixed_batch(step, size, maker, team.rank), stage.step)
    training = TrainingRun(stage, checkpoint, planned, arguments.report_seconds, lambda: report(stage, maker, 3, generated=False))
    stop = StopRequest()
    stopped = False
    while training.goes_on and not stopped:
        batch = next(batches)
        loss, entry = _loss(stage, batch, maker)
        stage.optimiser.zero_grad()
        loss.backward()
        team.average_gradients(stage.parameters)
        norm = nn.utils.clip_grad_norm_(stage.parameters, 1.0)
        if not norm.isfinite():  # Stop before the weights, and with them the checkpoint, are lost.
            raise FloatingPointError(f"the gradient of step {stage.step} is not finite")
        rate = training.learning_rate(arguments.learning_rate, arguments.decay, warm_up)
        stage.optimiser.step(rate)
        (pictures,) = team.sum(0 if batch.pixels is None else len(batch.pixels))
        if team.leads:
            training.end_step(int(pictures), entry, rate)
        else:
            stage.step += 1
        # All processes use the leader's clock, and stop together.
        stage.clock.seconds, asked = team.sum(stage.clock.seconds if team.leads else 0.0, stop.asked)
        stopped = asked > 0
    if not team.leads:
        return
    stage.save(checkpoint)
    if stopped:
        print(f"stopped and saved at step {stage.step}", flush=True)
        return
    print(f"stage 2 done: step {stage.step} seen {stage.seen} {stage.clock.seconds:.0f}s | {report(stage, maker, 24)}", flush=True)


def _loss(stage: Stage2, batch: Stage2Batch, maker: SoundSampleMaker) -> tuple[Tensor, dict[str, float]]:
    """The loss of one batch, and its parts for the log."""
    entry: dict[str, float] = {}
    loss = torch.zeros(())
    if len(batch.identifiers):
        watched = watched_heads(batch)
        tokens, logits, labels = forward(stage.network, batch, maker.image_token, maker.audio_token, watched)
        looking, seen = looking_loss(watched, batch)
        weights = on_device(batch.weights[batch.labels != IGNORED])
        per_token = F.cross_entropy(logits, labels, reduction="none")
        loss = (per_token * weights).sum() / weights.sum()
        entry = {"loss": loss.item(), "right": (logits.argmax(-1) == labels).float().mean().item()} | seen
        loss = loss + LOOKING_WEIGHT * looking
    else:
        tokens = image_tokens(stage.network, batch)
    if tokens is not None and batch.targets is not None:
        auxiliary, parts = dense_loss(stage.heads, tokens, batch.targets)
        loss = loss + AUXILIARY_WEIGHT * auxiliary
        entry |= {name: parts[name] for name in ("kind", "box", "off", "dig", "char", "spell", "line", "h", "t")}
    return loss, entry
