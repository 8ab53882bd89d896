"""Follows grammars with XGrammar.

Reads the vocabulary and then requests from standard input, one line of JSON each, and answers each request with a line. Bytes
are characters of Latin-1.
"""

import json
import sys

import numpy
import xgrammar

vocabulary = json.loads(sys.stdin.readline())
tokens = [token.encode("latin-1") for token in vocabulary["tokens"]]
compiler = xgrammar.GrammarCompiler(
    xgrammar.TokenizerInfo(
        tokens,
        xgrammar.VocabType.RAW,
        vocab_size=len(tokens),
        stop_token_ids=vocabulary["stopTokens"],
    )
)


def masks(grammar, text):
    matcher = xgrammar.GrammarMatcher(grammar)
    bitmask = xgrammar.allocate_token_bitmask(1, len(tokens))
    found = []
    for byte in [None, *text.encode("latin-1")]:
        if byte is not None and not matcher.accept_string(bytes([byte])):
            break
        bitmask[:] = -1
        matcher.fill_next_token_bitmask(bitmask)
        found.append(numpy.asarray(bitmask)[0].tolist())
    return found


for line in sys.stdin:
    request = json.loads(line)
    try:
        grammar = compiler.compile_grammar(request["ebnf"])
        answer = {"masks": [masks(grammar, text) for text in request["texts"]]}
    except RuntimeError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
