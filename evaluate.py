"""Score a labelled file with the served model, over HTTP, and print the table of the model card.

    make evaluate                  the test part of the corpus; also checks that the served answers are the model's own
    make evaluate DATA=file.csv    any labelled file, as described below

The file is CSV in UTF-8 with a header line. Needed are the columns `text`, `depression` and `anxiety`; `id`,
`variety` and `kind` are used where they are there, others are ignored. Every line that cannot be scored is named,
and then nothing is scored.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import bentoml
import httpx
import numpy as np
from tqdm import tqdm

import evaluation
from corpus import CorpusError, Row, read_corpus
from local_server import bentoml_serve, running
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, load_models

CLIENTS = 8
START_SECONDS = 120
ANSWER_SECONDS = 60


def main(command_line: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="a CSV file; without, the test part of the corpus")
    parser.add_argument("--url", help="of a running service; without, one is started and stopped again")
    arguments = parser.parse_args(command_line)
    try:
        rows = rows_of(arguments.data)
    except (CorpusError, FileNotFoundError) as error:
        raise SystemExit(str(error)) from None
    if arguments.url:
        predicted = served_levels(arguments.url, rows)
    else:
        with service() as url:
            predicted = served_levels(url, rows)
    print(evaluation.table(evaluation.evaluate(rows, predicted)))
    if arguments.data is None:
        compare_with_stored_model(rows, predicted)


def rows_of(data: Path | None) -> list[Row]:
    """The rows of the file `data`, or the test part of the corpus."""
    if data is None:
        return [row for row in read_corpus() if row.split == "test"]
    rows = read_corpus(data, needed=("text", "depression", "anxiety"))
    if not rows:
        raise CorpusError(f"{data.name}: no text below the header")
    return rows


def served_levels(url: str, rows: Sequence[Row]) -> evaluation.Levels:
    """What the service at `url` answers to each text, int64 (len(rows), 2).

    Raises SystemExit, with the row's id and the service's own message, when it refuses one.
    """
    with httpx.Client(base_url=url, timeout=ANSWER_SECONDS) as client, ThreadPoolExecutor(CLIENTS) as pool:

        def ask(row: Row) -> tuple[int, int]:
            answer = client.post("/predict", json={"text": row.text})
            body = answer.json()
            if answer.status_code != 200:
                raise SystemExit(f"{row.id}: {answer.status_code}, {body['message']}")
            return body["depression_score"], body["anxiety_score"]

        answers = list(tqdm(pool.map(ask, rows), total=len(rows), desc="scoring", unit="text"))
    return np.array(answers, dtype=np.int64).reshape(-1, 2)


def compare_with_stored_model(rows: Sequence[Row], served: evaluation.Levels) -> None:
    """Score `rows` without the service; raises SystemExit when any answer differs from the `served` one."""
    model = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    differing = [
        row.id
        for row, levels in zip(tqdm(rows, desc="comparing", unit="text"), served, strict=True)
        if (model.assess([row.text]).levels[0] != levels).any()
    ]
    if differing:
        raise SystemExit(f"Served and stored model differ on {len(differing)} texts: {', '.join(differing)}")
    print(f"All {len(rows)} served answers are those of the stored model.")


@contextmanager
def service() -> Iterator[str]:
    """Serve on a free local port until the caller is done; yields the URL."""
    with running(bentoml_serve("service:SeverityService"), {}) as server:
        if not server.wait_for("/health", START_SECONDS):
            raise SystemExit("The service did not start; `make serve` shows why.")
        yield server.url


if __name__ == "__main__":
    main()
