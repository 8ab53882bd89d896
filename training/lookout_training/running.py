"""Shared parts of the training stages: run folder, a clock that ignores pauses, checkpoints, log, batch prefetching."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.utils.data

from .optimiser import half_is_quicker, learning_rate

LONGEST_STEP_SECONDS = 30.0  # A longer step was paused from outside; the excess is not counted.
FIRST_REPORT = 20  # Steps.
SAVED_EVERY = 300.0  # Seconds: the most that is lost when the machine runs out of memory.


def default_run_directory() -> Path:
    """The folder of checkpoints and logs: $LOOKOUT_TRAINING_DIR or ~/lookout-training; never inside the repository."""
    return Path(os.environ.get("LOOKOUT_TRAINING_DIR", Path.home() / "lookout-training"))


class StopRequest:
    """Set by SIGTERM or SIGINT, so that the current step is finished and saved."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True


class TrainingClock:
    """Counts training seconds: the sum of step durations, each capped, so that pauses do not use up the schedule."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._last = time.monotonic()

    def tick(self) -> None:
        now = time.monotonic()
        self.seconds += min(now - self._last, LONGEST_STEP_SECONDS)
        self._last = now

    def skip(self) -> None:
        """Leaves out the time since the last tick (evaluation, saving)."""
        self._last = time.monotonic()


class Stage(Protocol):
    """What is trained, its position in the schedule and how it is saved."""

    step: int
    seen: int
    clock: TrainingClock

    def save(self, path: Path) -> None: ...


class TrainingRun:
    """Runs a stage from its current position to the end of its schedule: learning rate, checkpoints, log lines."""

    def __init__(self, stage: Stage, checkpoint: Path, planned_seconds: float, report_seconds: float, report: Callable[[], str]) -> None:
        """`planned_seconds` and the stage's clock begin with its first run; `report` evaluates the stage for the log."""
        self.stage = stage
        self.checkpoint = checkpoint
        self.planned = planned_seconds
        self.report_seconds = report_seconds
        self.report = report
        self.first_step, self.first_seen, self.first_seconds = stage.step, stage.seen, stage.clock.seconds
        self.last_report = self.last_saved = stage.clock.seconds
        self.logged: list[dict[str, float]] = []
        stage.clock.skip()

    @property
    def goes_on(self) -> bool:
        return self.stage.clock.seconds < self.planned

    def learning_rate(self, peak: float, decay: float, warm_up: int = 100) -> float:
        """The current step's rate; `warm_up` in steps, `decay` as a share of the schedule."""
        return learning_rate(self.stage.step - self.first_step, self.stage.clock.seconds / self.planned, peak, warm_up, decay)

    def end_step(self, samples: int, losses: dict[str, float], rate: float) -> None:
        """Counts a step; saves and reports when due."""
        stage = self.stage
        stage.step += 1
        stage.seen += samples
        self.logged.append(losses)
        stage.clock.tick()
        seconds = stage.clock.seconds
        due = seconds - self.last_report > self.report_seconds
        if due or seconds - self.last_saved > SAVED_EVERY:
            self.last_saved = seconds
            stage.save(self.checkpoint)
            stage.clock.skip()
        if not due and stage.step != self.first_step + FIRST_REPORT:
            return
        # The first line only shows that training runs, and how fast.
        evaluated = ""
        if due:
            self.last_report = seconds
            evaluated = f" | {self.report()}"
        names = dict.fromkeys(name for entry in self.logged for name in entry)
        means = " ".join(f"{name} {np.mean([entry[name] for entry in self.logged if name in entry]):.3f}" for name in names)
        self.logged.clear()
        speed = (stage.seen - self.first_seen) / (seconds - self.first_seconds)
        print(f"{seconds:.0f}s step {stage.step} seen {stage.seen} {speed:.1f}/s lr {rate:.2g} | {means}{evaluated}", flush=True)
        stage.clock.skip()


class _Batches(torch.utils.data.IterableDataset):
    """The loader asks its workers in turn: each makes every n-th batch."""

    def __init__(self, make_batch: Callable[[int], Any], first_step: int) -> None:
        self.make_batch = make_batch
        self.first_step = first_step

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        step = self.first_step + worker.id
        while True:
            yield self.make_batch(step)
            step += worker.num_workers


def prefetch(make_batch: Callable[[int], Any], first_step: int, workers: int | None = None) -> Iterator[Any]:
    """Batches for steps first_step, first_step + 1, ... in order, made by worker processes.

    `workers`: by default one if the network trains on the CPU, which is enough for it, or one for each core but one with a GPU.
    """
    dataset = _Batches(make_batch, first_step)
    if workers is None:
        workers = 1 if device().type == "cpu" else max(1, (os.cpu_count() or 2) - 1)
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=6,
        collate_fn=_keep,
        worker_init_fn=_one_thread,
        multiprocessing_context="fork",  # Also in a process that was itself spawned, so that `make_batch` need not be sent.
    )
    return iter(loader)


def _keep(batch: Any) -> Any:
    return batch


def _one_thread(_: int) -> None:
    # A signal to the process group is for the process that saves; a worker ends when that process does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(1)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes atomically, so that a reader never sees a partly written file."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    return torch.load(path, map_location="cpu", weights_only=True)


def prepare_process(directory: Path, processes: int = 1) -> None:
    """Two threads, shared with the other processes that train the same network; run folder in place, process group noted for pausing."""
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(max(1, int(os.environ.get("LOOKOUT_TRAINING_THREADS", "2")) // processes))
    choose_device()
    (directory / "train.pid").write_text(f"{os.getpgid(0)}\n")


def choose_device() -> None:
    """From here on tensors are made on a GPU where there is one, unless LOOKOUT_TRAINING_DEVICE is `cpu`."""
    if torch.cuda.is_available() and os.environ.get("LOOKOUT_TRAINING_DEVICE") != "cpu":
        torch.set_default_device("cuda")


def device() -> torch.device:
    """The device on which tensors are created and networks are trained."""
    return torch.get_default_device()


def on_device(array: np.ndarray) -> torch.Tensor:
    """The array as a tensor on the training device."""
    return torch.from_numpy(array).to(device())


def half_precision(enabled: bool = True) -> torch.autocast:
    """Computes matrix products in bfloat16, where that is faster."""
    return torch.autocast(device().type, dtype=torch.bfloat16, enabled=enabled and half_is_quicker())


def images_to_tensor(pixels: np.ndarray) -> torch.Tensor:
    """(B, height, width, 3) uint8 -> (B, 3, height, width) float32 in -1..1, as the server does (mean = std = 0.5)."""
    tensor = on_device(np.array(pixels)).permute(0, 3, 1, 2).contiguous()
    return tensor.float().div_(127.5).sub_(1.0)
