"""Asks a server for decisions with the official clients, and prints what they made of its answers."""

import base64
import json
import sys
from pathlib import Path

import openai
from typesafe_sdk import Box, Choice, Image, Noul, Score, TypeSafeClient, TypeSafeUnprocessableEntityError

url, key, model = sys.argv[1:]
picture = Path("docs/pictures/shapes.png")
seen = {}

client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
image_url = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()
decision = client.decisions.create(
    model=model,
    input=[{"role": "user", "content": [{"type": "input_image", "image_url": image_url}]}],
    questions=[
        {"type": "predicate", "instructions": "Is there a heart?"},
        {"type": "choice", "instructions": "What colour is it?", "choices": [{"value": "red"}, {"value": True}]},
        {"type": "score", "instructions": "How large?", "levels": [{"label": "small"}, {"label": "large"}]},
    ],
)
seen["types"] = [answer.type for answer in decision.answers]
seen["total"] = sum(entry.probability for entry in decision.answers[1].probabilities)
try:
    client.decisions.create(model=model, input="a", questions=[])
except openai.BadRequestError as error:
    seen["error"] = error.param

with TypeSafeClient(base_url=f"{url}/typesafe", api_key=key, model=model) as jev:
    seen["models"] = [entry.name for entry in jev.models.list().models]
    photo = Image(picture)
    result = jev.system_one(
        state={"photo": photo, "note": f"the same again: {photo}"},
        questions={
            "there": Noul(instructions="Is there a heart?"),
            "colour": Choice(instructions="What colour is it?", criteria={"red": None, "like this": photo}),
            "size": Score(instructions="How large?", criteria=["small", "large"]),
            "where": Box(instructions="heart"),
        },
    )
    seen["noul"] = result.nouls["there"].noul
    seen["box"] = result.boxes["where"].box.right
    seen["request_id"] = result.request_id
    assert set(result.choices["colour"].probabilities) == {"red", "like this"}
    assert set(result.scores["size"].probabilities) == {0, 1}
    try:
        jev.system_one(state="a", questions={"tone": {"type": "score", "criteria": ["a", 1]}})
    except TypeSafeUnprocessableEntityError as error:
        seen["where"] = str(error)

try:
    from langchain_openai.decisions import Choice as Options, DecisionRequest, OpenAIDecisions, Predicate
except ImportError:
    seen["langchain"] = None
else:
    model_of_chain = OpenAIDecisions(model=model, base_url=f"{url}/v1", api_key=key)
    questions = {
        "there": Predicate(instructions="Is there a heart?"),
        "colour": Options(instructions="What colour is it?", choices={"red": None, "blue": None}),
    }
    response = model_of_chain.invoke(DecisionRequest(input="A red heart.", questions=questions))
    seen["langchain"] = [response.predicates["there"].probability, response.choices["colour"].choice]

print(json.dumps(seen))
