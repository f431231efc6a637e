"""Download questions of the GAIA benchmark into a folder that `gaia.py --data` reads.

    HF_TOKEN=hf_... python examples/gaia_download.py gaia-level1 --level 1 --with-files

The dataset is on Hugging Face for those who accept its terms; make a token at https://huggingface.co/settings/tokens.
A download that was interrupted continues: files that are there already are not fetched again.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2

DATASET = "gaia-benchmark/GAIA"
ROWS_URL = "https://datasets-server.huggingface.co"
FILES_URL = "https://huggingface.co"
PAGE = 100


def main(arguments: list[str], environment: dict[str, str]) -> None:
    """Download what the arguments say; ends the program with a message if something fails."""
    parser = argparse.ArgumentParser(description="Download questions of GAIA.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--level", choices=["1", "2", "3", "all"], default="1")
    parser.add_argument("--split", choices=["validation", "test"], default="validation")
    parser.add_argument("--with-files", action="store_true", help="also download the files of the questions")
    parser.add_argument("--rows-url", default=ROWS_URL)
    parser.add_argument("--files-url", default=FILES_URL)
    given = parser.parse_args(arguments)
    token = environment.get("HF_TOKEN", "")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    given.folder.mkdir(parents=True, exist_ok=True)
    with httpx2.Client(headers=headers, timeout=60, follow_redirects=True) as client:
        rows = download_rows(client, given.rows_url, f"2023_level{given.level}".replace("levelall", "all"), given.split)
        if given.with_files:
            names = [Path(row["file_name"]).name for row in rows if row.get("file_name")]
            for name in names:
                download_file(
                    client, f"{given.files_url}/datasets/{DATASET}/resolve/main/2023/{given.split}", given.folder / name
                )
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    (given.folder / "metadata.jsonl").write_text(lines, "utf-8")
    print(f"{len(rows)} questions are in {given.folder}.")


def download_rows(client: httpx2.Client, url: str, config: str, split: str) -> list[dict[str, Any]]:
    """All rows of a part of the dataset, page by page."""
    rows: list[dict[str, Any]] = []
    while True:
        asked = {"dataset": DATASET, "config": config, "split": split, "offset": len(rows), "length": PAGE}
        found = check(client.get(f"{url}/rows", params=asked)).json()
        rows += [entry["row"] for entry in found["rows"]]
        if not found["rows"] or len(rows) >= found["num_rows_total"]:
            return rows


def download_file(client: httpx2.Client, url: str, target: Path) -> None:
    """Download a file, unless it is there; it gets its name when it is complete."""
    if target.is_file():
        return
    part = target.with_name(f"{target.name}.part")
    with client.stream("GET", f"{url}/{target.name}") as response, part.open("wb") as out:
        check(response)
        for chunk in response.iter_bytes():
            out.write(chunk)
    part.replace(target)


def check(response: httpx2.Response) -> httpx2.Response:
    """The response, if it is one that can be used."""
    if response.status_code in (401, 403):
        terms = f"https://huggingface.co/datasets/{DATASET}"
        raise SystemExit(f"Hugging Face refuses it: accept the terms at {terms} and set HF_TOKEN to your token")
    if response.status_code != 200:
        raise SystemExit(f"{response.url} answered with status {response.status_code}")
    return response


if __name__ == "__main__":
    try:
        main(sys.argv[1:], dict(os.environ))
    except httpx2.TransportError as error:
        sys.exit(f"the server cannot be reached: {error}")
