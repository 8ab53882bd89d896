"""Command line: python -m lookout_training <command>."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

TRAINING_DIRECTORY = Path(__file__).resolve().parent.parent
MODEL_DIRECTORY = TRAINING_DIRECTORY.parent / "models" / "lookout-nano"


def build_parser() -> argparse.ArgumentParser:
    """Options of every command."""
    run_directory = Path(os.environ.get("LOOKOUT_TRAINING_DIR", Path.home() / "lookout-training"))
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--run-dir", type=Path, default=run_directory, help="checkpoints and logs; default $LOOKOUT_TRAINING_DIR or ~/lookout-training"
    )
    shared.add_argument("--config", default="nano", choices=("nano", "small"))
    parser = argparse.ArgumentParser(prog="python -m lookout_training", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    preview = commands.add_parser("preview", help="contact sheet of the world", parents=[shared])
    preview.add_argument("--output", type=Path, default=Path("preview.png"))
    preview.add_argument("--seed", type=int, default=1)

    tokenizer = commands.add_parser("tokenizer", help="train the tokenizer; a new one makes every checkpoint useless", parents=[shared])
    tokenizer.add_argument("--output", type=Path, default=TRAINING_DIRECTORY / "lookout_training" / "tokenizer.json")

    stage1 = commands.add_parser("stage1", help="train the vision tower with dense heads", parents=[shared])
    stage1.add_argument("--minutes", type=float, default=40.0, help="planned training time, pauses not counted")
    stage1.add_argument("--batch", type=int, default=24, help="pictures per step")
    stage1.add_argument("--learning-rate", type=float, default=1e-3)
    stage1.add_argument("--decay", type=float, default=0.45, help="share of the time over which the learning rate falls")
    stage1.add_argument("--report-seconds", type=float, default=90.0)

    audio = commands.add_parser("audio", help="train the audio tower on what is heard; needs espeak-ng", parents=[shared])
    audio.add_argument("--minutes", type=float, default=20.0, help="planned training time, pauses not counted")
    audio.add_argument("--batch", type=int, default=48, help="clips per step")
    audio.add_argument("--learning-rate", type=float, default=1e-3)
    audio.add_argument("--decay", type=float, default=0.45, help="share of the time over which the learning rate falls")
    audio.add_argument("--threads", type=int, default=1)
    audio.add_argument("--language", type=Path, default=MODEL_DIRECTORY, help="exported files whose word embeddings the tower shall speak")
    audio.add_argument("--report-seconds", type=float, default=90.0)

    stage2 = commands.add_parser("stage2", help="train the whole network on questions", parents=[shared])
    stage2.add_argument("--minutes", type=float, default=75.0, help="planned training time, pauses not counted")
    stage2.add_argument("--batch", type=int, default=32, help="pictures per step, of all processes")
    stage2.add_argument("--processes", type=int, default=1, help="that share the threads and the batch; each takes memory of its own")
    stage2.add_argument("--no-compile", action="store_true", help="without a C++ compiler, or to try something for a minute")
    stage2.add_argument("--learning-rate", type=float, default=1e-3)
    stage2.add_argument("--decay", type=float, default=0.45, help="share of the time over which the learning rate falls")
    stage2.add_argument("--audio-dir", type=Path, default=run_directory, help="where the `audio` command left its tower and speech; without them the network stays deaf")
    stage2.add_argument("--more-minutes", type=float, help="planned training time from here on, instead of --minutes in all")
    stage2.add_argument("--new-ear", action="store_true", help="take the tower of the `audio` command again, instead of the checkpoint's")
    stage2.add_argument("--from-gguf", type=Path, help="without a checkpoint: begin with the exported files in this folder instead of stage1.pt")
    stage2.add_argument("--report-seconds", type=float, default=170.0)

    stored = argparse.ArgumentParser(add_help=False)
    stored.add_argument("--type", default="f16", choices=("q8_0", "f16"), help="what the matrices are stored as")

    mix = commands.add_parser("mix", help="average a checkpoint with exported weights", parents=[shared])
    mix.add_argument("--checkpoint", type=Path, help="default: stage2.pt of the run folder")
    mix.add_argument("--with-gguf", type=Path, default=MODEL_DIRECTORY, help="exported files in this folder")
    mix.add_argument("--share", type=float, default=0.85, help="of the checkpoint")
    mix.add_argument("--output", type=Path, required=True, help="checkpoint for export and parity")

    export = commands.add_parser(
        "export",
        help="make a checkpoint the model of a folder: write the pair of GGUF files, name them in the card there, remove a pair of another type",
        parents=[shared, stored],
    )
    export.add_argument("--output", type=Path, default=MODEL_DIRECTORY)
    export.add_argument("--checkpoint", type=Path, help="default: stage2.pt of the run folder")
    export.add_argument("--random", action="store_true", help="random weights, to try the loading of the files")
    export.add_argument("--model-version", default="0")

    server = argparse.ArgumentParser(add_help=False)
    server.add_argument("--base-url", default="http://127.0.0.1:8080")
    server.add_argument("--api-key", default=os.environ.get("LOOKOUT_API_KEY", ""))
    server.add_argument("--model", default="service-mk1.5")

    parity = commands.add_parser("parity", help="compare the running server with PyTorch", parents=[shared, stored, server])
    parity.add_argument("--checkpoint", type=Path, help="what was exported; default: stage2.pt of the run folder")
    parity.add_argument("--random", action="store_true", help="the random weights of export --random")
    parity.add_argument("--prompts", type=int, default=20)
    parity.add_argument("--sounds", type=int, default=10, help="needs espeak-ng; not asked of a network without an ear")

    evaluate = commands.add_parser("evaluate", help="accuracy through the running server; needs no PyTorch", parents=[server])
    evaluate.add_argument("--pictures", type=int, default=100)
    evaluate.add_argument("--shifted", type=int, default=40, help="pictures of the shifted world")
    shifts = ("fonts", "colours", "objects", "jpeg")  # Those of the shifted world.
    evaluate.add_argument("--shifts", nargs="*", choices=(*shifts, "shades"), default=shifts, help="what is shifted there; without a word nothing; default: all but shades")
    evaluate.add_argument("--charts", type=int, default=50)
    evaluate.add_argument("--clips", type=int, default=100)
    evaluate.add_argument("--tools", type=int, default=40, help="prompts with tools, three requests each")
    evaluate.add_argument("--sounds", type=int, default=100, help="needs espeak-ng; 0 for a model that does not hear")
    evaluate.add_argument("--concurrency", type=int, default=1)
    evaluate.add_argument("--json", type=Path, help="also write the figures here")
    evaluate.add_argument("--rows", nargs="*", help="ask these rows of the table only")
    evaluate.add_argument("--show-errors", type=int, default=0, metavar="N", help="print the first N wrong answers of each row")

    decisions = commands.add_parser("decisions", help="labelled examples of decisions, to fit and to check `lookout calibrate` with; needs no PyTorch")
    decisions.add_argument("--output", type=Path, required=True, help="folder for a folder of each world")
    decisions.add_argument("--pictures", type=int, default=100, help="to check with")
    decisions.add_argument("--shifted", type=int, default=100, help="pictures of the shifted world, to check with")
    decisions.add_argument("--fit", type=int, default=0, help="pictures to fit temperatures with")

    detections = commands.add_parser("detections", help="pictures with the boxes of what is on them, to fit and to check `lookout calibrate` with; needs no PyTorch")
    detections.add_argument("--output", type=Path, required=True, help="folder for a folder of each world")
    for world in ("plain", "shifted", "hard", "empty"):
        detections.add_argument(f"--{world}", type=int, default=0, help=f"pictures of the world {world}")
    detections.add_argument("--first", type=int, default=0, help="the first picture of each world: others have other seeds")
    return parser


def main() -> None:
    """Runs one command; modules are imported late so that `evaluate` needs no PyTorch."""
    arguments = build_parser().parse_args()
    if arguments.command == "preview":
        from .preview import write_contact_sheet

        write_contact_sheet(arguments.output, seed=arguments.seed)
    elif arguments.command == "stage1":
        from . import stage1

        stage1.run(arguments)
    elif arguments.command == "audio":
        from . import audio_stage

        audio_stage.run(arguments)
    elif arguments.command == "stage2":
        from . import stage2

        stage2.run(arguments)
    elif arguments.command == "mix":
        from . import mix

        mix.run(arguments)
    elif arguments.command == "export":
        from . import export

        export.run(arguments)
    elif arguments.command == "parity":
        from . import parity

        parity.run(arguments)
    elif arguments.command == "evaluate":
        from . import evaluate

        evaluate.run(arguments)
    elif arguments.command == "decisions":
        from . import decision_set

        decision_set.run(arguments)
    elif arguments.command == "detections":
        from . import detection_set

        detection_set.run(arguments)
    elif arguments.command == "tokenizer":
        from .config import CONFIGS
        from .corpus import corpus
        from .tokenizer import TOKENIZER_FILE, Tokenizer, merge_count, train_merges

        vocabulary = CONFIGS[arguments.config].vocabulary
        tokenizer = Tokenizer(train_merges(corpus(), merge_count(vocabulary)), vocabulary)
        tokenizer.save(arguments.output)
        print(f"{len(tokenizer.merges)} merges written to {arguments.output}; default place: {TOKENIZER_FILE}")


if __name__ == "__main__":
    main()
