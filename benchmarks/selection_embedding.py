"""wordllama finds skills by the meaning of words: `selection_embedding.py`. Runs in an environment of its own.

`index` takes texts; `rank` takes queries and answers with the numbers of the nearest texts, their cosines, and the
seconds that it took.
"""

import importlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trpc_process import serve


class Embedding:
    """The model that is inside the package, and the texts that it has seen."""

    def __init__(self) -> None:
        package: Any = importlib.import_module("wordllama")
        self._numpy: Any = importlib.import_module("numpy")
        self._model: Any = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
        self._texts: Any = None

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the request says."""
        match request:
            case {"do": "index", "texts": texts}:
                begin = time.perf_counter()
                self._texts = self._model.embed(texts, norm=True)
                return {"seconds": time.perf_counter() - begin}
            case {"do": "rank", "queries": queries, "limit": limit}:
                begin = time.perf_counter()
                answers = [self._nearest(query, limit) for query in queries]
                return {"answers": answers, "seconds": time.perf_counter() - begin}
            case _:
                raise ValueError(f"cannot do {request}")

    def _nearest(self, query: str, limit: int) -> Sequence[tuple[int, float]]:
        cosines = self._texts @ self._model.embed([query], norm=True)[0]
        best = self._numpy.argsort(-cosines, kind="stable")[:limit]
        return [(int(number), float(cosines[number])) for number in best]


if __name__ == "__main__":
    serve(lambda: Embedding().answer)
