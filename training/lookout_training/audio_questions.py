"""Questions about a sound, spoken questions about an image, and their answers. Does not need PyTorch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from .audio_speech import SPOKEN_QUESTIONS, WORDS, spoken_sentences
from .audio_world import Kind, Sound
from .phrasings import Phrasings, Split, fill, in_some_style
from .questions import WORD_TASKS, Exchange, place_of, sentence
from .world import SHAPES, Scene

AUDIO_WORDS = ("audio", "recording", "sound", "clip")
NOTHING = "Nothing."


def _lines(seen: str, held_out: str) -> Phrasings:
    return Phrasings(tuple(seen.strip().splitlines()), tuple(held_out.strip().splitlines()))


SAID = _lines(
    """
What is said?
What is being said?
What do they say?
What does the voice say?
Which words are spoken?
Transcribe the {audio}.
Transcribe this.
Transcribe this {audio}.
What did you hear being said?
Write down what is said.
What words do you hear?
What is spoken here?
What are the words?
Repeat what is said.
Which words do you hear?
Write down the words.
What is said in the {audio}?
What does the voice in the {audio} say?
Give a transcript.
""",
    """
What does the speaker say?
Transcribe the speech.
What words are said?
Tell me what is said.
""",
)
HEAR = _lines(
    """
What do you hear?
What is in this {audio}?
Describe the {audio}.
What can you hear?
What's in the {audio}?
What is this sound?
What do you hear in the {audio}?
Describe this {audio}.
""",
    """
Tell me what you hear.
What can be heard?
""",
)
BEEPS = _lines(
    """
How many beeps?
How many beeps are there?
How many beeps do you hear?
Count the beeps.
Number of beeps?
How often does it beep?
How many times does it beep?
What is the number of beeps?
How many beeps are in the {audio}?
Count all beeps.
How many beeps can you hear?
""",
    """
How many beeps can be heard?
Tell me the number of beeps.
Please count the beeps in the {audio}.
""",
)
TONE = _lines(
    """
What kind of tone is it?
Which kind of tone do you hear?
Is the tone high, low, rising or falling?
How does the tone sound?
What is the tone like?
""",
    """
What sort of tone is this?
""",
)
PITCH = _lines(
    """
Is the tone high or low?
Is it a high or a low tone?
Is the tone low or high?
Do you hear a high or a low tone?
""",
    """
High or low tone?
""",
)
GLIDE = _lines(
    """
Is the tone rising or falling?
Is the tone falling or rising?
Is it a rising or a falling tone?
Which way does the tone go, rising or falling?
""",
    """
Rising or falling tone?
""",
)
KIND = _lines(
    """
Is it speech, a tone or beeps?
Do you hear speech, tones or beeps?
Is this speech, a tone or a beep?
What kind of sound is it?
What kind of {audio} is this?
""",
    """
Which kind of sound is this?
""",
)
PRESENT = _lines(
    """
Do you hear {one}?
Is there {one} in the {audio}?
Can you hear {one}?
Is there {one}?
Does the {audio} contain {one}?
""",
    """
Can {one} be heard?
""",
)
WORD = _lines(
    """
Is the word {word} said?
Do you hear the word {word}?
Does the voice say {word}?
Is "{word}" said?
Do they say {word}?
Is {word} one of the words?
Can you hear the word "{word}"?
Does anyone say {word}?
""",
    """
Is the word {word} spoken?
Did you hear {word}?
""",
)
FIRST = _lines(
    """
What is the {which} word?
Which word comes {which}?
Which word is said {which}?
What is said {which}?
The {which} word?
""",
    """
Which is the {which} word?
What word is spoken {which}?
""",
)
WORD_COUNT = _lines(
    """
How many words are said?
How many words do you hear?
How many words?
Count the words.
How many words are spoken?
""",
    """
Tell me the number of words.
How many words can you hear?
""",
)
ANSWER_IT = _lines(
    """
Answer the question.
Answer the spoken question.
Answer the question in the {audio}.
Listen and answer.
What is the answer?
Answer.
Answer what is asked in the {audio}.
""",
    """
