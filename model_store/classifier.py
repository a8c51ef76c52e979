"""The baseline classifier: one support vector machine with RBF kernel per target, on embeddings."""

import zipfile
from pathlib import Path

import numpy as np
import skops.io
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from model_store import TARGETS

CLASSIFIER_NAME = "svm-rbf"
CLASSIFIER_FILE = "classifier.skops"
LEVELS = (0, 1, 2, 3)
_GRID = {"svc__C": [3.0, 10.0], "svc__gamma": [0.002, 0.004]}
_FOLDS = 4

# All that a stored classifier may consist of; a file that holds anything else is not loaded.
ALLOWED_TYPES = {
    "numpy.dtype",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.svm._classes.SVC",
}


class UntrustedModelError(ValueError):
    """A stored classifier holds something other than the two expected pipelines."""


class SeverityClassifier:
    """Embeddings in, severity levels out.

    Attributes:
        pipelines: scaler and SVM of each target, in the order of `TARGETS`.
    """

    name = CLASSIFIER_NAME

    def __init__(self, pipelines: dict[str, Pipeline]) -> None:
        self.pipelines = pipelines

    @classmethod
    def fit(
        cls, embeddings: NDArray[np.float32], levels: NDArray[np.int64], groups: NDArray[np.int64], seed: int
    ) -> "SeverityClassifier":
        """Choose C and gamma by grouped cross-validation, then fit on everything.

        Args:
            embeddings: float32 of shape (texts, dimensions).
            levels: int64 of shape (texts, 2), columns in the order of `TARGETS`.
            groups: int64 of shape (texts,); texts of one group never stand on both sides of a fold.
            seed: of the folds.
        """
        # Imported here, since serving never fits and would wait over a second for them.
        from sklearn.metrics import cohen_kappa_score, make_scorer
        from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold

        folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=seed)
        kappa = make_scorer(cohen_kappa_score, weights="quadratic")
        pipelines = {}
        for column, target in enumerate(TARGETS):
            search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), _GRID, scoring=kappa, cv=folds, n_jobs=-1)
            pipelines[target] = search.fit(embeddings, levels[:, column], groups=groups).best_estimator_
        return cls(pipelines)

    def predict(self, embeddings: NDArray[np.float32]) -> NDArray[np.int64]:
        """Levels 0..3, int64 of shape (texts, 2), columns in the order of `TARGETS`."""
        return np.stack([self.pipelines[target].predict(embeddings) for target in TARGETS], axis=1).astype(np.int64)

    @property
    def hyper_parameters(self) -> dict[str, dict[str, float]]:
        """C and gamma of each target."""
        return {
            target: {"C": pipeline["svc"].C, "gamma": pipeline["svc"].gamma}
            for target, pipeline in self.pipelines.items()
        }

    def save(self, folder: Path) -> None:
        """Write the pipelines to `folder` in the skops format, which holds no executable code."""
        skops.io.dump(self.pipelines, folder / CLASSIFIER_FILE)

    @classmethod
    def load(cls, folder: Path) -> "SeverityClassifier":
        """Read what `save` wrote.

        Raises FileNotFoundError when the file is missing and UntrustedModelError when it holds
        anything but a scaler and an SVM for each target.
        """
        path = folder / CLASSIFIER_FILE
        if not path.is_file():
            raise FileNotFoundError(f"no {CLASSIFIER_FILE} in the stored model; train again")
        if not zipfile.is_zipfile(path):
            raise UntrustedModelError(f"{CLASSIFIER_FILE} is not in the skops format")
        if refused := set(skops.io.get_untrusted_types(file=path)) - ALLOWED_TYPES:
            raise UntrustedModelError(f"{CLASSIFIER_FILE} holds types that are not allowed: {sorted(refused)}")
        pipelines = skops.io.load(path, trusted=sorted(ALLOWED_TYPES))
        if not _is_expected(pipelines):
            raise UntrustedModelError(f"{CLASSIFIER_FILE} does not hold a scaler and an SVM for each of {TARGETS}")
        return cls(pipelines)


def _is_expected(pipelines: object) -> bool:
    return (
        isinstance(pipelines, dict)
        and tuple(pipelines) == TARGETS
        and all(
            isinstance(pipeline, Pipeline) and [type(step) for _, step in pipeline.steps] == [StandardScaler, SVC]
            for pipeline in pipelines.values()
        )
    )
