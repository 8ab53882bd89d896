"""Asks a server with a framework in its default modes, and prints what it made of the answers, as JSON.

    python frameworks.py FRAMEWORK KEY MODEL URL...
"""

import asyncio
import base64
import json
import os
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

# Some frameworks ask other servers for prices or send statistics.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LANGSMITH_TRACING="false", DSPY_CACHEDIR=os.devnull)

PICTURE = Path("docs/pictures/shapes.png")
DATA_URL = "data:image/png;base64," + base64.b64encode(PICTURE.read_bytes()).decode()
QUESTION = "What is in this image?"
IMAGE_PART = {"type": "image_url", "image_url": {"url": DATA_URL}}
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": QUESTION}, IMAGE_PART]}]


class Scene(BaseModel):
    """What a picture shows."""

    colour: Literal["red", "green", "blue"]
    count: int


def attempt(run):
    """What a mode gives, or the error that the server answers it with."""
    try:
        return run()
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:300]}


def scene(value) -> dict:
    assert isinstance(value, Scene), value
    return {"colour": value.colour, "count": value.count}


def instructor(url, key, model):
    import instructor
    import openai

    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)

    def ask(mode):
        made = instructor.from_openai(client, mode=mode)
        return scene(made.chat.completions.create(model=model, messages=MESSAGES, response_model=Scene, max_retries=0))

    return {
        "default": attempt(lambda: ask(instructor.Mode.TOOLS)),
        "JSON": attempt(lambda: ask(instructor.Mode.JSON)),
        "JSON_SCHEMA": attempt(lambda: ask(instructor.Mode.JSON_SCHEMA)),
    }


def pydantic_ai(url, key, model):
    from pydantic_ai import Agent, BinaryContent, NativeOutput, PromptedOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    chat = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key=key))
    said = [QUESTION, BinaryContent(data=PICTURE.read_bytes(), media_type="image/png")]

    def ask(output):
        return Agent(chat, output_type=output, retries=0).run_sync(said).output

    async def stream():
        async with Agent(chat).run_stream(said) as result:
            return await result.get_output()

    return {
        "text": attempt(lambda: ask(str)),
        "stream": attempt(lambda: asyncio.run(stream())),
        "default": attempt(lambda: scene(ask(Scene))),
        "NativeOutput": attempt(lambda: scene(ask(NativeOutput(Scene)))),
        "PromptedOutput": attempt(lambda: scene(ask(PromptedOutput(Scene)))),
    }


def langchain(url, key, model):
    from langchain_core.messages import HumanMessage
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(base_url=url, api_key=key, model=model, max_retries=0)
    said = [HumanMessage(content=[{"type": "text", "text": QUESTION}, IMAGE_PART])]
    block = {"type": "image", "base64": DATA_URL.split(",")[1], "mime_type": "image/png"}

    def structured(**options):
        return scene(chat.with_structured_output(Scene, **options).invoke(said))

    def called(**options):
        (call,) = chat.bind_tools([Scene], **options).invoke(said).tool_calls
        return {"tool": call["name"], **scene(Scene(**call["args"]))}

    return {
        "text": attempt(lambda: chat.invoke(said).content),
        "image block": attempt(lambda: chat.invoke([HumanMessage(content=[block, said[0].content[0]])]).content),
        "stream": attempt(lambda: "".join(str(piece.content) for piece in chat.stream(said))),
        "stop": attempt(lambda: chat.invoke(said, stop=[" "]).content),
        "default": attempt(structured),
        "function_calling": attempt(lambda: structured(method="function_calling")),
        "json_mode": attempt(lambda: structured_json(chat, said)),
        "bind_tools": attempt(lambda: chat.bind_tools([Scene]).invoke(said).content),
        "bind_tools any": attempt(lambda: called(tool_choice="any")),
    }


def structured_json(chat, said):
    """Any object will do: in this mode the prompt alone says which."""
    return type(chat.with_structured_output(None, method="json_mode").invoke(said)).__name__


def llamaindex(url, key, model):
    from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
    from llama_index.llms.openai_like import OpenAILike

    def llm(**options):
        return OpenAILike(model=model, api_base=url, api_key=key, is_chat_model=True, max_retries=0, **options)

    said = [ChatMessage(role="user", blocks=[ImageBlock(path=PICTURE), TextBlock(text=QUESTION)])]

    def structured(**options):
        return scene(llm(**options).as_structured_llm(Scene).chat(said).raw)

    return {
        "text": attempt(lambda: llm().chat(said).message.content),
        "stream": attempt(lambda: [piece.message.content for piece in llm().stream_chat(said)][-1]),
        "default": attempt(structured),
        "function calling": attempt(lambda: structured(is_function_calling_model=True)),
        "should_use_structured_outputs": attempt(lambda: structured(should_use_structured_outputs=True)),
    }


