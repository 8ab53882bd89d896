"""Fast tests of the audio code. A fake voice replaces espeak-ng, except in the tests of espeak-ng itself."""

from __future__ import annotations

import base64
import ctypes.util
import io
import json
import random
import threading
import wave
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jinja2
import numpy as np
import pytest
import torch
from gguf import GGUFReader

from lookout_training.audio_evaluate import FIRST_SEED, SPOKEN, wav_base64
from lookout_training.audio_features import CHUNK_TOKENS, SAMPLE_RATE, chunk_count, log_mel, mel_filters, token_count
from lookout_training.audio_network import encode_clips, initialise_audio
from lookout_training.audio_prompts import WITH_PICTURE, SoundLayout, SoundSampleMaker, heard_samples
from lookout_training.audio_questions import SOUND_TASKS, spoken_question
from lookout_training.audio_speech import (
    HELD_OUT_VOICES,
    TRAINED_VOICES,
    WORDS,
    CachedSpeech,
    LiveSpeech,
    Utterance,
    align,
    build_cache,
    spoken_sentences,
    words_of,
)
from lookout_training.audio_stage import LABELS, heard_labels, make_batch, token_targets
from lookout_training.audio_world import Kind, Sound, Span, any_sound
from lookout_training.client import ChatClient
from lookout_training.config import HELD_OUT_SEED, NANO
from lookout_training.evaluation_set import sound_questions
from lookout_training.export import chat_template, write_language_model, write_projector
from lookout_training.generation import generate
from lookout_training.gguf_files import WeightType
from lookout_training.network import VisionLanguageModel, initialise_language, initialise_vision
from lookout_training.phrasings import Split
from lookout_training.prompts import ASSISTANT, IGNORED
from lookout_training.stage2 import collate, forward
from lookout_training.tokenizer import Tokenizer
from lookout_training.warm_start import load_gguf
from lookout_training.world import pick_size, render_scene

needs_espeak = pytest.mark.skipif(ctypes.util.find_library("espeak-ng") is None, reason="espeak-ng is not installed")


class Murmur:
    """Noise in place of speech: a quarter of a second per word."""

    def _utter(self, rng: random.Random, words: Sequence[str]) -> Utterance:
        length = SAMPLE_RATE // 4
        noise = np.random.default_rng(rng.getrandbits(32)).standard_normal(length * len(words))
        return Utterance((0.1 * noise).astype(np.float32), tuple((word, i * length, (i + 1) * length) for i, word in enumerate(words)))

    def separately(self, rng: random.Random, words: Sequence[str]) -> list[Utterance]:
        return [self._utter(rng, [word]) for word in words]

    def phrase(self, rng: random.Random) -> Utterance:
        return self._utter(rng, rng.sample(WORDS, 2))

    def sentence(self, rng: random.Random, text: str) -> Utterance:
        return self._utter(rng, words_of(text))


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.load()


@pytest.fixture(scope="session")
def maker(tokenizer: Tokenizer) -> SoundSampleMaker:
    return SoundSampleMaker(tokenizer, Murmur(), NANO.mel_bins)


@pytest.fixture(scope="session")
def network() -> VisionLanguageModel:
    torch.manual_seed(0)
    model = VisionLanguageModel(NANO)
    initialise_vision(model.vision)
    initialise_audio(model.audio)
    initialise_language(model.language)
    return model.eval()


