"""Measure our service beside its peers on this machine and write `benchmarks/report.md` with two plots.

`make bench` runs it. All services are up at once and are loaded in turns, so that a slow minute of the machine
meets them all. Takes about a quarter of an hour on two cores.
"""

import json
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import bentoml
import matplotlib as mpl
import torch
from tqdm import tqdm
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from benchmarks.load import Load, best_seconds, load
from corpus import read_corpus
from local_server import PORT, LocalServer, bentoml_serve, running
from model_store.graph import INSTRUCTION_SETS, instruction_sets, usable_cores
from model_store.severity import SeverityModel
from model_store.store import CLASSIFIER_TAG, ENCODER_TAG, load_models
from training.e5_weights import build_tokenizer, bundled_file, keep_arabic_and_latin, read_e5_file
from training.encoding import LOWER_LAYERS

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
PEERS_PYTHON = HERE / ".venv" / "bin" / "python"
START_SECONDS = 300
TURNS = 3
SECONDS = 6.0
PEER_CLIENTS = (1, 32)
CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WORDS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
TEXTS = [row.text for row in read_corpus() if row.split == "train"][::20][:512]
HISTORY = [{"depression_score": 1, "anxiety_score": 2, "date": f"2026-03-{day:02}"} for day in range(1, 11)]


