"""Starts vLLM with `/v1/systemone` about pictures for the architecture of the shipped model.

vLLM has the code for it, but takes pictures only for LFM2-VL, and Qwen3-VL is not in its list of architectures.
"""

import runpy

if __name__ == "__main__":
    from vllm.entrypoints.generate.structured_decisions import strategies

    class AboutPictures(strategies.NextTokenStrategy):
        modalities = frozenset({"image"})

    strategies.READ_STRATEGIES["Qwen3VLForConditionalGeneration"] = AboutPictures
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