def test_spectrogram_of_a_tone_peaks_at_its_pitch() -> None:
    time = np.arange(SAMPLE_RATE * 3 // 2) / SAMPLE_RATE
    mel = log_mel((0.5 * np.sin(2 * np.pi * 1000 * time)).astype(np.float32), NANO.mel_bins)
    assert mel.shape == (2, NANO.mel_bins, 100)
    bin_of_1000_hz = int(mel_filters(NANO.mel_bins)[25].argmax())  # 25 x 40 Hz.
    assert mel[0].argmax(axis=0)[5:95].tolist() == [bin_of_1000_hz] * 90
    assert mel.max() - mel[0].min() <= 2.0001  # Eight powers of ten, a quarter each.
    assert np.all(mel[1, :, 52:] == 0)  # After the end.


@pytest.mark.parametrize("count", [1, 2, 150, 201, 15_999, 16_000, 31_999, 32_000])
def test_every_started_second_has_its_tokens(count: int) -> None:
    mel = log_mel(np.full(count, 0.1, np.float32), NANO.mel_bins)
    assert len(mel) == chunk_count(count) == (count // 160 + 100) // 100
    assert token_count(count) == CHUNK_TOKENS * len(mel)
    assert np.isfinite(mel).all()


def test_attention_ends_after_eight_seconds(network: VisionLanguageModel) -> None:
    mel = torch.rand(1, 11, NANO.mel_bins, 100)
    with torch.no_grad():
        whole = network.audio(mel)
        assert whole.shape == (1, 11 * CHUNK_TOKENS, NANO.width)
        assert torch.allclose(whole[:, : 8 * CHUNK_TOKENS], network.audio(mel[:, :8]), atol=1e-5)
        mel[:, 7] = 0
        changed = network.audio(mel)
    assert not torch.allclose(whole[:, 0], changed[:, 0], atol=1e-7)
    assert torch.allclose(whole[:, 8 * CHUNK_TOKENS :], changed[:, 8 * CHUNK_TOKENS :], atol=1e-5)


def test_clips_of_different_lengths_are_encoded_alone(network: VisionLanguageModel) -> None:
    clips = [torch.rand(chunks, NANO.mel_bins, 100) for chunks in (2, 1, 3, 2)]
    with torch.no_grad():
        together = encode_clips(network.audio, clips)
        for clip, tokens in zip(clips, together, strict=True):
            assert torch.allclose(tokens, network.audio(clip[None])[0], atol=1e-5)


def test_sounds_are_reproducible_and_their_spans_lie_inside() -> None:
    for seed in range(60):
        sound, again = (any_sound(random.Random(seed), Murmur()) for _ in range(2))
        assert np.array_equal(sound.samples, again.samples) and sound.spans == again.spans
        assert np.abs(sound.samples).max() <= 1
        assert chunk_count(len(sound.samples)) <= 5
        ends = [0]
        for span in sound.spans:
            assert ends[-1] - 1 <= span.first < span.end <= len(sound.samples)
            ends.append(span.end)
        assert (len(sound.spans) == 0) == (sound.kind is Kind.NOTHING)


def test_a_noisy_recording_still_holds_the_sound() -> None:
    """The sound is louder inside the spans than between them, whatever the microphone does."""
    louder = 0
    for seed in range(40):
        sound = any_sound(random.Random(seed), Murmur())
        if sound.kind is Kind.NOTHING:
            continue
        inside = np.zeros(len(sound.samples), bool)
        for span in sound.spans:
            inside[span.first : span.end] = True
        louder += np.mean(sound.samples[inside] ** 2) > 2 * np.mean(sound.samples[~inside] ** 2)
    assert louder >= 35


def test_token_targets_spell_what_is_heard(tokenizer: Tokenizer) -> None:
    sound = Sound(np.zeros(32_000, np.float32), Kind.SPEECH, (Span("kitchen", 1600, 12_000), Span("red", 14_000, 15_000)))
    labels, pieces = token_targets(sound, 2, tokenizer)
    assert heard_labels(labels) == ("kitchen", "red")
    spelled = [piece for i, piece in enumerate(pieces) if labels[i] and (i == 0 or piece != pieces[i - 1])]
    assert tokenizer.decode(spelled) == " kitchen red"
    batch = make_batch(1, 8, Murmur(), tokenizer, NANO.mel_bins)
    assert len(batch.labels) == len(batch.pieces) == sum(CHUNK_TOKENS * len(clip) for clip in batch.clips)
    assert batch.labels.max() < len(LABELS) == len(set(LABELS))


@pytest.mark.parametrize("split", list(Split))
def test_questions_fit_their_sound(split: Split) -> None:
    asked = set()
    for seed in range(120):
        rng = random.Random(seed)
        sound = any_sound(rng, Murmur())
        for name, (ask, _) in SOUND_TASKS.items():
            exchange = ask(rng, sound, split)
            if exchange is None:
                continue
            asked.add(name)
            assert "{" not in exchange.question
            if name == "said" and sound.kind is Kind.SPEECH:
                assert exchange.answer.lower() == " ".join(sound.labels).lower() + "."
            if name == "beeps":
                assert exchange.answer == str(len(sound.spans) if sound.kind is Kind.BEEPS else 0)
    assert asked == set(SOUND_TASKS)


def test_held_out_wordings_and_voices_are_never_trained_on() -> None:
    seen, held_out = set(), set()
    for seed in range(300):
        rng = random.Random(seed)
        sound = any_sound(rng, Murmur())
        for ask, _ in SOUND_TASKS.values():
            for split, questions in ((Split.SEEN, seen), (Split.HELD_OUT, held_out)):
                exchange = ask(rng, sound, split)
                if exchange:
                    questions.add(exchange.question.lower().rstrip(".?!"))
    assert held_out and not seen & held_out
    assert not set(HELD_OUT_VOICES) & set(TRAINED_VOICES)
    assert FIRST_SEED >= HELD_OUT_SEED


def test_spoken_questions_are_answered_from_the_picture() -> None:
    tasks = set()
    for seed in range(80):
        rng = random.Random(seed)
        _, scene = render_scene(rng, *pick_size(rng))
        spoken = spoken_question(rng, scene, Split.SEEN)
        if spoken is None:
            continue
        text, exchange = spoken
        task, kind = spoken_sentences()[text]
        tasks.add(task)
        count = sum(item.kind == kind for item in scene.objects)
        if task == "count kind":
            assert exchange.answer == str(count)
        elif task == "exists":
            assert exchange.answer == ("Yes." if count else "No.")
    assert len(tasks) >= 6


def render(content: list[dict]) -> str:
    template = jinja2.Environment().from_string(chat_template())
    return template.render(messages=[{"role": "user", "content": content}], add_generation_prompt=True)


@pytest.mark.parametrize("with_picture", [False, True])
def test_heard_prompt_is_what_the_template_renders(maker: SoundSampleMaker, with_picture: bool) -> None:
    scene = render_scene(random.Random(1), 192, 224)[1] if with_picture else None
    sample = maker.heard_prompt("What is said?", np.zeros(20_000, np.float32), scene)
    content = [{"type": "image"}] if scene else []
    content += [{"type": "input_audio"}, {"type": "text", "text": "What is said?"}]
    wanted = render(content).replace("<|audio_pad|>", "<|audio_pad|>" * 26).replace("<|image_pad|>", "<|image_pad|>" * 42)
    assert maker.tokenizer.decode(sample.identifiers) == wanted


@pytest.mark.parametrize("layout", list(SoundLayout))
def test_packed_segments_read_like_conversations(maker: SoundSampleMaker, layout: SoundLayout) -> None:
    tokenizer = maker.tokenizer
    for seed in range(6):
        rng = random.Random(seed)
        scene = render_scene(rng, 192, 192)[1] if layout in WITH_PICTURE else None
        sample = maker.make_heard(rng, layout, scene)
        heard = sum(CHUNK_TOKENS * len(clip) for clip in sample.clips)
        assert sample.identifiers.count(maker.audio_token) == heard
        for segment, exchange in enumerate(sample.exchanges, start=1):
            own = [i for i, s in enumerate(sample.segments) if s in (0, segment)]
            text = tokenizer.decode(sample.identifiers[i] for i in own)
            label = tokenizer.decode(sample.labels[i] for i in own if sample.labels[i] != IGNORED)
            assert label == exchange.answer + "<|im_end|>"
            assert text.endswith(ASSISTANT + exchange.answer)
            assert text.count("<|audio_start|>") == text.count("<|audio_end|>") == 1
            steps = [sample.positions[i] for i in own if sample.identifiers[i] != maker.image_token]
            assert all(time == row == column for time, row, column in steps)
            audio = [sample.positions[i][0] for i in own if sample.identifiers[i] == maker.audio_token]
            assert audio == list(range(audio[0], audio[0] + len(audio)))
            if scene is None:
                assert [step[0] for step in steps] == list(range(steps[0][0], steps[0][0] + len(steps)))


@pytest.mark.parametrize("layout", [SoundLayout.SOUND, SoundLayout.SPOKEN_QUESTIONS])
def test_packed_questions_are_isolated(network: VisionLanguageModel, maker: SoundSampleMaker, layout: SoundLayout) -> None:
    """A packed question has the same logits as the question on its own."""
    samples, pixels, scenes = heard_samples(random.Random(4), 1, maker, layout=layout, offset=False)
    batch = collate(samples[:1], pixels, scenes)
    own = (batch.segments[0] == 0) | (batch.segments[0] == 2)
    alone = collate(samples[:1], pixels, scenes)
    if layout is SoundLayout.SPOKEN_QUESTIONS:
        alone.clips = [batch.clips[1]]
    for name in ("identifiers", "segments", "labels", "weights"):
        setattr(alone, name, getattr(batch, name)[:, own])
    alone.positions = batch.positions[:, :, own]
    with torch.no_grad():
        _, packed, _ = forward(network, batch, maker.image_token, maker.audio_token)
        _, single, _ = forward(network, alone, maker.image_token, maker.audio_token)
    trained = batch.labels[0] != IGNORED
    assert torch.allclose(packed[torch.from_numpy(own[trained])], single, atol=0.02)


@pytest.mark.parametrize("hears", [True, False])
def test_exported_ear_reads_back(network: VisionLanguageModel, tokenizer: Tokenizer, tmp_path: Path, hears: bool) -> None:
    model, projector = tmp_path / WeightType.F16.model_file, tmp_path / WeightType.F16.projector_file
    write_language_model(network.language, tokenizer, model, "test", WeightType.F16)
    write_projector(network.vision, network.audio if hears else None, projector, "test", WeightType.F16)
    fields = GGUFReader(str(projector)).fields
    assert ("clip.has_audio_encoder" in fields) == hears
    if hears:
        assert fields["clip.audio.projector_type"].contents() == "qwen3a"
        assert fields["clip.vision.projector_type"].contents() == "qwen3vl_merger"
    other = VisionLanguageModel(NANO)
    before = other.audio.flatten.weight.clone()
    load_gguf(other, tmp_path)
    after = other.audio.flatten.weight
    assert torch.allclose(after, network.audio.flatten.weight if hears else before, atol=1e-4)
    if hears:
        assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(other.audio.parameters(), network.audio.parameters(), strict=True))


def test_wav_holds_the_samples_exactly() -> None:
    sound = any_sound(random.Random(3), Murmur())
    with wave.open(io.BytesIO(base64.b64decode(wav_base64(sound.samples)))) as file:
        assert (file.getnchannels(), file.getframerate(), file.getsampwidth()) == (1, SAMPLE_RATE, 2)
        stored = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
    assert np.array_equal(stored, sound.samples)


def test_words_that_are_reported_together_share_their_time() -> None:
    assert align("on the left?", [(0, 0), (0, 5), (7, 300)], 500) == (("on", 0, 150), ("the", 150, 300), ("left", 300, 500))


@needs_espeak
def test_heard_rows_reach_the_server() -> None:
    """Every sound is sent as a WAV file, after the image that it asks about and before the question; the reply is scored."""
    bodies: list[dict] = []

    class Echo(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [{"message": {"content": "Red seven."}}]}).encode())

        def log_message(self, *_: object) -> None:
            pass

    asked = list(sound_questions(4))
    assert {question.row for question in asked} >= {"said", "hear", SPOKEN}
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = ChatClient(f"http://127.0.0.1:{server.server_port}", "key", "model")
        assert [question.reply(client) for question in asked] == ["Red seven."] * len(asked)
        server.shutdown()
    for question, body in zip(asked, bodies, strict=True):
        parts = body["messages"][-1]["content"]
        kinds = ["image_url"] * (question.row == SPOKEN) + ["input_audio"] + ["text"] * bool(question.question)
        assert [part["type"] for part in parts] == kinds
        (audio,) = (part["input_audio"] for part in parts if part["type"] == "input_audio")
        assert audio["format"] == "wav" and base64.b64decode(audio["data"])[:4] == b"RIFF"


