"""Runs an ONNX graph on the CPU: one input on all cores, many inputs side by side on one core each."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

Inputs = Mapping[str, NDArray[np.float32]]


class Graph:
    """A graph with one output, loaded twice: for a lone input, and for one of many.

    An input is always computed by itself, never padded to or stacked with another one, so an answer
    cannot depend on its neighbours. On two cores two inputs side by side take less time than one after the
    other on both.
    """

    def __init__(self, path: Path) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._alone, self._beside_others = _session(path, cores), _session(path, 1)
        self._pool = ThreadPoolExecutor(cores)
        self.inputs = [one.name for one in self._alone.get_inputs()]

    def run(self, inputs: Sequence[Inputs]) -> list[NDArray[np.float32]]:
        """The output of each of `inputs`, in order."""
        if len(inputs) == 1:
            return [self._alone.run(None, inputs[0])[0]]
        return list(self._pool.map(lambda one: self._beside_others.run(None, one)[0], inputs))


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
