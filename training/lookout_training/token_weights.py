"""Weights of an answer's tokens in the loss. Without them, predictable tokens would outweigh the few that decide something."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .prompts import IGNORED
from .tokenizer import Tokenizer
from .tools import NO_TOOL

LENGTH_EXPONENT = 0.5  # An answer of n tokens has the weight n ** (1 - this), so that long detections do not outweigh short answers.
EMPHASIS = {"read": 2.0, "read region": 2.0, "region": 2.0, "naming": 2.0, "naming, thinking": 2.0, "caption": 2.5}  # Weights of tasks that are learnt slowly.
DECISION = 2.5  # Weight of the tokens of markup that decide which object comes next, or that none does.
CHOICE = 6.0  # Weight of the tokens that choose whether a function is called, and which, among about thirty predictable ones.
SECOND_DIGIT = 2.0  # Weight of the second digit of x: it decides whether a point lies in a narrow thing, and version 8 had it right half of the time.
NAME = 3.0  # Weight of the further tokens of a called function's name: they choose between names that begin alike.
BLANK = 2.0  # Weight of a blank between printed words: version 9 ran two words together in ten of 34 lines that it read wrong.
LAST_DIGIT = 0.2  # Weight of the third digit of a coordinate: a guess within two pixels, whose loss would drown which object comes next.


def answer_weight(task: str, tokens: int) -> float:
    """The weight of each token of an answer with this many tokens."""
    return EMPHASIS.get(task, 1.0) * tokens**-LENGTH_EXPONENT


def token_weights(labels: np.ndarray) -> np.ndarray:
    """(B, N) labels -> (B, N) float32: the factor of the answer's weight at each token."""
    weights = np.ones(labels.shape, np.float32)
    weights[labels == ord(" ")] *= BLANK  # A token of its own between spelled words, and before digits.
    weights[last_digits(labels)] *= LAST_DIGIT
    weights[second_digits(labels)] *= SECOND_DIGIT
    weights[decisions(labels)] *= DECISION
    weights[choices(labels)] *= CHOICE
    weights[rest_of_names(labels)] *= NAME
    return weights


@lru_cache(maxsize=1)
def _before_coordinate() -> list[int]:
    """Tokens after which a coordinate may begin."""
    tokenizer = Tokenizer.load()
    return [tokenizer['"> ('], tokenizer[") ("], *tokenizer.encode(",")]


@lru_cache(maxsize=1)
def _around_numbers() -> tuple[int, int, list[int]]:
    """Comma and blank between the numbers of a list in JSON, and what opens one."""
    tokenizer = Tokenizer.load()
    return tokenizer.encode(",")[0], ord(" "), [*tokenizer.encode("["), *tokenizer.encode(" [")]


def _are_digits(labels: np.ndarray) -> np.ndarray:
    return (labels >= ord("0")) & (labels <= ord("9"))  # The first 256 tokens are the bytes.


def last_digits(labels: np.ndarray) -> np.ndarray:
    """(B, N) labels -> (B, N) bool: the third digits of coordinates."""
    digit = _are_digits(labels)
    last = np.zeros(labels.shape, bool)
    third = digit[:, 3:] & digit[:, 2:-1] & digit[:, 1:-2]
    comma, blank, opening = _around_numbers()
    last[:, 3:] = third & np.isin(labels[:, :-3], [*_before_coordinate(), *opening])
    last[:, 4:] |= third[:, 1:] & (labels[:, 1:-3] == blank) & (labels[:, :-4] == comma)  # "[10, 205, ..." in JSON.
    return last


def second_digits(labels: np.ndarray) -> np.ndarray:
    """(B, N) labels -> (B, N) bool: the second digits of x."""
    digit = _are_digits(labels)
    second = np.zeros(labels.shape, bool)
    second[:, 2:] = digit[:, 2:] & digit[:, 1:-1] & np.isin(labels[:, :-2], _before_coordinate()[:2])  # Not the comma, which comes before y.
    return second


@lru_cache(maxsize=1)
def _before_decision() -> list[int]:
    """Tokens after which it shows which object is meant: its name, the head of its first coordinate, another object or none."""
    tokenizer = Tokenizer.load()
    return [tokenizer[token] for token in ('<point_box mention="', '<point mention="', '"> (', ") </point_box>", ") </point>")]


@lru_cache(maxsize=1)
def _around_x() -> tuple[int, int]:
    """The tokens before and after the first coordinate of an object."""
    tokenizer = Tokenizer.load()
    return tokenizer['"> ('], tokenizer.encode(",")[0]


def decisions(labels: np.ndarray) -> np.ndarray:
    """(B, N) labels -> (B, N) bool: tokens of markup that could lead to another object."""
    found = np.zeros(labels.shape, bool)
    found[:, 1:] = np.isin(labels[:, :-1], _before_decision()) & (labels[:, 1:] != IGNORED)
    # The same in lists of JSON.
    digit = _are_digits(labels)
    found[:, 1:] |= digit[:, 1:] & np.isin(labels[:, :-1], _around_numbers()[2])
    # Of two objects one above the other the first digit of y tells which.
    opening, comma = _around_x()
    opened, ended = labels == opening, labels == comma
    for digits in (1, 2, 3, 4):
        found[:, digits + 2 :] |= opened[:, : -digits - 2] & ended[:, digits + 1 : -1]
    return found


@lru_cache(maxsize=1)
def _around_choice() -> tuple[list[int], list[int]]:
    """The first two tokens of a refusal to call, and those before the name of a function that is called."""
    tokenizer = Tokenizer.load()
    return tokenizer.encode(NO_TOOL)[:2], [tokenizer["<tool_call>"], *tokenizer.encode('\n{"name": "')]


def choices(labels: np.ndarray) -> np.ndarray:
    """(B, N) labels -> (B, N) bool: tokens that choose whether a function is called, and which one."""
    refusal, before_name = _around_choice()
    found = labels == before_name[0]
    if labels.shape[1] <= len(before_name):
        return found
    found[:, :-1] |= _runs(labels, refusal)
    found[:, len(before_name) :] |= _runs(labels, before_name)[:, :-1]
    return found


def rest_of_names(labels: np.ndarray) -> np.ndarray:
    """(B, N) labels -> (B, N) bool: tokens of the names of called functions after the first token, including the closing quote."""
    _, before_name = _around_choice()
    found = np.zeros(labels.shape, bool)
    if labels.shape[1] <= len(before_name):
        return found
    for row, start in np.argwhere(_runs(labels, before_name)):
        first = start + len(before_name)
        ended = np.isin(labels[row, first:], _quoted_ends())
        length = int(ended.argmax()) if ended.any() else 0
        found[row, first + 1 : first + length + 1] = True
    return found


@lru_cache(maxsize=1)
def _quoted_ends() -> list[int]:
    """Tokens that end a string."""
    tokenizer = Tokenizer.load()
    return [token for token in range(len(tokenizer.tokens)) if '"' in tokenizer.decode([token])]


def _runs(labels: np.ndarray, tokens: list[int]) -> np.ndarray:
    """(B, N) labels -> (B, N - n + 1) bool: where n tokens follow each other."""
    return (sliding_window_view(labels, len(tokens), axis=1) == tokens).all(-1)