@needs_espeak
def test_every_voice_speaks() -> None:
    for voice in (*TRAINED_VOICES, *HELD_OUT_VOICES):
        said = LiveSpeech([voice]).sentence(random.Random(1), "Where is the heart?")
        assert [word for word, _, _ in said.words] == ["Where", "is", "the", "heart"]
        assert 0.4 * SAMPLE_RATE < len(said.samples) < 3 * SAMPLE_RATE
        assert said.words[-1][2] == len(said.samples)


@needs_espeak
def test_cache_gives_back_what_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookout_training.audio_speech.TRAINED_VOICES", ("en-us", "en+f2"))
    monkeypatch.setattr("lookout_training.audio_speech.VOICE_TURNS", 1)
    build_cache(tmp_path)
    cache = CachedSpeech(tmp_path)
    rng = random.Random(0)
    assert [said.words[0][0] for said in cache.separately(rng, ["red", "seven"])] == ["red", "seven"]
    assert 2 <= len(cache.phrase(rng).words) <= 3
    assert words_of("Where is the ring?") == [word for word, _, _ in cache.sentence(rng, "Where is the ring?").words]


def test_generation_hears(maker: SoundSampleMaker) -> None:
    """The text generated after a sound depends on the sound, alone or in a batch."""
    torch.manual_seed(0)
    network = VisionLanguageModel(NANO).eval()  # With large weights; otherwise the last token repeats itself.
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    rng = np.random.default_rng(0)
    prompts = [maker.heard_prompt("What is said?", 0.3 * rng.standard_normal(count).astype(np.float32)) for count in (9_000, 20_000)]
    end = maker.tokenizer["<|im_end|>"]
    options = {"limit": 6, "half": False, "audio_token": maker.audio_token}
    together = generate(network, prompts, None, end, maker.image_token, **options)
    alone = [generate(network, [prompt], None, end, maker.image_token, **options)[0] for prompt in prompts]
    assert together == alone
    prompts[0].clips[0] = prompts[0].clips[0][:, :, ::-1].copy()
    assert generate(network, prompts[:1], None, end, maker.image_token, **options)[0] != alone[0]