def main() -> None:
    model = load_models(bentoml.models.get(ENCODER_TAG), bentoml.models.get(CLASSIFIER_TAG))
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        whole, half = write_encoder(Path(scratch) / "e5", 12), write_encoder(Path(scratch) / "e5-half", LOWER_LAYERS)
        services = {
            "ours": stack.enter_context(served("ours", "/predict", bentoml_serve("service:SeverityService"), "text")),
            "BentoML, plain batching runner": stack.enter_context(
                served("bentoml", "/predict", bentoml_serve("benchmarks.plain_bentoml:PlainService"), "text")
            ),
            "infinity-emb, bf16": stack.enter_context(infinity("e5", whole)),
            f"infinity-emb, bf16, {LOWER_LAYERS} layers": stack.enter_context(infinity("e5-half", half)),
            "FastAPI + transformers": stack.enter_context(plain_fastapi(whole)),
        }
        ours, start_seconds = services["ours"].url, services["ours"].start_seconds
        peers = measure_peers(services, model)
        alerts = load(ours.replace("/predict", "/alerts"), [{"history": HISTORY}], 8, SECONDS)
        clients = {
            n: load(ours, [{"text": text} for text in TEXTS], n, SECONDS)
            for n in tqdm(CLIENTS, desc="clients", unit="load")
        }
        memory = services["ours"].server.memory_mib()
    costs = {"batch": cost_of_batches(model), "words": cost_of_words(model)}
    facts = {"start": start_seconds, "memory": memory, "alerts": alerts, "clients": clients}
    plot(clients, costs)
    (HERE / "report.md").write_text(report(peers, facts, costs), encoding="utf-8")
    print((HERE / "report.md").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Service:
    """A service under measurement: its process, where texts go and in what body."""

    server: LocalServer
    url: str
    body: Callable[[str], dict[str, Any]]
    start_seconds: float


def infinity(name: str, folder: Path) -> Any:
    command = [
        str(PEERS_PYTHON.with_name("infinity_emb")),
        "v2",
        "--model-id",
        str(folder),
        "--served-model-name",
        name,
    ]
    command += ["--port", PORT, "--host", "127.0.0.1", "--engine", "torch", "--device", "cpu", "--dtype", "bfloat16"]
    return served(name, "/embeddings", [*command, "--no-bettertransformer"], "input", {"model": name})


def plain_fastapi(folder: Path) -> Any:
    command = [
        str(PEERS_PYTHON),
        "-m",
        "uvicorn",
        "benchmarks.plain_fastapi:app",
        "--port",
        PORT,
        "--log-level",
        "error",
    ]
    return served("fastapi", "/embed", command, "text", ENCODER=str(folder))


@contextmanager
def served(
    label: str, path: str, command: list[str], field: str, extra: dict[str, Any] | None = None, **environment: str
) -> Iterator[Service]:
    """Run `command` until the caller is done; up when `/health` (or `/livez`) answers 200."""
    before = time.perf_counter()
    with running(command, environment) as server:
        if not server.wait_for("/livez" if label == "bentoml" else "/health", START_SECONDS):
            raise SystemExit(f"{label} did not become healthy in time")
        seconds = time.perf_counter() - before
        yield Service(server, server.url + path, lambda text: {field: text, **(extra or {})}, seconds)


def write_encoder(folder: Path, layers: int) -> Path:
    """The first `layers` of the encoder as the peers read it."""
    file = keep_arabic_and_latin(read_e5_file(bundled_file()))
    model = BertModel(BertConfig(**{**file.config, "num_hidden_layers": layers}), add_pooling_layer=False)
    model.load_state_dict({name: torch.tensor(values) for name, values in file.weights.items()}, strict=False)
    model.save_pretrained(folder)
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=build_tokenizer(file), model_max_length=512, **special)
    tokenizer.save_pretrained(folder)
    # Older versions of transformers do not know the name that newer ones give the class.
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def measure_peers(services: dict[str, Service], model: SeverityModel) -> dict[str, dict[str, Any]]:
    """Throughput and latency of each service at each of PEER_CLIENTS, in turns; beside them our runner in-process."""
    found: dict[str, dict[int, list[Load]]] = {name: {n: [] for n in PEER_CLIENTS} for name in services}
    bare: list[float] = []
    in_process: list[float] = []
    for service in services.values():
        load(service.url, [service.body(text) for text in TEXTS], 2, 2)
    for _ in tqdm(range(TURNS), desc="turns", unit="turn"):
        for name, service in services.items():
            bodies = [service.body(text) for text in TEXTS]
            for n in PEER_CLIENTS:
                found[name][n].append(load(service.url, bodies, n, SECONDS))
        some = TEXTS[:128]
        bare.append(median(best_seconds(lambda text=text: model.score([text]), 1) for text in some))  # type: ignore[misc]
        seconds = sum(best_seconds(lambda at=at: model.score(TEXTS[at : at + 32]), 1) for at in range(0, 256, 32))  # type: ignore[misc]
        in_process.append(256 / seconds)
    rows: dict[str, dict[str, Any]] = {
        name: {
            "per_second": median(one.per_second for one in loads[32]),
            "p50": median(one.percentile_ms(50) for one in loads[1]),
            "p99": median(one.percentile_ms(99) for one in loads[32]),
            "refused": sum(sum(one.statuses.values()) - one.statuses[200] for one in loads[32]),
        }
        for name, loads in found.items()
    }
    rows["our runner, in-process"] = {
        "per_second": median(in_process),
        "p50": median(bare) * 1000,
        "p99": None,
        "refused": 0,
    }
    return rows


def cost_of_batches(model: SeverityModel) -> dict[int, float]:
    """Milliseconds a text over the size of a batch."""
    return {n: best_seconds(lambda n=n: model.score(TEXTS[:n]), 3) / n * 1000 for n in tqdm(BATCHES, desc="batches")}  # type: ignore[misc]


def cost_of_words(model: SeverityModel) -> dict[int, float]:
    """Milliseconds of a lone text over its words."""
    words = " ".join(TEXTS).split()
    texts = {n: " ".join(words[:n]) for n in WORDS}
    return {n: best_seconds(lambda n=n: model.score([texts[n]]), 5) * 1000 for n in tqdm(WORDS, desc="words")}  # type: ignore[misc]


