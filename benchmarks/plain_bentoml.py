"""Our model in BentoML's own batching runner, without our coalescing and our contract."""

from typing import Any

import bentoml
from bentoml.models import BentoModel

from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, load_models


@bentoml.service(traffic={"timeout": 60})
class PlainRunner:
    """Scores what BentoML gathers."""

    encoder, classifier = BentoModel(f"{ENCODER_TAG}:latest"), BentoModel(f"{CLASSIFIER_TAG}:latest")

    def __init__(self) -> None:
        self.model = load_models(self.encoder, self.classifier)

    @bentoml.api(batchable=True, max_batch_size=32)
    def score(self, texts: list[str]) -> list[Any]:
        """Levels and language of each text."""
        return [list(severity) for severity in self.model.score(texts)]


@bentoml.service(traffic={"timeout": 60})
class PlainService:
    """One call to the runner for each request."""

    runner = bentoml.depends(PlainRunner)

    @bentoml.api
    async def predict(self, text: str) -> list[Any]:
        """Levels and language of a text."""
        (found,) = await self.runner.to_async.score([text])
        return found
