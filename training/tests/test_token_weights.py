"""Tests of which tokens of an answer weigh more or less than others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lookout_training.prompts import END
from lookout_training.token_weights import BLANK, choices, decisions, last_digits, rest_of_names, second_digits, token_weights
from lookout_training.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.load()


def picked(tokenizer: Tokenizer, rule: Callable[[np.ndarray], np.ndarray], text: str) -> list[str]:
    """The tokens of a text that a rule finds."""
    tokens = tokenizer.encode(text)
    return [tokenizer.decode([token]) for token, found in zip(tokens, rule(np.array([tokens]))[0], strict=True) if found]


def test_last_digits_are_those_of_coordinates(tokenizer: Tokenizer) -> None:
    text = '<point_box mention="red circle 123"> (120,34) (410,1000) </point_box>\n<point mention="a"> (7,655) </point> 365'
    assert picked(tokenizer, last_digits, text) == list("0005")


def test_last_digits_of_lists_in_json_are_found_and_those_of_single_values_are_not(tokenizer: Tokenizer) -> None:
    assert picked(tokenizer, last_digits, '{"objects": [{"bbox_2d": [127, 24, 346, 1000], "label": "red 123"}], "total": 465}') == list("760")
    assert picked(tokenizer, last_digits, "[127, 248]") == list("78")


def test_second_digits_are_those_of_x(tokenizer: Tokenizer) -> None:
    text = '<point_box mention="red circle 123"> (120,34) (496,1000) </point_box>\n<point mention="a"> (7,655) </point> 365'
    assert picked(tokenizer, second_digits, text) == list("29")


def test_decisions_are_names_first_digits_and_what_follows_an_object(tokenizer: Tokenizer) -> None:
    text = '<point_box mention="red star"> (120,34) (410,1000) </point_box>\n<point mention="ring"> (765,5) </point><|im_end|>'
    assert picked(tokenizer, decisions, text) == ["red", "1", "3", "\n", "ring", "7", "5", END]


def test_first_digits_of_lists_in_json_decide_too(tokenizer: Tokenizer) -> None:
    assert picked(tokenizer, decisions, '{"objects": [{"bbox_2d": [127, 24, 346, 1000]}, {"point": [96, 5]}], "names": ["a"], "total": 465}') == ["1", "9"]


def test_choices_are_whether_to_call_and_what(tokenizer: Tokenizer) -> None:
    text = '<tool_call>\n{"name": "do_scan", "arguments": {"name": "Ida"}}\n</tool_call>\n<tool_call>\n{"name": "find"'
    for answer, chosen in ((text, ["<tool_call>", "do", "<tool_call>", "find"]), ("I have no tool for that.", ["I"]), ("I see", []), ("No", [])):
        assert picked(tokenizer, choices, answer) == chosen


def test_names_of_called_functions_are_weighed_to_their_end(tokenizer: Tokenizer) -> None:
    text = '<tool_call>\n{"name": "do_scan_ring", "arguments": {"name": "Ida"}}\n</tool_call>\n<tool_call>\n{"name": "find'
    assert "".join(picked(tokenizer, rest_of_names, text)) == '_scan_ring",'


def test_blanks_weigh_where_they_are_tokens_of_their_own(tokenizer: Tokenizer) -> None:
    for tokens, blanks in ((tokenizer.spell("RU COLD"), 1), (tokenizer.encode("a red star"), 0), (tokenizer.encode("a red star, 5"), 1)):
        weights = token_weights(np.array([tokens]))[0]
        assert list(weights[weights != 1]) == [BLANK] * blanks
