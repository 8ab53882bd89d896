"""Renders chat templates as Hugging Face Transformers renders them, for `test/chat-templates.test.ts`.

    pip install transformers jinja2
    python test/support/render_templates.py FOLDER > test/fixtures/chat-templates.json

    python test/support/render_templates.py --snippets > test/fixtures/jinja-snippets.json

FOLDER holds llama.cpp's `models/templates`. What is printed has of each template only its name, its SHA-256 and, for each
conversation of `chat-conversations.json`, the beginning of the SHA-256 of the prompt and its length in characters; null
where the template refuses the conversation. A star precedes what only the sandbox refuses, in which lists cannot change.

The second command renders the snippets of `jinja-snippets.json` again.
"""

import hashlib
import json
import logging
import pathlib
import sys
from datetime import datetime

import jinja2
import jinja2.sandbox
import transformers
from transformers.utils import chat_template_utils

logging.disable()
FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"
CONVERSATIONS = json.loads((FIXTURES / "chat-conversations.json").read_text(encoding="utf-8"))
DIGITS = 16


class FixedDate(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 3, 5, 14, 7, 9)


chat_template_utils.datetime = FixedDate


def render(source, conversation):
    """As `apply_chat_template` calls the renderer for a tokenizer with these special tokens."""
    variables = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, **conversation}
    variables = {key: value for key, value in variables.items() if value is not None}
    messages = chat_template_utils._normalize_chat_messages(variables.pop("messages"))
    [text], _ = chat_template_utils.render_jinja_template([messages], chat_template=source, **variables)
    return text


def open_sandbox():
    """Lets templates change lists, as llama.cpp does."""
    chat_template_utils.ImmutableSandboxedEnvironment = jinja2.sandbox.SandboxedEnvironment
    for compiled in (chat_template_utils._compile_jinja_template, chat_template_utils._cached_compile_jinja_template):
        if hasattr(compiled, "cache_clear"):
            compiled.cache_clear()


def digest(text):
    return f"{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]} {len(text)}"


def outcomes(source):
    prompts, changing = {}, []
    for name, conversation in CONVERSATIONS.items():
        try:
            prompts[name] = digest(render(source, conversation))
        except jinja2.exceptions.SecurityError:
            changing.append(name)
            prompts[name] = None
        except Exception:
            prompts[name] = None
    return prompts, changing


def snippets():
    path = FIXTURES / "jinja-snippets.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    results = {}
    for source in known["snippets"]:
        try:
            results[source] = chat_template_utils._compile_jinja_template(source).render(**known["variables"])
        except Exception:
            results[source] = None
    json.dump({"variables": known["variables"], "snippets": results}, sys.stdout, ensure_ascii=False, indent=1)
    print()


def main(folder):
    templates, kept = {}, {}
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        source = path.read_bytes()
        text = path.read_text(encoding="utf-8")
        prompts, changing = outcomes(text)
        templates[path.name] = {"sha256": hashlib.sha256(source).hexdigest(), "prompts": prompts}
        kept[path.name] = (text, changing)
    open_sandbox()
    for name, (text, changing) in kept.items():
        for conversation in changing:
            templates[name]["prompts"][conversation] = "*" + digest(render(text, CONVERSATIONS[conversation]))
    versions = {"transformers": transformers.__version__, "jinja2": jinja2.__version__}
    rows = [f"  {json.dumps(name)}: {json.dumps(template)}" for name, template in templates.items()]
    print(json.dumps(versions)[:-1] + ', "templates": {\n' + ",\n".join(rows) + "\n}}")


if __name__ == "__main__":
    snippets() if sys.argv[1] == "--snippets" else main(sys.argv[1])
