"""Weights in GGUF files: number types, the names of a model's pair of files, and reading them back."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, LlamaFileType
from gguf.quants import dequantize, quantize

BLOCK = 32  # Weights that share a scale in Q8_0; https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h


class WeightType(StrEnum):
    """The storage type of most weights of a file."""

    Q8_0 = "q8_0"  # Eight bits each and a scale per 32: half the size, and faster on a CPU.
    F16 = "f16"

    @property
    def model_file(self) -> str:
        return f"model-{self}.gguf"

    @property
    def projector_file(self) -> str:
        return f"mmproj-{self}.gguf"

    @property
    def file_type(self) -> LlamaFileType:
        return {WeightType.Q8_0: LlamaFileType.MOSTLY_Q8_0, WeightType.F16: LlamaFileType.MOSTLY_F16}[self]


def stored_type(name: str, shape: tuple[int, ...], weights: WeightType) -> GGMLQuantizationType:
    """The type of one tensor, by its name in the file and its shape, innermost last.

    Matrices whose rows are whole blocks have the type `weights`, convolutions f16, vectors and position tables f32.
    """
    if len(shape) < 2 or name.endswith(("bias", "position_embd.weight")):
        return GGMLQuantizationType.F32
    if weights is WeightType.Q8_0 and len(shape) == 2 and shape[-1] % BLOCK == 0:
        return GGMLQuantizationType.Q8_0
    return GGMLQuantizationType.F16


def packed(name: str, values: np.ndarray, weights: WeightType) -> tuple[np.ndarray, GGMLQuantizationType]:
    """Converts float32 values to their stored form (bytes for Q8_0). Returns them with the type."""
    kind = stored_type(name, values.shape, weights)
    return quantize(np.ascontiguousarray(values), kind), kind


def unpacked(data: np.ndarray, kind: GGMLQuantizationType) -> np.ndarray:
    """Converts stored values to float32."""
    return dequantize(data, kind)


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Name -> flat float32 values, copied so that the file may be replaced."""
    return {tensor.name: np.array(unpacked(tensor.data, tensor.tensor_type)).reshape(-1) for tensor in GGUFReader(str(path)).tensors}


def read_number(path: Path, key: str) -> int:
    """A number of the metadata, 0 where it is missing."""
    field = GGUFReader(str(path)).get_field(key)
    return int(field.contents()) if field else 0


def stored_pair(directory: Path) -> tuple[Path, Path]:
    """The language model and the projector in `directory`: those that its card names or, without a card, the only exported pair.

    Raises FileNotFoundError if there is none or more than one.
    """
    card = directory / "card.json"
    if card.exists():
        engine = json.loads(card.read_text(encoding="utf-8"))["engine"]
        return directory / engine["model"], directory / engine["projector"]
    pairs = [(directory / weights.model_file, directory / weights.projector_file) for weights in WeightType]
    found = [pair for pair in pairs if pair[0].exists()]
    if len(found) != 1:
        raise FileNotFoundError(f"{directory}: {len(found)} exported models and no card.json that names one")
    return found[0]


def name_in_card(card: Path, weights: WeightType) -> None:
    """Writes the names of these weights' files into the card. The rest of its text stays unchanged."""
    text = card.read_text(encoding="utf-8")
    wanted = json.loads(text)
    for field, name in (("model", weights.model_file), ("projector", weights.projector_file)):
        text = text.replace(json.dumps(wanted["engine"][field]), json.dumps(name))
        wanted["engine"][field] = name
    if json.loads(text) != wanted:
        raise ValueError(f"{card}: a file name in `engine` stands elsewhere too; name {weights.model_file} and {weights.projector_file} by hand")
    partial = card.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(card)