def plot(clients: dict[int, Load], costs: dict[str, dict[int, float]]) -> None:
    """Throughput and p99 over clients; time over batch size and text length."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    axes[0].plot(list(clients), [one.per_second for one in clients.values()], marker="o")
    axes[0].set(xscale="log", xlabel="clients", ylabel="answers of 200 a second", ylim=(0, None))
    axes[1].plot(list(clients), [one.percentile_ms(99) for one in clients.values()], marker="o")
    axes[1].set(xscale="log", yscale="log", xlabel="clients", ylabel="99th percentile of the latency, ms")
    figure.savefig(HERE / "clients.png", dpi=120)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, (name, label) in zip(
        axes, (("batch", "texts in a batch"), ("words", "words of a lone text")), strict=True
    ):
        axis.plot(list(costs[name]), list(costs[name].values()), marker="o")
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="ms a text")
    figure.savefig(HERE / "costs.png", dpi=120)


def report(peers: dict[str, dict[str, Any]], facts: dict[str, Any], costs: dict[str, dict[int, float]]) -> str:
    """The report as Markdown."""
    ours, bare = peers["ours"], peers["our runner, in-process"]
    words = sum(len(text.split()) for text in TEXTS) / len(TEXTS)
    ours_versions = ", ".join(f"{name} {version(name)}" for name in ("bentoml", "onnxruntime", "tokenizers", "numpy"))
    peers_versions = ", ".join((HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()[1:])
    lines = [
        "# Benchmark",
        "",
        "Written by `make bench`; measured on one machine in one run, services in turns, medians of "
        f"{TURNS} turns of {SECONDS:g} s. Requests carry one text each, of {len(TEXTS)} texts of the corpus, "
        f"{words:.0f} words on average. The load generator runs on the same cores.",
        "",
        f"Machine: {machine()}",
        "",
        f"Versions: {ours_versions}; peers: {peers_versions}.",
        "",
        "| | answers a second, 32 clients | ours is | p50 ms, 1 client | p99 ms, 32 clients | not 200 |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in peers.items():
        ratio = ours["per_second"] / row["per_second"] if row["per_second"] else float("inf")
        p99 = "" if row["p99"] is None else f"{row['p99']:.0f}"
        figures = [f"{row['per_second']:.1f}", f"{ratio:.2f} x", f"{row['p50']:.1f}", p99]
        lines.append(f"| {name} | {' | '.join(figures)} | {row['refused']} |")
    lines += [
        "",
        "BentoML's plain runner serves our whole model. The other peers compute vectors alone: all 12 layers of the",
        "encoder, or where marked the 6 that ours reads. Ours computes the 6 layers, the classifier and the language,",
        "and checks and answers by the contract.",
        "",
        "- Of the throughput of our runner in-process, batches of 32, the service keeps "
        f"{ours['per_second'] / bare['per_second']:.0%}.",
        f"- With one client the p50 is {ours['p50'] / bare['p50']:.2f} times that of the bare model.",
        f"- `/alerts`, 10 entries, 8 clients: {facts['alerts'].per_second:.0f} answers a second.",
        f"- From `bentoml serve` to a `/health` of 200: {facts['start']:.1f} s. All processes after the whole run: "
        f"{facts['memory']:.0f} MiB resident.",
        "",
        "## How cost grows",
        "",
        "| clients | answers a second | p50 ms | p99 ms | refused (503) | other |",
        "|---|---|---|---|---|---|",
    ]
    for n, one in facts["clients"].items():
        other = sum(one.statuses.values()) - one.statuses[200] - one.statuses[503]
        lines.append(
            f"| {n} | {one.per_second:.1f} | {one.percentile_ms(50):.0f} | {one.percentile_ms(99):.0f} "
            f"| {one.statuses[503]} | {other} |"
        )
    lines += ["", "![throughput and latency over clients](clients.png)", ""]
    for name, label in (("batch", "texts in a batch"), ("words", "words of a lone text")):
        lines += [
            f"| {label} | {' | '.join(map(str, costs[name]))} |",
            f"|---|{'---|' * len(costs[name])}",
            f"| ms a text | {' | '.join(f'{ms:.1f}' for ms in costs[name].values())} |",
            "",
        ]
    return "\n".join([*lines, "![time over batch size and text length](costs.png)", ""])


def machine() -> str:
    """Processor, cores and the instruction sets that matter."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    present = instruction_sets() or ["none of " + ", ".join(INSTRUCTION_SETS)]
    return f"{names[0] if names else platform.processor()}, {usable_cores()} cores, {', '.join(present)}"


if __name__ == "__main__":
    main()
