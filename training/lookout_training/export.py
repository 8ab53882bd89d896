"""Writes the network as two GGUF files for llama.cpp: the language model (`qwen3vl`) and the vision and audio towers (`mmproj`)."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from gguf import GGML_QUANT_VERSION, GGUFWriter
from gguf.utility import model_weight_count_rounded_notation
from torch import Tensor
from torch.nn import Parameter

from .audio_export import audio_tensors, describe_audio_tower
from .audio_network import AudioTower, initialise_audio
from .config import CONFIGS, NetworkConfig
from .gguf_files import WeightType, name_in_card, packed, unpacked
from .network import LanguageModel, VisionLanguageModel, VisionTower, count_parameters, initialise_language, initialise_vision
from .running import load_checkpoint
from .tokenizer import Tokenizer

TEMPLATE_FILE = Path(__file__).resolve().parent / "chat_template.jinja"
PATCH_KERNELS = ("v.patch_embd.weight", "v.patch_embd.weight.1")  # For the first and the second frame of a pair.
STEPS_KEY = "lookout.training.steps"  # Steps of all runs together. The data seed is the step, so that a warm start sees nothing twice.
MODEL_NAME = "Lookout Nano"
DESCRIPTION = "Small vision-language model trained from scratch, on synthetic pictures, texts and sounds only."


def chat_template() -> str:
    """The Jinja chat template stored in the language model's file."""
    return TEMPLATE_FILE.read_text().rstrip("\n")


def load_network(checkpoint: Path | None, config: NetworkConfig) -> VisionLanguageModel:
    """The network of a stage 2 checkpoint, or a random one where `checkpoint` is None."""
    torch.manual_seed(0)
    network = VisionLanguageModel(config)
    if checkpoint is None:
        initialise_vision(network.vision)
        initialise_audio(network.audio)
        initialise_language(network.language)
    else:
        weights = load_checkpoint(checkpoint)["network"]
        if not any(name.startswith("audio.") for name in weights):
            network.audio = None
        network.load_state_dict(weights)
    return network.eval()


@torch.no_grad()
def round_to_stored(network: VisionLanguageModel, weights: WeightType) -> VisionLanguageModel:
    """Rounds the weights in place to the values in the exported files."""
    for name, parameter in stored_tensors(network).items():
        parameter.copy_(torch.from_numpy(unpacked(*packed(name, _values(parameter), weights))).view_as(parameter))
    patch = network.vision.patch.weight
    kernels = [torch.from_numpy(unpacked(*packed(name, _values(kernel), weights))) for name, kernel in patch_kernels(network.vision).items()]
    patch.copy_(sum(kernels).view_as(patch))
    return network


