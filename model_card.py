"""The model card: what was trained, on what, how good it is and what it must not be used for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import evaluation
from corpus import VARIETIES, Row
from model_store import TARGETS
from model_store.classifier import CLEAR

CARD_FILE = "model_card.md"
PICTURES = ("confusion.png", "varieties.png")
TRIED_MODELS = Path(__file__).parent / "benchmarks" / "tried_models.md"

_CARD = """# Model card: severity of depression and anxiety in Arabic text

A research prototype, not a medical device. It reads one Arabic text and says two levels, depression and anxiety,
0 none to 3 severe. Code version {code_version}.

## Intended use, and misuse

For research on how the mood in a person's writing moves over time, with that person's informed consent, and for
trying out services with made-up texts. **Not** for diagnosis, triage, emergency detection, hiring, insurance,
moderation, policing, or any decision about a person. A level says what the wording of one text shows under a
labelling rubric, not what the writer suffers from. A low level is no sign of safety.

## Model

- Encoder: `{embedding_model}`, its lower layers; those of the bundled encoder carry the mean of four changes
  (`training/adapter.npz`), each taught by all training texts that this project's own corpus had at the time but
  another fourth. A word is the mean of its pieces' vectors.
- Classifier: `{classifier}`. {recipe}. On the bundled encoder it learned from each text as layers
  read it that were taught without that text; its own layer started from the mean of what the four teachings made of the
  encoder's next layer.
- Decision: the odds of each target's levels are multiplied by the factors above, against false alarms and for texts
  torn between none and severe. A level with more than {clear} of the probability is taken; else the mean of the levels
  weighed by their probabilities, rounded, halves up. A long text is read in windows, and the most severe one counts.
- Trained in {training_seconds} s on {training_texts} texts; corpus SHA-256 `{corpus_sha256}`.

## Data

{data}

The project's own corpus is synthetic: written and labelled by language models under the project's rubric (see the data
card in `corpus/`), not by people in distress, and no clinician has reviewed it.

## Evaluation

On {test} held-back texts; in the project's own corpus they have other voices and subjects than the training part. In
brackets 95 % intervals, by {resamples} bootstrap resamplings of the texts. The intervals speak of texts like these,
not of real diaries; one without width says only that no error was seen, and of n texts up to 3 / n may still be wrong.

{table}

{sentences}

![confusion matrices]({confusion})
![kappa of every variety]({varieties})

## Known failures

- A state that is over, another person's state or a quoted line can be taken for the writer's own: "my brother has
  not left his bed for a month and says he wants to die" may be given a level above 0.
- A negation far from its word, and irony told with a straight face: "what a wonderful week, I slept two hours".
- A soft wish to be gone without any usual word for it can be missed: "I have put everyone's things in order".
- In a long text, one small place far from the heavy words can be missed: "on the way my cousin told me of her mornings:
  the heart like a drum, no air, the certainty that this is death; then we bought guavas".
- Words of severe states in harmless places: "I died of fear on the roller coaster, let us go again".
- Slang, spelling and code-switching that its writers, language models, did not think of; languages other than Arabic
  are scored, but were never learned.

{tried}"""


def write_model_card(
    folder: Path,
    report: Mapping[str, Any],
    facts: Mapping[str, Any],
    rows: Sequence[Row],
) -> None:
    """Write `model_card.md` to `folder`, beside the pictures it shows.

    `report` is one of `evaluation.evaluate` with what `evaluation.sentences` needs; `rows` the whole corpus.
    """
    card = _CARD.format(
        **facts,
        recipe=", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts["hyper_parameters"].items()),
        test=sum(row.split == "test" for row in rows),
        data=_data_table(rows),
        resamples=evaluation.RESAMPLES,
        table=evaluation.table(report),
        sentences=evaluation.sentences(report),
        confusion=PICTURES[0],
        varieties=PICTURES[1],
        clear=f"{CLEAR * 100:.0f} %",
        tried=TRIED_MODELS.read_text(encoding="utf-8"),
    )
    (folder / CARD_FILE).write_text(card, encoding="utf-8")


def _data_table(rows: Sequence[Row]) -> str:
    lines = [
        "| variety | train | test | hard | depression 0 / 1 / 2 / 3 | anxiety 0 / 1 / 2 / 3 |",
        "|---|---|---|---|---|---|",
    ]
    for variety in VARIETIES:
        found = [row for row in rows if row.variety == variety]
        splits = Counter(row.split for row in found)
        levels = [
            " / ".join(str(sum(getattr(row, target) == level for row in found)) for level in range(4))
            for target in TARGETS
        ]
        hard = sum(row.is_hard for row in found)
        lines.append(f"| {variety} | {splits['train']} | {splits['test']} | {hard} | {levels[0]} | {levels[1]} |")
    return "\n".join(lines)
