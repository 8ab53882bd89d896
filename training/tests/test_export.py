"""Tests of the exported files: how tensors are stored and read back, and how the files become the model of a folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader

from lookout_training import export, mix
from lookout_training.__main__ import MODEL_DIRECTORY, build_parser
from lookout_training.audio_stage import stored_embedding
from lookout_training.config import NANO
from lookout_training.export import export_network, load_network, round_to_stored, stored_tensors
from lookout_training.gguf_files import WeightType, name_in_card, stored_pair
from lookout_training.network import VisionLanguageModel
from lookout_training.parity import first_gap
from lookout_training.running import load_checkpoint
from lookout_training.warm_start import load_gguf

HALVES = {"v.patch_embd.weight", "v.patch_embd.weight.1", *(f"a.conv2d.{i}.weight" for i in (1, 2, 3))}
TABLES = {"v.position_embd.weight", "a.position_embd.weight"}


def lively() -> VisionLanguageModel:
    """Weights that every rounding changes, none of them zero."""
    torch.manual_seed(1)
    network = VisionLanguageModel(NANO).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return network


def read_back(directory: Path) -> VisionLanguageModel:
    network = VisionLanguageModel(NANO)
    load_gguf(network, directory)
    return network


def same(one: VisionLanguageModel, other: VisionLanguageModel) -> bool:
    pairs = zip(one.named_parameters(), other.named_parameters(), strict=True)
    return all(torch.equal(a, b) for (_, a), (_, b) in pairs)


@pytest.mark.parametrize("weights", list(WeightType))
def test_files_hold_what_parity_compares_with(tmp_path: Path, weights: WeightType) -> None:
    export_network(lively(), tmp_path, "test", weights, steps=1234)
    assert load_gguf(VisionLanguageModel(NANO), tmp_path) == 1234
    assert same(read_back(tmp_path), round_to_stored(lively(), weights))
    table = stored_embedding(tmp_path, NANO)
    assert torch.equal(table, round_to_stored(lively(), weights).language.embedding.weight)


def test_matrices_are_q8_0_and_nothing_else_is(tmp_path: Path) -> None:
    pair = export_network(lively(), tmp_path, "7", WeightType.Q8_0)
    readers = [GGUFReader(str(path)) for path in pair]
    kinds = {tensor.name: (tensor.tensor_type, len(tensor.shape)) for reader in readers for tensor in reader.tensors}
    assert kinds.keys() == {*stored_tensors(lively()), *HALVES}
    for name, (kind, dimensions) in kinds.items():
        matrix = dimensions == 2 and name not in TABLES
        expected = GGMLQuantizationType.F16 if name in HALVES else GGMLQuantizationType.Q8_0 if matrix else GGMLQuantizationType.F32
        assert kind is expected, name
    for reader, kind in zip(readers, ("model", "mmproj"), strict=True):
        general = {name: field.contents() for name, field in reader.fields.items() if name.startswith("general.")}
        assert general["general.type"] == kind
        assert general["general.file_type"] == 7 and general["general.quantization_version"] == 2
        assert general["general.license"] == "mit" and general["general.version"] == "7"
        assert general["general.name"].startswith("Lookout Nano") and general["general.description"]


def test_a_mix_lies_between_a_checkpoint_and_exported_weights(tmp_path: Path) -> None:
    networks = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        network = VisionLanguageModel(NANO)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter)
        networks.append(network)
    new, old = networks
    export_network(old, tmp_path, "0", WeightType.F16)
    torch.save({"network": new.state_dict(), "step": 7}, tmp_path / "new.pt")
    mix.run(argparse.Namespace(checkpoint=tmp_path / "new.pt", config="nano", with_gguf=tmp_path, share=0.75, output=tmp_path / "mixed.pt"))
    mixed = load_network(tmp_path / "mixed.pt", NANO)
    for name, parameter in mixed.named_parameters():
        expected = 0.75 * new.get_parameter(name) + 0.25 * old.get_parameter(name)
        assert torch.allclose(parameter, expected, atol=2e-3), name
    assert load_checkpoint(tmp_path / "mixed.pt")["step"] == 7


def test_a_warm_start_from_q8_0_is_within_its_error(tmp_path: Path) -> None:
    """From f16 files to Q8_0 files and back, a weight changes by half a step of its block's scale and the scale's rounding to 16 bits."""
    export_network(lively(), tmp_path / "f16", "test", WeightType.F16)
    network = read_back(tmp_path / "f16")
    export_network(network, tmp_path / "q8_0", "test", WeightType.Q8_0)
    again = stored_tensors(read_back(tmp_path / "q8_0"))
    moved = 0
    for name, before in stored_tensors(network).items():
        after = again[name]
        if before.dim() != 2 or name in TABLES:
            assert torch.equal(before, after), name
            continue
        blocks, difference = (x.detach().reshape(-1, 32) for x in (before, before - after))
        largest = blocks.abs().amax(1, keepdim=True)
        assert (difference.abs() <= largest * (0.5 / 127 + 2**-11) * 1.001).all(), name
        moved += int((difference != 0).sum())
    assert moved > 4_000_000
    assert torch.equal(network.vision.patch.weight, read_back(tmp_path / "q8_0").vision.patch.weight)


def run_export(*options: str) -> None:
    export.run(build_parser().parse_args(["export", "--random", *options]))


def test_the_command_makes_the_files_a_folders_only_model(tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    shipped = (MODEL_DIRECTORY / "card.json").read_text()
    card.write_text(shipped)
    plain = json.loads(shipped)
    for options, kind in ((["--type", "q8_0"], "q8_0"), ([], "f16"), ([], "f16"), (["--type", "q8_0"], "q8_0")):
        run_export("--output", str(tmp_path), *options)
        names = {"model": f"model-{kind}.gguf", "projector": f"mmproj-{kind}.gguf"}
        assert {path.name for path in tmp_path.iterdir()} == {"card.json", *names.values()}
        assert json.loads(card.read_text()) == plain | {"engine": plain["engine"] | names}
        assert card.read_text().count("\n") == shipped.count("\n")
        assert stored_pair(tmp_path) == (tmp_path / names["model"], tmp_path / names["projector"])


def test_a_card_is_not_changed_where_it_must_not_be(tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    text = json.dumps({"name": "model.gguf", "engine": {"model": "model.gguf", "projector": "mmproj.gguf"}})
    card.write_text(text)
    with pytest.raises(ValueError, match="stands elsewhere too"):
        name_in_card(card, WeightType.Q8_0)
    assert card.read_text() == text


def test_a_folder_without_a_card_must_hold_one_pair(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="0 exported models"):
        stored_pair(tmp_path)
    for weights in WeightType:
        (tmp_path / weights.model_file).touch()
    with pytest.raises(FileNotFoundError, match="2 exported models"):
        stored_pair(tmp_path)


def test_the_shipped_weights_can_be_trained_on() -> None:
    network = lively()
    load_gguf(network, MODEL_DIRECTORY)
    assert not torch.equal(network.language.norm.weight, lively().language.norm.weight)


def test_parity_tells_how_likely_the_other_reply_was() -> None:
    steps = [torch.tensor([[0.0, 3.0, 1.0]]), torch.tensor([[2.0, 0.0, 1.75]]), torch.tensor([[5.0, 0.0, 0.0]])]
    assert first_gap(steps, [1, 0], [1, 0], end=0) == 0
    assert first_gap(steps, [1, 0], [1, 2, 2], end=0) == 0.25
    assert first_gap(steps, [1, 0], [1], end=2) == 0.25  # The server ended.
    assert first_gap(steps, [1, 0], [1, 0, 2, 1], end=0) == 5  # PyTorch ended.
