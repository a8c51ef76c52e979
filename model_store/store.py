"""Saving both models to the BentoML model store, and bringing them back."""

import hashlib
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

import bentoml

ENCODER_TAG = "severity-encoder"
CLASSIFIER_TAG = "severity-classifier"

_ROOT = Path(__file__).parents[1]
_MODULE = "model_store.store"
_PACKAGES = ("torch", "onnx", "onnxruntime", "tokenizers", "numpy")

# `/health` scores these; what the model answered right after training is kept with it.
KNOWN_TEXTS = ("اليوم طبخنا الرز وتفرجنا على المباراة", "لم أعد أريد أن أستيقظ أبدا")


def project_version() -> str:
    """The one version number of the project, from pyproject.toml."""
    with (_ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def code_version() -> str:
    """Project version and a hash of everything that shapes a trained model: code, corpus and pins."""
    digest = hashlib.sha256()
    sources = [
        _ROOT / name
        for name in ("train.py", "evaluation.py", "model_card.py", "requirements.txt", "requirements-dev.txt")
    ]
    sources += [
        *sorted(_ROOT.glob("corpus/*.csv")),
        *sorted(_ROOT.glob("corpus/*.py")),
        *sorted(_ROOT.glob("model_store/*.py")),
        *sorted(_ROOT.glob("training/*.py")),
        *sorted(_ROOT.glob("training/*.npz")),
    ]
    for path in sources:
        digest.update(path.name.encode("utf-8") + b"\0" + path.read_bytes())
    return f"{project_version()}+{digest.hexdigest()[:12]}"


def has_model_of(version: str) -> bool:
    """Whether the store's newest two models belong together and were trained by code of `version`."""
    try:
        encoder, facts = bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG).info.metadata
    except bentoml.exceptions.NotFound:
        return False
    return (facts.get("code_version"), facts.get("encoder_tag")) == (version, str(encoder.tag))


def save_models(
    encoder: Path, classifier: Path, metadata: Mapping[str, Any], card: Sequence[Path] = ()
) -> tuple[str, str]:
    """Save the files of the folders `encoder` and `classifier` as two models; returns their tags.

    `metadata`, which holds the `licences` of code, corpus and encoder, is kept with the classifier,
    beside package versions, the encoder's tag and copies of the files of the model `card`.
    """
    versions = {name: package_version(name) for name in _PACKAGES}
    encoder_facts = {"encoder": metadata["embedding_model"], "licence": metadata["licences"]["encoder"]}
    encoder_tag = _save(ENCODER_TAG, [*encoder.iterdir()], versions, encoder_facts)
    facts = {**metadata, "packages": versions, "encoder_tag": encoder_tag}
    return encoder_tag, _save(CLASSIFIER_TAG, [*classifier.iterdir(), *card], versions, facts)


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
    encoder = Encoder.load(Path(stored_encoder.path), str(stored_encoder.info.metadata["encoder"]))
    return SeverityModel(encoder, SeverityClassifier.load(Path(stored_classifier.path)))


def _save(name: str, files: Sequence[Path], versions: Mapping[str, str], metadata: Mapping[str, Any]) -> str:
    framework = "onnxruntime"
    context = bentoml.models.ModelContext(framework_name=framework, framework_versions={framework: versions[framework]})
    with bentoml.models.create(name, module=_MODULE, context=context, metadata=dict(metadata)) as stored:
        for file in files:
            shutil.copy(file, stored.path)
    return str(stored.tag)


if __name__ == "__main__":
    raise SystemExit(0 if has_model_of(code_version()) else 1)
