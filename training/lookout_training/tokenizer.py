"""Byte-level BPE as llama.cpp's "qwen2" does it: the same text gives the same tokens here and there.

Token identifiers, in order: 256 bytes, merges, reserved unused entries, control tokens, user-defined tokens.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

import regex

# Qwen2's pre-tokenizer, as in llama.cpp's llama-vocab.cpp: words, single digits, punctuation, whitespace.
PRE_TOKENIZER = regex.compile(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONTROL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
]
# Recognised in any text, and part of the decoded text. The fixed parts of annotations are one token each, which saves decode steps.
USER_DEFINED = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<hint>",
    "</hint>",
    '<point_box mention="',
    '<point mention="',
    '<polygon mention="',
    '<clip mention="',
    '"> (',
    ") (",
    ") </point_box>",
    ") </point>",
    ") </polygon>",
    '" t="',
    ' seconds" />',
]
RESERVED = 48  # Unused entries for later versions.
TOKENIZER_FILE = Path(__file__).resolve().parent / "tokenizer.json"
NORMAL_TYPE, CONTROL_TYPE, USER_DEFINED_TYPE, UNUSED_TYPE = 1, 3, 4, 5  # llama.cpp's token types.


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {byte: chr(byte) for byte in printable}
    shift = 0
    for byte in range(256):
        if byte not in alphabet:
            alphabet[byte] = chr(256 + shift)
            shift += 1
    return alphabet


def _spell(word: str) -> list[str]:
    alphabet = byte_alphabet()
    return [alphabet[byte] for byte in word.encode()]


def train_merges(corpus: Iterable[str], count: int) -> list[tuple[str, str]]:
    """Greedily finds the `count` most frequent merges within pre-tokenised words."""
    frequencies = Counter(word for text in corpus for word in PRE_TOKENIZER.findall(text))
    words = [(_spell(word), frequency) for word, frequency in frequencies.items()]
    pairs: Counter[tuple[str, str]] = Counter()
    homes: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for index, (symbols, frequency) in enumerate(words):
        for pair in pairwise(symbols):
            pairs[pair] += frequency
            homes[pair].add(index)
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if pairs[best] < 2:
            break
        merges.append(best)
        for index in list(homes.pop(best)):
            symbols, frequency = words[index]
            for pair in pairwise(symbols):
                pairs[pair] -= frequency
            merged = _merge(symbols, best)
            words[index] = (merged, frequency)
            for pair in pairwise(merged):
                pairs[pair] += frequency
                homes[pair].add(index)
        del pairs[best]
    return merges


def _merge(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    index = 0
    while index < len(symbols):
        if tuple(symbols[index : index + 2]) == pair:
            merged.append(symbols[index] + symbols[index + 1])
            index += 2
        else:
            merged.append(symbols[index])
            index += 1
    return merged


class Tokenizer:
    """Converts text to token identifiers and back."""

    def __init__(self, merges: list[tuple[str, str]], vocabulary: int) -> None:
        self.merges = merges
        normal = [byte_alphabet()[byte] for byte in range(256)] + [a + b for a, b in merges]
        unused = vocabulary - len(normal) - len(CONTROL) - len(USER_DEFINED)
        if unused < 0:
            raise ValueError(f"{len(merges)} merges do not fit a vocabulary of {vocabulary}")
        self.tokens = normal + [f"[unused{index}]" for index in range(unused)] + CONTROL + USER_DEFINED
        self.types = (
            [NORMAL_TYPE] * len(normal) + [UNUSED_TYPE] * unused + [CONTROL_TYPE] * len(CONTROL) + [USER_DEFINED_TYPE] * len(USER_DEFINED)
        )
        self.identifiers = {token: index for index, token in enumerate(self.tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._bytes = {symbol: byte for byte, symbol in byte_alphabet().items()}
        self._words: dict[str, list[int]] = {}

    @classmethod
    def load(cls, path: Path = TOKENIZER_FILE) -> Tokenizer:
        data = json.loads(path.read_text())
        return cls([tuple(pair.split(" ")) for pair in data["merges"]], data["vocabulary"])

    def save(self, path: Path = TOKENIZER_FILE) -> None:
        data = {"vocabulary": len(self.tokens), "merges": [" ".join(pair) for pair in self.merges]}
        path.write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n")

    def __getitem__(self, token: str) -> int:
        return self.identifiers[token]

    @cached_property
    def _special_by_length(self) -> list[str]:
        return sorted(CONTROL + USER_DEFINED, key=len, reverse=True)

    def encode(self, text: str) -> list[int]:
        """Text to tokens. Special tokens are split off first, the longest first over the whole text, as llama.cpp does."""
        pieces: list[str | int] = [text]
        for special in self._special_by_length:
            if special not in text:
                continue
            identifier = self.identifiers[special]
            next_pieces: list[str | int] = []
            for piece in pieces:
                if isinstance(piece, int):
                    next_pieces.append(piece)
                    continue
                for index, part in enumerate(piece.split(special)):
                    if index:
                        next_pieces.append(identifier)
                    if part:
                        next_pieces.append(part)
            pieces = next_pieces
        identifiers: list[int] = []
        for piece in pieces:
            if isinstance(piece, int):
                identifiers.append(piece)
            else:
                for word in PRE_TOKENIZER.findall(piece):
                    identifiers += self._encode_word(word)
        return identifiers

    def spell(self, text: str) -> list[int]:
        """Text to one token per byte. The model learns text in images letter by letter; `decode` gives the same text either way."""
        return [self.identifiers[symbol] for symbol in _spell(text)]

    def _encode_word(self, word: str) -> list[int]:
        if word not in self._words:
            symbols = _spell(word)
            while len(symbols) > 1:
                ranked = [(self._ranks.get(pair, len(self._ranks)), index) for index, pair in enumerate(pairwise(symbols))]
                rank, index = min(ranked)
                if rank == len(self._ranks):
                    break
                symbols[index : index + 2] = [symbols[index] + symbols[index + 1]]
            self._words[word] = [self.identifiers[symbol] for symbol in symbols]
        return self._words[word]

    def decode(self, identifiers: Iterable[int]) -> str:
        """Tokens to text, including the names of control tokens."""
        parts: list[bytes] = []
        for identifier in identifiers:
            token = self.tokens[identifier]
            if self.types[identifier] == NORMAL_TYPE:
                parts.append(bytes(self._bytes[symbol] for symbol in token))
            else:
                parts.append(token.encode())
        return b"".join(parts).decode(errors="replace")


def merge_count(vocabulary: int) -> int:
    """The number of merges that leaves room for bytes, special tokens and the reserved entries."""
    return vocabulary - 256 - len(CONTROL) - len(USER_DEFINED) - RESERVED
