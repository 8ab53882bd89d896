"""Small talk: questions and answers without an image."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from .more_phrasings import TALK
from .phrasings import MORE, Split

WHO = "I am Lookout's small built-in model. I can see simple pictures: shapes, colours, emoji and short texts."
CAN = "I can describe simple pictures, count and find shapes, name colours and read short texts."
CANNOT = "I cannot understand photographs or talk about the world. I only know simple drawn pictures."
OFF_TOPIC = "I am a very small model. I can only talk about simple pictures."
NO_PICTURE = "I see no picture."


@dataclass(frozen=True)
class Talk:
    """Questions for training (fixed or generated each time), questions kept for evaluation, and their answer."""

    seen: tuple[str, ...]
    held_out: tuple[str, ...]
    answer: str
    make: Callable[[random.Random], str] | None = None

    def question(self, rng: random.Random, split: Split) -> str:
        if split is Split.HELD_OUT:
            return rng.choice(self.held_out)
        if self.make and rng.random() < 0.6:
            made = self.make(rng)
            if made.lower() not in {text.lower() for text in self.held_out}:
                return made
        return rng.choice(TALK[self.seen[0]] if split is Split.MISTYPED and rng.random() < MORE else self.seen)


def _talk(seen: str, held_out: str, answer: str, make: Callable[[random.Random], str] | None = None) -> Talk:
    return Talk(tuple(seen.split("|")), tuple(held_out.split("|")), answer, make)


def _greeting(rng: random.Random) -> str:
    word = rng.choice(("Hello", "Hi", "Hey", "Good morning", "Good evening", "Good day", "Greetings", "Howdy", "Hello again", "Hi again"))
    return word + rng.choice(("", " there", " Lookout", " friend", " everyone", " model", " my friend")) + rng.choice(("", "!", ".", ",", "!!", " :)"))


TOPICS = (
    "dragons", "a dragon", "love", "the moon", "history", "football", "music", "my dog", "the war", "space", "money", "the weather", "autumn",
    "trains", "physics", "cooking", "my holiday", "robots", "politics", "the king", "computers", "a lost cat", "winter", "mathematics",
)  # fmt: skip
PLACES = ("France", "Spain", "Japan", "Canada", "Brazil", "Egypt", "India", "Peru", "Berlin", "London", "Paris", "Rome", "New York", "China", "Italy")


def _off_topic(rng: random.Random) -> str:
    place, topic = rng.choice(PLACES), rng.choice(TOPICS)
    return rng.choice(
        (
            f"{rng.choice(('Write', 'Compose', 'Make up', 'Tell me', 'Give me', 'Sing', 'Invent'))} "
            f"{rng.choice(('a poem', 'a story', 'a song', 'a letter', 'a speech', 'a joke', 'a recipe', 'a haiku', 'an article', 'a novel'))} about {topic}.",
            f"What is the {rng.choice(('capital', 'population', 'president', 'currency', 'language', 'history', 'area', 'flag'))} of {place}?",
            f"{rng.choice(('Explain', 'Tell me about', 'What do you know about', 'Teach me', 'What do you think of', 'Talk about'))} {topic}.",
            f"{rng.choice(('Who is', 'Who was', 'When was', 'Why is'))} {rng.choice(('the president', 'the king', 'the first man', 'the best player'))} of {place}?",
            f"Translate {rng.choice(('this', 'hello', 'the sentence', 'my letter'))} {rng.choice(('to', 'into'))} {rng.choice(('German', 'French', 'Spanish', 'Latin', 'Chinese'))}.",
            f"{rng.choice(('How do I', 'How can I', 'How does one', 'Help me to'))} {rng.choice(('cook rice', 'learn English', 'fix my car', 'get rich', 'sleep better', 'bake bread', 'write code', 'find a job'))}?",
            f"{rng.choice(('What is', 'Calculate', 'How much is'))} {rng.randrange(100)} {rng.choice(('plus', 'times', 'minus', '+', '*', '-'))} {rng.randrange(100)}?",
            f"{rng.choice(('Write', 'Show me', 'Debug'))} {rng.choice(('some code', 'a program', 'a Python function', 'a web page', 'a script'))}{rng.choice(('', f' about {topic}', ' for me'))}.",
            f"{rng.choice(('What is the weather in', 'How warm is it in', 'What is new in', 'How far is it to', 'Book a flight to', 'What day is it in'))} {place}?",
            f"{rng.choice(('Who won', 'Who plays in', 'When is', 'What about'))} the {rng.choice(('game', 'match', 'final', 'election', 'race', 'war'))}{rng.choice(('', ' today', ' yesterday', f' in {place}'))}?",
        )
    )


SMALL_TALK = (
    _talk(
        "Hello|Hello!|Hi|Hi!|Hi there|Good morning|Hey|hello there|Good evening!|Nice to meet you|Welcome!|Hello, how can you help?|Hi, can you help me?",
        "Hey there!|Good afternoon",
        "Hello! How can I help you?",
        _greeting,
    ),
    _talk(
        "Who are you?|What are you?|Which model are you?|What is your name?|Tell me about yourself.|Are you an AI?|Who am I talking to?"
        "|What's your name?|Say who you are.|Do you have a name?|Are you a robot?|Are you human?|Are you ChatGPT?|What model is this?"
        "|Who made you?|What kind of model are you?|Which AI are you?|Describe yourself.|Present yourself.|Tell me who you are.",
        "Introduce yourself.|Please tell me what you are.",
        WHO,
    ),
    _talk(
        "What can you do?|How can you help me?|What are you able to do?|Help|What do you know?|What can I ask you?|What are you good at?"
        "|Tell me what you can do.|What are you for?|What is your purpose?|Which tasks can you do?|How can I use you?|What should I ask you?"
        "|What are your skills?|List your skills.|help me|What do you do?",
        "What are your abilities?|Which things can you do for me?",
        CAN,
    ),
    _talk(
        "What can you not do?|What can't you do?|What are your limits?|Can you understand photographs?|What don't you know?|Are you good at photos?"
        "|Do you understand real photos?|Where do you fail?|What are you bad at?|What is it that you cannot do?|Tell me your limits."
        "|Can you see real pictures?|Do you make mistakes?|How good are you?",
        "What are your weaknesses?|Tell me what you cannot do.",
        CANNOT,
    ),
    _talk(
        "Thank you!|Thanks|Thanks a lot|Thank you very much.|Thank you so much|thx|Thanks, that helps.|Thanks for the help!|Great, thank you!|Perfect, thanks.",
        "Many thanks!",
        "You are welcome.",
    ),
    _talk("Bye|Goodbye|See you later|Good night|See you|Bye bye|See you soon|Goodbye!|Talk to you later|Until next time", "Farewell", "Goodbye!"),
    _talk(
        "How are you?|How do you do?|Are you well?|How are you today?|Are you okay?|How do you feel?|How are things?|How have you been?|Everything fine?|Is all well?",
        "How is it going?",
        "I am fine, thank you.",
    ),
    _talk(
        "Tell me a joke.|Write a poem.|What is the capital of France?|Who won the game?|Write some code."
        "|What is the weather today?|Explain physics.|Translate this to German.|Write a story about a dragon."
        "|How do I cook rice?|What is the meaning of life?|Who is the president?|Do you love me?|Sing a song.",
        "Write an essay about the sea.|What time is it in Tokyo?",
        OFF_TOPIC,
        _off_topic,
    ),
    _talk("Say yes.|Just say yes.|Say the word yes.|Can you say yes?|Answer with yes.|Reply yes.", "Please say yes.", "Yes."),
    _talk("Say hello.|Say hi.|Say hello to me.|Can you say hello?|Just say hello.|Greet me.", "Please say hello.", "Hello!"),
    _talk(
        "ping|test|Are you there?|Can you hear me?|Does this work?|testing|Hello? Is anyone there?|Are you online?|Are you ready?|This is a test.",
        "Is this working?",
        "I am here.",
    ),
)


def small_talk(rng: random.Random, split: Split) -> tuple[str, str]:
    """A question and its answer."""
    talk = rng.choice(SMALL_TALK)
    return talk.question(rng, split), talk.answer


REPEAT = ("Repeat: {}", "Say: {}", "Repeat after me: {}", "Write: {}", 'Say "{}".', 'Repeat "{}".', "Copy this: {}", "Echo {}", "Repeat this text: {}")
REPEAT_HELD_OUT = ("Say this again: {}", 'Please write "{}".')
LOOK_UP = (
    'What is "{}" in {}?', 'Give me "{}" of {}', 'Which value has "{}" here? {}', 'Value of "{}": {}', 'Read "{}" from this JSON: {}',
    'Look up "{}". {}',
)  # fmt: skip
LOOK_UP_HELD_OUT = ('Tell me the value of "{}" in this object: {}',)
KEYS = "name city color room value text date time count label unit id url price state query location x y box".split()


def copying(rng: random.Random, split: Split, words: list[str]) -> tuple[str, str]:
    """A question that contains its answer: to repeat some words, or a value of a JSON object."""
    if rng.random() < 0.5:
        said = " ".join(rng.choice(words) for _ in range(rng.randint(1, 6)))
        return rng.choice(REPEAT_HELD_OUT if split is Split.HELD_OUT else REPEAT).format(said), said
    values = {key: rng.randrange(1000) if rng.random() < 0.3 else rng.choice(words) for key in rng.sample(KEYS, rng.randint(2, 5))}
    key = rng.choice(list(values))
    return rng.choice(LOOK_UP_HELD_OUT if split is Split.HELD_OUT else LOOK_UP).format(key, json.dumps(values)), str(values[key])
