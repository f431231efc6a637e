"""Print what is said in audio files: `transcribe.py AUDIO... [--language en] [--model DIRECTORY]`."""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

MISSING = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("audio", nargs="+")
    parser.add_argument("--language")
    parser.add_argument("--model", default=os.environ.get("WHISPER_MODEL", ""))
    given = parser.parse_args()
    try:
        whisper: Any = import_module("faster_whisper")
    except ImportError:
        print("this skill needs the Python package faster-whisper: pip install faster-whisper", file=sys.stderr)
        return MISSING
    if not (Path(given.model) / "model.bin").is_file():
        source = "https://huggingface.co/Systran/faster-whisper-small"
        print(f"this skill needs a model; download {source} and set WHISPER_MODEL to its directory", file=sys.stderr)
        return MISSING
    model = whisper.WhisperModel(given.model, device="cpu", compute_type="int8")
    for audio in given.audio:
        if not Path(audio).is_file():
            print(f"{audio}: no such file", file=sys.stderr)
            return 1
        segments, _ = model.transcribe(audio, language=given.language)
        for segment in segments:
            print(f"[{segment.start:.1f} - {segment.end:.1f}] {segment.text.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
