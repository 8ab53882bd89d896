"""Two processes that train one network."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch
import torch.nn as nn

from lookout_training.team import Team, run_team


def _average(arguments: argparse.Namespace, team: Team) -> None:
    first, second, third = (nn.Parameter(torch.zeros(2, 3)) for _ in range(3))
    first.grad = torch.full((2, 3), float(team.rank + 1))
    if team.rank == 1:
        second.grad = torch.full((2, 3), 5.0)
    team.average_gradients([first, second, third])
    assert (first.grad == (1.5 if team.size == 2 else 1.0)).all()
    if team.size == 2:
        assert second.grad is not None and (second.grad == 5.0).all()
    assert third.grad is None
    total, leaders = team.sum(10.0 * (team.rank + 1), team.leads)
    (arguments.directory / f"{team.rank}").write_text(f"{team.size} {total} {leaders}")


def _fail(arguments: argparse.Namespace, team: Team) -> None:
    if team.rank == arguments.failing:
        raise FloatingPointError("not finite")
    team.sum(1.0)


@pytest.mark.parametrize(("size", "total"), [(1, 10.0), (2, 30.0)])
def test_gradients_are_averaged_over_those_who_have_one(tmp_path: Path, size: int, total: float) -> None:
    run_team(_average, argparse.Namespace(directory=tmp_path), size)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {str(rank): f"{size} {total} {1.0 if size > 1 else True}" for rank in range(size)}


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_in_one_process_ends_all(failing: int) -> None:
    with pytest.raises((FloatingPointError, RuntimeError)):
        run_team(_fail, argparse.Namespace(failing=failing), 2)
