"""A minimal client for the server's API. Does not need PyTorch."""

from __future__ import annotations

import base64
import io
import json
import urllib.error
import urllib.request
from typing import Any

import numpy as np
from PIL import Image


def png_data_url(pixels: np.ndarray) -> str:
    """Encodes (height, width, 3) uint8 as the data URL of a PNG, so that the server gets exactly these pixels."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def user_turn(question: str, *, picture: str | None = None, sound: str | None = None, frames: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A user message. `picture` is a data URL, `sound` a WAV file in base64, `frames` as in `video_frames`; the question comes last."""
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": picture}}] if picture else []
    if frames:
        parts.append({"type": "video_frames", "video_frames": {"frames": frames}})
    if sound:
        parts.append({"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}})
    if question:
        parts.append({"type": "text", "text": question})
    return {"role": "user", "content": parts}


class ChatClient:
    """A client that always sends temperature 0."""

    def __init__(self, base_url: str, api_key: str, model: str, timeout: float = 120.0) -> None:
        self.url = base_url.rstrip("/").removesuffix("/v1") + "/v1"
        self.api_key = api_key
        self.model = model
        self.timeout = timeout  # Seconds.

    def ask(self, question: str, picture: str | None, system: str | None = None, limit: int = 400, **extra: Any) -> str:
        """The reply's text, at most `limit` tokens. `extra` goes into the user's turn (`sound`, `frames`) or the request body. Raises RuntimeError on an error reply."""
        media = {name: extra.pop(name) for name in ("sound", "frames") if name in extra}
        messages = [{"role": "system", "content": system}] if system else []
        messages.append(user_turn(question, picture=picture, **media))
        return self.chat({"messages": messages, "max_completion_tokens": limit, **extra})["content"] or ""

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """The message of a chat completion. Raises RuntimeError on an error reply."""
        return self.post("/chat/completions", {"model": self.model, "temperature": 0, **body})["choices"][0]["message"]

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The reply's JSON. Raises RuntimeError on an error reply."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.api_key}"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{error.code}: {error.read().decode(errors='replace')[:500]}") from error
