"""Saving both models to the BentoML model store, and bringing them back."""

import hashlib
import tomllib
from collections.abc import Mapping
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

import bentoml

ENCODER_TAG = "severity-encoder"
CLASSIFIER_TAG = "severity-classifier"

_ROOT = Path(__file__).parents[1]
_MODULE = "model_store.store"
_PACKAGES = ("torch", "transformers", "tokenizers", "scikit-learn", "skops", "numpy")
LICENCES = {"code": "Apache-2.0", "corpus": "CC-BY-4.0", "encoder": "MIT"}

# `/health` scores these; what the model answered right after training is kept with it.
KNOWN_TEXTS = ("اليوم طبخنا الرز وتفرجنا على المباراة", "لم أعد أريد أن أستيقظ أبدا")


def project_version() -> str:
    """The one version number of the project, from pyproject.toml."""
    with (_ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def code_version() -> str:
    """Project version and a hash of everything that shapes a trained model: code and corpus."""
    digest = hashlib.sha256()
    sources = [_ROOT / "train.py", _ROOT / "corpus" / "corpus.csv", *sorted((_ROOT / "model_store").glob("*.py"))]
    for path in sources:
        digest.update(path.name.encode("utf-8") + b"\0" + path.read_bytes())
    return f"{project_version()}+{digest.hexdigest()[:12]}"


def has_model_of(version: str) -> bool:
    """Whether the store's newest classifier was trained by code of `version`."""
    try:
        return bool(bentoml.models.get(CLASSIFIER_TAG).info.metadata.get("code_version") == version)
    except bentoml.exceptions.NotFound:
        return False


def save_models(encoder: Any, classifier: Any, metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Save an `Encoder` and a `SeverityClassifier`; returns their tags.

    `metadata` is kept with the classifier, beside package versions, licences and the encoder's tag.
    """
    versions = {name: package_version(name) for name in _PACKAGES}
    encoder_facts = {"encoder": encoder.name, "dimensions": encoder.dimensions, "licence": LICENCES["encoder"]}
    with _create(ENCODER_TAG, "transformers", versions, encoder_facts) as stored_encoder:
        encoder.save(Path(stored_encoder.path))
    facts = {**metadata, "packages": versions, "licences": LICENCES, "encoder_tag": str(stored_encoder.tag)}
    with _create(CLASSIFIER_TAG, "scikit-learn", versions, facts) as stored_classifier:
        classifier.save(Path(stored_classifier.path))
    return str(stored_encoder.tag), str(stored_classifier.tag)


def load_models(stored_encoder: bentoml.Model, stored_classifier: bentoml.Model) -> Any:
    """A `SeverityModel` from two stored models.

    Raises ValueError when the classifier was not trained on this encoder.
    """
    from model_store.classifier import SeverityClassifier
    from model_store.encoder import Encoder
    from model_store.severity import SeverityModel

    expected = str(stored_classifier.info.metadata["encoder_tag"])
    if str(stored_encoder.tag) != expected:
        raise ValueError(f"{stored_classifier.tag} was trained on {expected}, not on {stored_encoder.tag}; train again")
    encoder = Encoder.from_pretrained(stored_encoder.path, str(stored_encoder.info.metadata["encoder"]))
    return SeverityModel(encoder, SeverityClassifier.load(Path(stored_classifier.path)))


def _create(name: str, framework: str, versions: Mapping[str, str], metadata: Mapping[str, Any]) -> Any:
    return bentoml.models.create(
        name,
        module=_MODULE,
        context=bentoml.models.ModelContext(
            framework_name=framework, framework_versions={framework: versions[framework]}
        ),
        metadata=dict(metadata),
    )


if __name__ == "__main__":
    raise SystemExit(0 if has_model_of(code_version()) else 1)