def litellm(url, key, model):
    import litellm

    litellm.num_retries = 0

    def ask(**options):
        where = {"model": f"openai/{model}", "api_base": url, "api_key": key}
        return litellm.completion(**where, messages=MESSAGES, **options)

    tools = [{"type": "function", "function": {"name": "scene", "parameters": Scene.model_json_schema()}}]

    def called():
        (call,) = ask(tools=tools, tool_choice="required").choices[0].message.tool_calls
        return scene(Scene.model_validate_json(call.function.arguments))

    def streamed():
        pieces = [piece.choices[0].delta.content or "" for piece in ask(stream=True)]
        return "".join(pieces)

    return {
        "text": attempt(lambda: ask().choices[0].message.content),
        "stream": attempt(streamed),
        "stop": attempt(lambda: ask(stop=" ", seed=1, user="me").choices[0].message.content),
        "response_format": attempt(
            lambda: scene(Scene.model_validate_json(ask(response_format=Scene).choices[0].message.content)),
        ),
        "json_object": attempt(
            lambda: type(json.loads(ask(response_format={"type": "json_object"}).choices[0].message.content)).__name__
        ),
        "required": attempt(called),
    }


def mistralai(url, key, model):
    try:
        from mistralai import Mistral
    except ImportError:
        from mistralai.client import Mistral

    client = Mistral(api_key=key, server_url=url.removesuffix("/v1"))
    messages = [{"role": "user", "content": [{"type": "image_url", "image_url": DATA_URL}, {"type": "text", "text": QUESTION}]}]
    words = Path("docs/pictures/words.mp3").read_bytes()
    tool = {"type": "function", "function": {"name": "look", "parameters": Scene.model_json_schema()}}

    def calls():
        turns = list(messages)
        turns.append(client.chat.complete(model=model, messages=turns, tools=[tool], tool_choice="any").choices[0].message)
        call = turns[-1].tool_calls[0]
        turns.append({"role": "tool", "name": call.function.name, "content": "ok", "tool_call_id": call.id})
        return client.chat.complete(model=model, messages=turns, tools=[tool]).choices[0].message.content

    def transcribe(**source):
        return client.audio.transcriptions.complete(model=model, **source).text

    def models():
        found = client.models.retrieve(model_id=model)
        return [client.models.list().data[0].id, found.id, found.capabilities.vision]

    def download():
        kept = client.files.upload(file={"file_name": "a.png", "content": PICTURE.read_bytes()}, purpose="ocr")
        return client.files.download(file_id=kept.id).read() == PICTURE.read_bytes()

    def stream():
        chunks = client.chat.stream(model=model, messages=messages, random_seed=1)
        return "".join(chunk.data.choices[0].delta.content or "" for chunk in chunks)

    return {
        "image URL": attempt(lambda: client.chat.complete(model=model, messages=messages).choices[0].message.content),
        "stream": attempt(stream),
        "any tool": attempt(calls),
        "transcription": attempt(lambda: transcribe(file={"file_name": "a.mp3", "content": words})),
        "transcription by address": attempt(
            lambda: transcribe(file_url="data:audio/mpeg;base64," + base64.b64encode(words).decode())
        ),
        "models": attempt(models),
        "download": attempt(download),
    }


def dspy(url, key, model):
    import dspy
    import litellm

    name = f"openai/{model}"
    # Otherwise DSPy asks models that it does not know in words alone, which is too much for a small one.
    litellm.register_model({name: {"litellm_provider": "openai", "mode": "chat", "supports_response_schema": True}})
    lm = dspy.LM(name, engine="litellm", api_base=url, api_key=key, cache=False, num_retries=0, max_tokens=200)

    class Look(dspy.Signature):
        """Look at the image."""

        image: dspy.Image = dspy.InputField()
        scene: Scene = dspy.OutputField()

    def ask(adapter):
        with dspy.context(lm=lm, adapter=adapter):
            return scene(dspy.Predict(Look)(image=dspy.Image(DATA_URL)).scene)

    return {
        "default": attempt(lambda: ask(None)),
        "JSONAdapter": attempt(lambda: ask(dspy.JSONAdapter())),
    }


def huggingface_hub(url, key, model):
    from huggingface_hub import InferenceClient

    client = InferenceClient(base_url=url, api_key=key)

    def ask(**options):
        return client.chat_completion(messages=MESSAGES, model=model, max_tokens=100, **options)

    def answer(**options):
        return ask(**options).choices[0].message

    tools = [{"type": "function", "function": {"name": "scene", "parameters": Scene.model_json_schema()}}]
    as_scene = {"type": "json_schema", "json_schema": {"name": "Scene", "schema": Scene.model_json_schema()}}
    return {
        "text": attempt(lambda: answer().content),
        "stream": attempt(lambda: "".join(piece.choices[0].delta.content or "" for piece in ask(stream=True))),
        "response_format": attempt(
            lambda: scene(Scene.model_validate_json(answer(response_format=as_scene).content)),
        ),
        "required": attempt(
            lambda: scene(
                Scene.model_validate_json(
                    answer(tools=tools, tool_choice="required").tool_calls[0].function.arguments
                )
            ),
        ),
    }


if __name__ == "__main__":
    framework, key, model, *urls = sys.argv[1:]
    print(json.dumps([globals()[framework](f"{url}/v1", key, model) for url in urls]))
