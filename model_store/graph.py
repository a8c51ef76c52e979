"""Runs an ONNX graph on the CPU: one input on all cores, many inputs side by side on one core each."""

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

# Beyond, a text is too small to share; run more services instead.
MOST_CORES = 8

# What products of 8-bit matrices run on, the fastest last; ONNX Runtime takes the best one that is there.
INSTRUCTION_SETS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8")

Inputs = Mapping[str, NDArray[np.float32]]


class Graph:
    """A graph with one output, loaded twice: for a lone input, and for one of many.

    An input is always computed by itself, never padded to or stacked with another one, so an answer
    cannot depend on its neighbours. On two cores two inputs side by side take less time than one after the
    other on both.
    """

    def __init__(self, path: Path) -> None:
        cores = usable_cores()
        self._alone, self._beside_others = _session(path, cores), _session(path, 1)
        self._pool = ThreadPoolExecutor(cores)
        self.inputs = [one.name for one in self._alone.get_inputs()]

    def run(self, inputs: Sequence[Inputs]) -> list[NDArray[np.float32]]:
        """The output of each of `inputs`, in order."""
        if len(inputs) == 1:
            return [self._alone.run(None, inputs[0])[0]]
        return list(self._pool.map(lambda one: self._beside_others.run(None, one)[0], inputs))


def usable_cores() -> int:
    """The cores that this process may use, by its affinity and its container's quota; 8 at most."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # another system, or no quota: "max"
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        cores = min(cores, math.ceil(int(quota) / int(period)))
    return min(cores, MOST_CORES)


def instruction_sets() -> list[str]:
    """Which of INSTRUCTION_SETS this processor has; empty where /proc/cpuinfo does not tell."""
    with suppress(OSError):
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
        return [name for name in INSTRUCTION_SETS if name in flags]
    return []


def _session(path: Path, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # A waiting thread that spins would take the core from the one that answers HTTP.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Lengths differ from text to text: memory planned for one would be kept for all.
    options.enable_mem_pattern = False
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