def _values(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


def _add(writer: GGUFWriter, tensors: dict[str, Tensor], weights: WeightType) -> None:
    for name, tensor in tensors.items():
        data, kind = packed(name, _values(tensor), weights)
        writer.add_tensor(name, data, raw_dtype=kind)


def _describe(writer: GGUFWriter, kind: str, name: str, version: str, parameters: int, weights: WeightType) -> None:
    """General metadata: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""
    writer.add_type(kind)
    writer.add_name(name)
    writer.add_description(DESCRIPTION)
    writer.add_version(version)
    writer.add_author("The Lookout project")
    writer.add_license("mit")
    writer.add_size_label(model_weight_count_rounded_notation(parameters))
    writer.add_languages(["en"])
    writer.add_tags(["image-text-to-text", "object-detection"])
    writer.add_file_type(weights.file_type)
    writer.add_quantization_version(GGML_QUANT_VERSION)


def _finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def language_tensors(model: LanguageModel) -> dict[str, Parameter]:
    """Name in the file -> parameter; the output matrix is the embedding."""
    tensors = {"token_embd.weight": model.embedding.weight, "output_norm.weight": model.norm.weight}
    for index, block in enumerate(model.blocks):
        parts = {
            "attn_norm": block.attention_norm,
            "ffn_norm": block.feed_forward_norm,
            "attn_q": block.query,
            "attn_k": block.key,
            "attn_v": block.value,
            "attn_output": block.out,
            "attn_q_norm": block.query_norm,
            "attn_k_norm": block.key_norm,
            "ffn_gate": block.gate,
            "ffn_up": block.up,
            "ffn_down": block.down,
        }
        tensors |= {f"blk.{index}.{name}.weight": part.weight for name, part in parts.items()}
    return tensors


def vision_tensors(tower: VisionTower) -> dict[str, Parameter]:
    """Name in the file -> parameter, except the patch kernels."""
    tensors = {"v.patch_embd.bias": tower.patch.bias, "v.position_embd.weight": tower.position}
    layers = {}
    for index, block in enumerate(tower.blocks):
        parts = {
            "ln1": block.norm1,
            "ln2": block.norm2,
            "attn_qkv": block.qkv,
            "attn_out": block.out,
            "ffn_up": block.up,
            "ffn_down": block.down,
        }
        layers |= {f"v.blk.{index}.{name}": part for name, part in parts.items()}
    layers |= {"v.post_ln": tower.post_norm, "mm.0": tower.merge_in, "mm.2": tower.merge_out}
    for name, layer in layers.items():
        tensors |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    return tensors


def patch_kernels(tower: VisionTower) -> dict[str, Tensor]:
    """Name in the file -> kernel (D, 3, side, side). A still image passes through both temporal kernels and is summed."""
    config = tower.config
    kernel = tower.patch.weight.view(config.vision_width, 3, config.patch, config.patch) / 2
    return dict.fromkeys(PATCH_KERNELS, kernel)


def stored_tensors(network: VisionLanguageModel) -> dict[str, Tensor]:
    """Name in one of the two files -> parameter, except the patch kernels."""
    heard = audio_tensors(network.audio) if network.audio else {}
    return language_tensors(network.language) | vision_tensors(network.vision) | heard


def write_language_model(model: LanguageModel, tokenizer: Tokenizer, path: Path, version: str, weights: WeightType, steps: int = 0) -> None:
    """Architecture `qwen3vl`; the output matrix is the embedding."""
    config = model.config
    writer = GGUFWriter(str(path), "qwen3vl")
    _describe(writer, "model", MODEL_NAME, version, count_parameters(model), weights)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.feed_forward)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.key_value_heads)
    writer.add_key_length(config.head_width)
    writer.add_value_length(config.head_width)
    writer.add_layer_norm_rms_eps(config.norm_epsilon)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_rope_dimension_count(config.head_width)
    writer.add_rope_dimension_sections(list(config.rope_sections))
    writer.add_vocab_size(config.vocabulary)
    writer.add_uint32("qwen3vl.n_deepstack_layers", 0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(tokenizer.types)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer.merges])
    writer.add_eos_token_id(tokenizer["<|im_end|>"])
    writer.add_eot_token_id(tokenizer["<|im_end|>"])
    writer.add_pad_token_id(tokenizer["<|endoftext|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(chat_template())
    writer.add_uint32(STEPS_KEY, steps)
    _add(writer, language_tensors(model), weights)
    _finish(writer)


def write_projector(tower: VisionTower, audio: AudioTower | None, path: Path, version: str, weights: WeightType) -> None:
    """The `mmproj` file, with projector types `qwen3vl_merger` and, if the network has an audio tower, `qwen3a`."""
    config = tower.config
    writer = GGUFWriter(str(path), "clip")
    parameters = count_parameters(tower) + (count_parameters(audio) if audio else 0)
    _describe(writer, "mmproj", f"{MODEL_NAME} vision" + (" and audio" if audio else ""), version, parameters, weights)
    writer.add_clip_has_vision_encoder(True)
    if audio:
        describe_audio_tower(writer, config)
        writer.add_clip_vision_projector_type("qwen3vl_merger")
    else:
        writer.add_clip_projector_type("qwen3vl_merger")
    writer.add_vision_projection_dim(config.width)
    writer.add_vision_patch_size(config.patch)
    writer.add_vision_embedding_length(config.vision_width)
    writer.add_vision_feed_forward_length(config.vision_feed_forward)
    writer.add_vision_block_count(config.vision_layers)
    writer.add_vision_head_count(config.vision_heads)
    writer.add_vision_attention_layernorm_eps(config.vision_norm_epsilon)
    writer.add_vision_image_size(config.patch * config.position_grid)
    writer.add_vision_image_mean([0.5, 0.5, 0.5])
    writer.add_vision_image_std([0.5, 0.5, 0.5])
    writer.add_vision_spatial_merge_size(2)
    writer.add_vision_use_gelu(True)
    writer.add_vision_is_deepstack_layers([False] * config.vision_layers)
    _add(writer, patch_kernels(tower) | vision_tensors(tower) | (audio_tensors(audio) if audio else {}), weights)
    _finish(writer)


def export_network(network: VisionLanguageModel, directory: Path, version: str, weights: WeightType, steps: int = 0) -> tuple[Path, Path]:
    """Makes the network the model in `directory`: writes its files, names them in the card there and removes files of other types."""
    directory.mkdir(parents=True, exist_ok=True)
    pair = directory / weights.model_file, directory / weights.projector_file
    partials = [path.with_suffix(".partial") for path in pair]  # A server must never load a partly written file.
    write_language_model(network.language, Tokenizer.load(), partials[0], version, weights, steps)
    write_projector(network.vision, network.audio, partials[1], version, weights)
    for partial, path in zip(partials, pair, strict=True):
        partial.replace(path)
    card = directory / "card.json"
    if card.exists():
        name_in_card(card, weights)
    for other in WeightType:
        if other is not weights:
            (directory / other.model_file).unlink(missing_ok=True)
            (directory / other.projector_file).unlink(missing_ok=True)
    return pair


def run(arguments: argparse.Namespace) -> None:
    """Exports the stage 2 checkpoint of the run folder, or random weights."""
    checkpoint = None if arguments.random else arguments.checkpoint or arguments.run_dir / "stage2.pt"
    network = load_network(checkpoint, CONFIGS[arguments.config])
    steps = load_checkpoint(checkpoint)["step"] if checkpoint else 0
    for path in export_network(network, arguments.output, arguments.model_version, WeightType(arguments.type), steps):
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