Answer what you hear.
Reply to the voice.
""",
)

SoundAsker = Callable[[random.Random, Sound, Split], Exchange | None]
KIND_NAMES = {Kind.SPEECH: ("speech", "a voice"), Kind.TONES: ("a tone",), Kind.BEEPS: ("a beep", "beeps")}


def _say(rng: random.Random, lines: Phrasings, split: Split, task: str, answer: str, **slots: str) -> Exchange:
    question = fill(rng, lines.pick(rng, split), audio=rng.choice(AUDIO_WORDS), **slots)
    return Exchange(task, in_some_style(rng, question), answer)


def transcript(sound: Sound) -> str:
    """The words in lower case, except names."""
    return " ".join(sound.labels)


def description(sound: Sound) -> str:
    """The answer to "What do you hear?"."""
    if sound.kind is Kind.SPEECH:
        return f"A voice says: {transcript(sound)}."
    if sound.kind is Kind.TONES:
        return sentence(", then ".join(f"a {name} tone" for name in sound.labels))
    if sound.kind is Kind.BEEPS:
        return f"{len(sound.spans)} beep{'s' if len(sound.spans) > 1 else ''}."
    return NOTHING


def said(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    if sound.kind is not Kind.SPEECH and rng.random() < 0.7:  # Seldom asked where the sound has no such thing.
        return None
    return _say(rng, SAID, split, "said", sentence(transcript(sound)) if sound.kind is Kind.SPEECH else NOTHING)


def hear(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    return _say(rng, HEAR, split, "hear", description(sound))


def count_beeps(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    if sound.kind is not Kind.BEEPS and rng.random() < 0.85:
        return None
    return _say(rng, BEEPS, split, "beeps", str(len(sound.spans)) if sound.kind is Kind.BEEPS else "0")


def tone(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    if sound.kind is not Kind.TONES or len(sound.spans) != 1:
        return None
    (name,) = sound.labels
    lines = TONE if rng.random() < 0.4 else PITCH if name in ("high", "low") else GLIDE
    return _say(rng, lines, split, "tone", sentence(name))


def kind_of(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    answer = {Kind.SPEECH: "Speech.", Kind.TONES: "A tone." if len(sound.spans) == 1 else "Tones.", Kind.NOTHING: NOTHING}
    answer[Kind.BEEPS] = "A beep." if len(sound.spans) == 1 else "Beeps."
    return _say(rng, KIND, split, "sound kind", answer[sound.kind])


def present(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    asked = sound.kind if rng.random() < 0.5 and sound.kind in KIND_NAMES else rng.choice(list(KIND_NAMES))
    return _say(rng, PRESENT, split, "sound kind", "Yes." if asked is sound.kind else "No.", one=rng.choice(KIND_NAMES[asked]))


def word_said(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    if sound.kind is not Kind.SPEECH:
        return None
    there = rng.random() < 0.5
    word = rng.choice(sound.labels if there else [word for word in WORDS if word not in sound.labels])
    return _say(rng, WORD, split, "word said", "Yes." if there else "No.", word=word)


def first_word(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    if sound.kind is not Kind.SPEECH or len(sound.spans) < 2:
        return None
    which = rng.choice(("first", "last"))
    return _say(rng, FIRST, split, "word by place", sentence(sound.labels[0 if which == "first" else -1]), which=which)


def count_words(rng: random.Random, sound: Sound, split: Split) -> Exchange | None:
    if sound.kind is not Kind.SPEECH:
        return None
    return _say(rng, WORD_COUNT, split, "words", str(len(sound.spans)))


# Weights in the mix; tests and evaluation use the keys as task names.
SOUND_TASKS: dict[str, tuple[SoundAsker, float]] = {
    "said": (said, 40),
    "hear": (hear, 14),
    "beeps": (count_beeps, 16),
    "tone": (tone, 16),
    "sound kind": (kind_of, 5),
    "sound present": (present, 5),
    "word said": (word_said, 9),
    "word by place": (first_word, 8),
    "words": (count_words, 4),
}


def ask_about_sound(rng: random.Random, sound: Sound, split: Split = Split.SEEN) -> Exchange | None:
    """Draws a random task of the mix; None where the sound does not allow it."""
    name = rng.choices(list(SOUND_TASKS), weights=[weight for _, weight in SOUND_TASKS.values()])[0]
    return SOUND_TASKS[name][0](rng, sound, split)


# ---- Spoken questions about a picture -----------------------------------------------------------------------------


def spoken_question(rng: random.Random, scene: Scene, split: Split) -> tuple[str, Exchange] | None:
    """The spoken sentence (one of `spoken_sentences`) and the written exchange, whose question may be empty."""
    task = rng.choice(list(SPOKEN_QUESTIONS))
    shapes = [item.kind for item in scene.shapes]
    about = rng.choice(shapes) if shapes and rng.random() < (0.4 if task == "exists" else 0.75) else rng.choice(SHAPES)
    text, kind = rng.choice([(text, kind) for text, (of, kind) in spoken_sentences().items() if of == task and kind in ("", about)])
    answer = _answer(rng, scene, task, kind)
    if answer is None:
        return None
    question = "" if rng.random() < 0.4 else _say(rng, ANSWER_IT, split, "", "").question
    return text, Exchange(f"spoken {task}", question, answer)


def _answer(rng: random.Random, scene: Scene, task: str, kind: str) -> str | None:
    count = Counter(item.kind for item in scene.objects)[kind]
    if task == "count kind":
        return str(count) if count or rng.random() < 0.3 else None
    if task == "exists":
        return "Yes." if count else "No."
    if task == "count all":
        plain = len(scene.shapes) + len(scene.texts) == len(scene.objects)
        return str(len(scene.shapes)) if plain else None
    if task in ("colour", "where"):
        if count != 1:
            return None
        (item,) = (item for item in scene.objects if item.kind == kind)
        place = place_of(scene, item) if task == "where" else item.colour
        return sentence(place) if place else None
    exchange = WORD_TASKS[task][0](rng, scene, Split.SEEN)
    return exchange.answer if exchange else None


