"""Processes that train one network together. Each has its own batches, and their gradients are averaged.

On two cores, two single-threaded processes wait for each other once per step; two threads of one process would wait at every operation.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.distributed as distributed
import torch.nn as nn


class Team:
    """One process's position among `size` processes. A team of one costs nothing."""

    def __init__(self, rank: int = 0, size: int = 1, meeting: Path | None = None) -> None:
        """`meeting` is a file that does not exist yet, through which the processes find each other."""
        self.rank, self.size = rank, size
        if size > 1:
            distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)

    @property
    def leads(self) -> bool:
        """Whether this process reports and saves."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """The sum of each value over all processes."""
        if self.size == 1:
            return list(values)
        together = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(together)
        return together.tolist()

    def average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Averages over the processes that have a gradient: a batch without images has none for the vision tower."""
        if self.size == 1:
            return
        sizes = [parameter.numel() for parameter in parameters]
        flat = torch.zeros(sum(sizes) + len(sizes))
        for parameter, part, count in zip(parameters, flat.split([*sizes, len(sizes)]), flat[-len(sizes) :], strict=False):
            if parameter.grad is not None:
                part.copy_(parameter.grad.flatten())
                count.fill_(1)
        distributed.all_reduce(flat)
        counts = flat[-len(sizes) :].tolist()
        for parameter, part, count in zip(parameters, flat.split([*sizes, len(sizes)]), counts, strict=False):
            parameter.grad = part.div_(count).view_as(parameter) if count else None


def run_team(work: Callable[[argparse.Namespace, Team], None], arguments: argparse.Namespace, size: int) -> None:
    """Calls `work` in this process and in `size` - 1 others, each with its position in the team. An error in one ends all."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        context = multiprocessing.get_context("spawn")
        others = [context.Process(target=_join, args=(work, arguments, rank, size, meeting)) for rank in range(1, size)]
        for other in others:
            other.start()
        try:
            _join(work, arguments, 0, size, meeting)
        except BaseException:
            for other in others:
                other.kill()  # They wait for this one.
            raise
        finally:
            for other in others:
                other.join()


def _join(work: Callable[[argparse.Namespace, Team], None], arguments: argparse.Namespace, rank: int, size: int, meeting: Path) -> None:
    try:
        work(arguments, Team(rank, size, meeting))
    finally:
        if size > 1:
            distributed.destroy_process_group()
        for child in multiprocessing.active_children():
            if child.daemon:  # A data worker ignores other signals, and a failed process would wait for it forever.
                child.kill()
