"""Sends a chat to the server argv[2] with the key argv[3], using the client in the folder argv[1]; prints the reply."""

import sys

sys.path.insert(0, sys.argv[1])
from lookout_client import AuthenticatedClient
from lookout_client.api.chat_completions import create_chat_completion
from lookout_client.models import ChatCompletionRequest, SystemMessage, TextPart, UserMessage

client = AuthenticatedClient(base_url=sys.argv[2], token=sys.argv[3])
messages = [
    SystemMessage(role="system", content="Be brief."),
    UserMessage(role="user", content=[TextPart(type_="text", text="Hi")]),
]
body = ChatCompletionRequest(model="service-mk1.5", messages=messages)
print(create_chat_completion.sync(client=client, body=body).choices[0].message.content)
