"""Encoder and classifier as ONNX graphs of one window each.

Matrices are 8-bit integers. A weight matrix has one scale for each output; activations get one scale for each
row (token or word) as they come, so that a row's result does not depend on other rows. Sums of products are exact
integers: the same on every machine, with AVX2, AVX-512, VNNI or AMX. Weights use 7 of the 8 bits, because on
plain AVX2 the sum of two products of 8 bits would not fit its 16.
"""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_WEIGHT_STEPS = 63
_ROW_STEPS = 127
_ROW_ZERO = 128
_MICROSOFT = "com.microsoft"  # the operators that ONNX Runtime adds to the standard
_OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid(_MICROSOFT, 1)]
_IR_VERSION = 10

Weights = Mapping[str, NDArray[np.float32]]


class GraphBuilder:
    """An ONNX graph in the making. Every method adds to it and returns the name of what it added."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._numbers = count()
        # The zero of each row, made once: every matrix product of a graph has as many rows.
        self._row_zeros: str | None = None

    def constant(self, values: object) -> str:
        """A fixed tensor."""
        name = f"constant{next(self._numbers)}"
        self._constants.append(numpy_helper.from_array(np.array(values), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """The only output of an operator."""
        name = f"{operator}{next(self._numbers)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def linear(self, rows: str, weight: NDArray[np.float32], bias: NDArray[np.float32], gelu: bool = False) -> str:
        """`rows @ weight.T + bias` in 8-bit integers, with GELU on top if asked for.

        `weight` is (outputs, inputs) as in PyTorch.
        """
        integer_rows, row_scales = self._quantised(rows)
        scales = (np.maximum(np.abs(weight).max(axis=1), 1e-9) / _WEIGHT_STEPS).astype(np.float32)
        integers = np.round(weight / scales[:, None]).astype(np.int8).T
        products = self.add(
            "MatMulIntegerToFloat",
            *(integer_rows, self.constant(np.ascontiguousarray(integers)), self.constant(np.float32(1))),
            *(self.constant(scales), self.constant(np.uint8(_ROW_ZERO))),
            domain=_MICROSOFT,
        )
        scaled = self.add("Mul", products, self.add("Unsqueeze", row_scales, self.constant(np.array([-1]))))
        if gelu:
            return self.add("BiasGelu", scaled, self.constant(bias), domain=_MICROSOFT)
        return self.add("Add", scaled, self.constant(bias))

    def _quantised(self, rows: str) -> tuple[str, str]:
        """`rows` as uint8, and of each row the value of one step."""
        magnitudes = self.add("ReduceMax", self.add("Abs", rows), self.constant(np.array([-1])), keepdims=0)
        magnitudes = self.add("Max", magnitudes, self.constant(np.float32(1e-9)))
        scales = self.add("Mul", magnitudes, self.constant(np.float32(1 / _ROW_STEPS)))
        if self._row_zeros is None:
            zero = self.constant(np.array([_ROW_ZERO], dtype=np.uint8))
            self._row_zeros = self.add("Expand", zero, self.add("Shape", scales))
        return self.add("QuantizeLinear", rows, scales, self._row_zeros, axis=0), scales

    def layer_norm(self, rows: str, weight: NDArray[np.float32], bias: NDArray[np.float32], epsilon: float) -> str:
        """Layer normalisation (Ba et al. 2016) of each row."""
        scale, shift = self.constant(weight), self.constant(bias)
        return self.add("LayerNormalization", rows, scale, shift, axis=-1, epsilon=epsilon)

    def transformer_layer(self, rows: str, weights: Weights, heads: int, epsilon: float) -> str:
        """One layer of BERT (Devlin et al. 2019); `weights` by transformers' names within a layer."""
        attended = self.linear(self._attention(rows, weights, heads), *_pair(weights, "attention.output.dense"))
        rows = self.layer_norm(self.add("Add", rows, attended), *_pair(weights, "attention.output.LayerNorm"), epsilon)
        wide = self.linear(rows, *_pair(weights, "intermediate.dense"), gelu=True)
        narrow = self.linear(wide, *_pair(weights, "output.dense"))
        return self.layer_norm(self.add("Add", rows, narrow), *_pair(weights, "output.LayerNorm"), epsilon)

    def _attention(self, rows: str, weights: Weights, heads: int) -> str:
        """Scaled dot-product attention (Vaswani et al. 2017) of all rows to all rows."""
        names = [f"attention.self.{part}" for part in ("query", "key", "value")]
        parts = [_pair(weights, name) for name in names]
        dimensions = len(parts[0][1])
        per_head = dimensions // heads
        # The scale of the dot products is put into the query's weights.
        scales = [per_head**-0.5, 1.0, 1.0]
        weight = np.concatenate([weight * scale for (weight, _), scale in zip(parts, scales, strict=True)])
        bias = np.concatenate([bias * scale for (_, bias), scale in zip(parts, scales, strict=True)])
        mixed = self.linear(rows, weight.astype(np.float32), bias.astype(np.float32))
        by_part = self.add("Reshape", mixed, self.constant(np.array([-1, 3, heads, per_head])))
        by_head = self.add("Transpose", by_part, perm=[1, 2, 0, 3])
        query, key, value = (self.add("Gather", by_head, self.constant(np.int64(part)), axis=0) for part in range(3))
        seen = self.add("Softmax", self.add("MatMul", query, self.add("Transpose", key, perm=[0, 2, 1])), axis=-1)
        together = self.add("Transpose", self.add("MatMul", seen, value), perm=[1, 0, 2])
        return self.add("Reshape", together, self.constant(np.array([-1, dimensions])))

    def write(self, path: Path, inputs: Mapping[str, int], output: str) -> None:
        """Write the graph: `inputs` with the length of their rows, all float32 of any number of rows."""
        graph = helper.make_graph(
            self._nodes,
            path.stem,
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", length])
                for name, length in inputs.items()
            ],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self._constants,
        )
        onnx.save_model(helper.make_model(graph, opset_imports=_OPSETS, ir_version=_IR_VERSION), path)


def _pair(weights: Weights, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]
