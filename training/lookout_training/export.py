"""Writes the network as two GGUF files that llama.cpp loads: language model (`qwen3vl`) and the towers that see and hear (`mmproj`)."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFWriter, LlamaFileType
from torch import Tensor
from torch.nn import Parameter

from .audio_export import audio_tensors, describe_audio_tower
from .audio_network import AudioTower, initialise_audio
from .config import CONFIGS, NetworkConfig
from .network import LanguageModel, VisionLanguageModel, VisionTower, initialise_language, initialise_vision
from .running import load_checkpoint
from .tokenizer import Tokenizer

TEMPLATE_FILE = Path(__file__).resolve().parent / "chat_template.jinja"
MODEL_FILE, PROJECTOR_FILE = "model-f16.gguf", "mmproj-f16.gguf"
PATCH_KERNELS = ("v.patch_embd.weight", "v.patch_embd.weight.1")  # For the first and the second frame of a pair.
MODEL_NAME = "Lookout Nano"
DESCRIPTION = "Small vision-language model trained from scratch on synthetic pictures of shapes and short texts."


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


def stored_as_f16(name: str, parameter: Tensor) -> bool:
    """Matrices are stored in half precision; vectors and the position table in single."""
    return parameter.dim() >= 2 and not name.endswith("position")


def round_to_stored(network: VisionLanguageModel) -> VisionLanguageModel:
    """Rounds the weights to what the exported files hold, in place."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if not stored_as_f16(name, parameter):
                continue
            if name == "vision.patch.weight":  # Stored twice as halves.
                parameter.copy_((parameter / 2).half().float() * 2)
            else:
                parameter.copy_(parameter.half().float())
    return network


def _add(writer: GGUFWriter, name: str, tensor: Tensor, half: bool | None = None) -> None:
    array = tensor.detach().float().cpu().numpy()
    half = array.ndim >= 2 if half is None else half
    writer.add_tensor(name, np.ascontiguousarray(array.astype(np.float16 if half else np.float32)))


def _describe(writer: GGUFWriter, name: str, version: str) -> None:
    writer.add_name(name)
    writer.add_description(DESCRIPTION)
    writer.add_version(version)
    writer.add_author("The Lookout project")
    writer.add_license("mit")
    writer.add_languages(["en"])
    writer.add_tags(["image-text-to-text", "object-detection"])
    writer.add_file_type(LlamaFileType.MOSTLY_F16)


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
    """Name in the file -> parameter, but for the patch kernels."""
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


def write_language_model(model: LanguageModel, tokenizer: Tokenizer, path: Path, version: str) -> None:
    """Architecture `qwen3vl`; the output matrix is the embedding."""
    config = model.config
    writer = GGUFWriter(str(path), "qwen3vl")
    _describe(writer, MODEL_NAME, version)
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
    for name, tensor in language_tensors(model).items():
        _add(writer, name, tensor)
    _finish(writer)


def write_projector(tower: VisionTower, audio: AudioTower | None, path: Path, version: str) -> None:
    """The `mmproj` file, projector types `qwen3vl_merger` and, where the network hears, `qwen3a`."""
    config = tower.config
    writer = GGUFWriter(str(path), "clip")
    writer.add_type("mmproj")
    _describe(writer, f"{MODEL_NAME} vision" + (" and audio" if audio else ""), version)
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
    # A still image passes through both temporal kernels and is summed.
    kernel = tower.patch.weight.view(config.vision_width, 3, config.patch, config.patch) / 2
    for name in PATCH_KERNELS:
        _add(writer, name, kernel)
    for name, tensor in vision_tensors(tower).items():
        _add(writer, name, tensor, half=False if tensor is tower.position else None)
    if audio:
        for name, tensor in audio_tensors(audio).items():
            _add(writer, name, tensor, half=name.endswith("weight") and tensor.dim() > 1 and tensor is not audio.time)
    _finish(writer)


def run(arguments: argparse.Namespace) -> None:
    """Exports the stage 2 checkpoint of the run folder, or random weights."""
    config = CONFIGS[arguments.config]
    checkpoint = None if arguments.random else arguments.checkpoint or arguments.run_dir / "stage2.pt"
    network = load_network(checkpoint, config)
    arguments.output.mkdir(parents=True, exist_ok=True)
    model, projector = arguments.output / MODEL_FILE, arguments.output / PROJECTOR_FILE
    partial = arguments.output / "export.partial"  # A server must never load half a file.
    write_language_model(network.language, Tokenizer.load(), partial, arguments.model_version)
    partial.replace(model)
    write_projector(network.vision, network.audio, partial, arguments.model_version)
    partial.replace(projector)
    for path in (model, projector):
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
