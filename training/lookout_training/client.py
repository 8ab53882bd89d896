"""A minimal client of the server's chat completions endpoint. No PyTorch."""

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
    """(height, width, 3) uint8 -> data URL of a PNG, so that the server gets exactly these pixels."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


class ChatClient:
    """Asks at temperature 0."""

    def __init__(self, base_url: str, api_key: str, model: str, timeout: float = 120.0) -> None:
        self.url = base_url.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"
        self.api_key = api_key
        self.model = model
        self.timeout = timeout  # Seconds.

    def ask(
        self, question: str, picture: str | None, system: str | None = None, limit: int = 400, sound: str | None = None, **extra: Any
    ) -> str:
        """The reply's text, at most `limit` tokens. `picture` is a data URL, `sound` a WAV file in base64; `extra` goes into the request body.

        Picture, sound and question stand in this order. Raises RuntimeError on an error reply.
        """
        parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": picture}}] if picture else []
        if sound:
            parts.append({"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}})
        if question:
            parts.append({"type": "text", "text": question})
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": parts})
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_completion_tokens": limit, **extra}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.api_key}"}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                reply = json.load(response)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{error.code}: {error.read().decode(errors='replace')[:500]}") from error
        return reply["choices"][0]["message"]["content"] or ""
