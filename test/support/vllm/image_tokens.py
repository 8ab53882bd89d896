"""Counts the tokens of images as vLLM's own processors do. Nothing is loaded but configuration files.

Reads from standard input a list of {"folder", "name", "placeholder", "sizes", "around"}; writes a list of {"name", "counts"}.
A count is [prompt tokens, tokens that the encoder makes], the second null where only vLLM's sums were asked: the processors
of these models are code in their repositories.
"""

import json
import sys
from types import SimpleNamespace

import torch
from PIL import Image
from transformers import AutoConfig, PretrainedConfig, Qwen2Config
from vllm.config import ModelConfig
from vllm.model_executor.models import registry
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.processing import ProcessorInputs, TimingContext

# It inspects each model in a process of its own, which takes longer than all the rest.
registry._run_in_subprocess = lambda function: function()


class ChatConfig(PretrainedConfig):
    """The makers' own code has it."""

    model_type = "internvl_chat"

    def __init__(self, vision_config=None, llm_config=None, **fields):
        super().__init__(**fields)
        self.vision_config = PretrainedConfig(**(vision_config or {}))
        self.llm_config = self.text_config = Qwen2Config(**(llm_config or {}))


AutoConfig.register("internvl_chat", ChatConfig)


def run(case):
    folder = case["folder"]
    config = ModelConfig(model=folder, tokenizer=folder, dtype="float32", max_model_len=1024, skip_tokenizer_init=False)
    processor = MULTIMODAL_REGISTRY.create_processor(config)
    tokenizer = processor.info.get_tokenizer()
    placeholder = tokenizer.encode(case["placeholder"], add_special_tokens=False)
    counts = []
    for width, height in case["sizes"]:
        image = Image.new("RGB", (width, height))
        items = processor.info.parse_mm_data({"image": [image]})
        # Letters on either side, which no rule joins with anything.
        prompt = tokenizer.encode("a", add_special_tokens=False)
        inputs = ProcessorInputs(prompt=[*prompt, *placeholder, *prompt], mm_data_items=items)
        result = processor.apply(inputs, TimingContext(enabled=False))
        ranges = result["mm_placeholders"]["image"]
        embeds = sum(r.length if r.is_embed is None else int(r.is_embed.sum()) for r in ranges)
        counts.append([len(result["prompt_token_ids"]) - 2, embeds])
    return counts


def molmo(case):
    from vllm.model_executor.models.molmo import MolmoProcessingInfo

    files = json.load(open(f"{case['folder']}/preprocessor_config.json"))
    info = MolmoProcessingInfo.__new__(MolmoProcessingInfo)
    processor = SimpleNamespace(**files)
    count = lambda w, h: info.get_num_image_tokens(image_width=w, image_height=h, image_processor=processor)
    return [[count(w, h), None] for w, h in case["sizes"]]


def molmo2(case):
    from vllm.model_executor.models.molmo2 import Molmo2ProcessingInfo

    files = json.load(open(f"{case['folder']}/preprocessor_config.json"))
    own = json.load(open(f"{case['folder']}/processor_config.json"))
    info = Molmo2ProcessingInfo.__new__(Molmo2ProcessingInfo)
    processor = SimpleNamespace(image_processor=SimpleNamespace(**files), **own)
    count = lambda w, h: info.get_num_image_tokens(image_width=w, image_height=h, processor=processor)
    return [[count(w, h), None] for w, h in case["sizes"]]


def kimi(case):
    from vllm.model_executor.models.kimi_vl import KimiVLProcessingInfo

    files = json.load(open(f"{case['folder']}/preprocessor_config.json"))

    class Info(KimiVLProcessingInfo):
        def get_hf_processor(self):
            return SimpleNamespace(image_processor=SimpleNamespace(**files))

    info = Info.__new__(Info)
    # The placeholder's own tokens, of which one is replaced.
    count = lambda w, h: info.get_num_image_tokens(image_width=w, image_height=h)
    return [[count(w, h) + case["around"], None] for w, h in case["sizes"]]


SUMS = {"molmo": molmo, "molmo2": molmo2, "kimi-vl": kimi}

results = []
for case in json.load(sys.stdin):
    print(case["name"], file=sys.stderr, flush=True)
    try:
        counts = SUMS[case["name"]](case) if case["name"] in SUMS else run(case)
        results.append({"name": case["name"], "counts": counts})
    except Exception as error:
        import traceback

        print(case["name"], "".join(traceback.format_exception(error)[-4:]), file=sys.stderr)
        results.append({"name": case["name"], "counts": None})
print("RESULT " + json.dumps(results, default=int))
