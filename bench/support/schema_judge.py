"""Reads a line with a schema and a document for each question, and writes whether Python's jsonschema finds it valid."""

import json
import signal
import sys

from jsonschema.validators import Draft202012Validator, validator_for

LIMIT_S = 20


def verdict(schema, document):
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        judge = kind(schema, format_checker=kind.FORMAT_CHECKER)
        return "valid" if judge.is_valid(document) else "invalid"
    except Exception:
        # The schema is not one, refers to what is elsewhere, or takes too long.
        return "unknown"


def late(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, late)
sys.setrecursionlimit(10_000)
for line in sys.stdin:
    question = json.loads(line)
    signal.alarm(LIMIT_S)
    try:
        answer = verdict(json.loads(question["schema"]), json.loads(question["text"]))
    except Exception:
        answer = "unknown"
    signal.alarm(0)
    print(answer, flush=True)
