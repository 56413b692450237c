"""What a merge does to the weights: how far apart the sources are, and what rounding left of each output.

Works from a plan alone, before or without writing: it reads a fixed sample of the sources (every 64th
block of 32,768 elements of each tensor, at least one; tensors of one block whole), or everything, and
computes the merged values as `run` would. The sample depends on names and shapes only, so a resumed merge
records the same numbers. Does *not* look for NaN; `run` does, in all elements.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cef_env.merge.checkpoint import FLOATS, ITEM_BYTES
from cef_env.merge.kernel import BLOCK, STORED, Chunk, widen
from cef_env.merge.measuring import count_octaves, measure_output, measure_sources
from cef_env.merge.planning import Plan
from cef_env.merge.reading import Reader, spread

STRIDE = 64
"""Every so many blocks one is in the sample."""

_LAYER = re.compile(r"\.(?:layers|h|blocks|block)\.(\d+)\.")
_BUCKETS = (
    "0",
    "1",
    "2-3",
    "4-7",
    "8-15",
    "16-31",
    "32-63",
    "64-127",
    "128-255",
    "256-511",
    "512-1023",
    ">=1024",
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Report:
    """Statistics of a plan. Everything is JSON; shares and sums are over the float tensors."""

    sampled: dict[str, Any]
    """How many elements were read, of how many, and the rule."""
    delta: dict[str, Any]
    """last - first source: rms in all, by layer and by tensor, and its size in units in the last place."""
    outputs: dict[str, dict[str, Any]]
    """By name of the output: `effective_weights`, `effective_alpha` (of the last of two sources),
    `frac_unchanged`, `frac_equal_low`, `frac_equal_high`, `warnings`."""

    @property
    def warnings(self) -> list[str]:
        """What rounding did to the outputs, when it did enough to matter, one line each."""
        return [line for output in self.outputs.values() for line in output["warnings"]]


def stats(plan: Plan, exact: bool = False, progress: Progress | None = None) -> Report:
    """Measure `plan` on a sample, or with `exact` on every element; writes nothing.

    The effective weights are the least-squares solution of merged = sum_i w_i source_i with sum 1; for two
    sources that is effective_alpha = <merged - low, high - low> / ||high - low||^2. `progress(done, total)`
    is called with elements.
    """
    tasks = []
    for name, info in plan.high.tensors.items():
        if info.dtype in FLOATS:
            blocks = range(math.ceil(info.numel / BLOCK))
            chosen = blocks if exact else list(blocks)[len(blocks) % STRIDE // 2 :: STRIDE]
            tasks += [(name, i * BLOCK, min(BLOCK, info.numel - i * BLOCK)) for i in chosen]
    total = sum(count for _, _, count in tasks)
    sums: dict[str, _Sums] = {}
    done = 0
    with Reader(plan.sources) as reader:
        # In the order of the tasks, so that sums of floats do not depend on the threads.
        for (name, _, count), block in zip(tasks, spread(lambda task: _measure(plan, reader, *task), tasks)):
            sums[name] = sums[name].plus(block) if name in sums else block
            done += count
            if progress is not None:
                progress(done, total)
    return _report(plan, sums, exact)


@dataclass
class _Sums:
    """Sums over elements of one tensor; m sources, n outputs."""

    elements: float
    unchanged: float
    """Elements that are equal in all sources."""
    base: float
    """||first||^2"""
    gram: np.ndarray
    """(m-1, m-1): <source_i - first, source_j - first>"""
    moved: np.ndarray
    """(n, m-1): <merged - first, source_j - first>"""
    equal: np.ndarray
    """(n, m): elements of the output that equal the source's, in the dtype that is written"""
    same: np.ndarray
    """(n,): elements that equal those of the output before it"""
    ulps: np.ndarray
    """Histogram of |last - first| in units in the last place, in `_BUCKETS`"""

    def plus(self, other: "_Sums") -> "_Sums":
        return _Sums(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def times(self, factor: float) -> "_Sums":
        return _Sums(*(getattr(self, name) * factor for name in self.__dataclass_fields__))


def _measure(plan: Plan, reader: Reader, name: str, start: int, count: int) -> _Sums:
    sources = reader.read(name, start, count)
    dtype = plan.dtype_out(plan.high.tensors[name])
    chunk = Chunk(sources, dtype)
    m, n = len(sources), len(plan.outputs)
    merged = chunk.merge_each(
        [output.weights for output in plan.outputs],
        [reader.output(i, count, dtype) for i in range(n)],
        [plan.noise(output, name, start) for output in plan.outputs],
    )
    wide = reader.output(n, m * count, "F64").reshape(m, count)
    for i, source in enumerate(sources):
        widen(source, wide[i])
    stored = wide
    if any(source.dtype != STORED[dtype] for source in sources):
        stored = reader.output(n + 1, m * count, "F64").reshape(m, count)
        for i in range(m):
            widen(chunk.source(i), stored[i])
    gram, moved, equal, same = np.empty((m - 1, m - 1)), np.empty((n, m - 1)), np.empty((n, m)), np.zeros(n)
    squared, unchanged = measure_sources(wide, gram)
    values, previous = (reader.output(n + 2 + i, count, "F64") for i in range(2))
    for i, (output, _) in enumerate(merged):
        widen(output, values)
        alike = measure_output(values, previous, wide, stored, moved[i], equal[i])
        same[i] = alike if i else 0
        values, previous = previous, values
    ulps = np.zeros(len(_BUCKETS))
    first, last = (chunk.source(i).view(f"u{ITEM_BYTES[dtype]}") for i in (0, m - 1))
    count_octaves(first, last, ulps)
    return _Sums(count, unchanged, squared, gram, moved, equal, same, ulps)


def _report(plan: Plan, sums: dict[str, _Sums], exact: bool) -> Report:
    read = sum(int(tensor.elements) for tensor in sums.values())
    # A tensor counts with its size, however much of it was sampled.
    scaled = {
        name: s.times(plan.high.tensors[name].numel / s.elements) for name, s in sums.items() if s.elements
    }
    total: _Sums | None = None
    layers: dict[str, _Sums] = {}
    for name, tensor in scaled.items():
        total = tensor if total is None else total.plus(tensor)
        found = _LAYER.search(name)
        if found:
            layers[found[1]] = layers[found[1]].plus(tensor) if found[1] in layers else tensor
    assert total is not None  # a plan has a float tensor
    rule = "all elements" if exact else (
        f"every {STRIDE}th block of {BLOCK} elements of each tensor, at least one; whole tensors of one block"
    )  # fmt: skip
    sampled = {"exact": exact, "elements": read, "of": round(total.elements), "rule": rule}
    delta = {
        **_rms(total),
        "by_layer": {layer: _rms(layers[layer]) for layer in sorted(layers, key=int)},
        "by_tensor": {name: _rms(tensor) for name, tensor in scaled.items()},
        "frac_by_ulps": dict(zip(_BUCKETS, (total.ulps / total.elements).tolist())),
    }
    return Report(sampled, delta, _outputs(plan, total))


def _rms(sums: _Sums) -> dict[str, float | None]:
    """Of last - first, and relative to the rms of the first."""
    squared = float(sums.gram[-1, -1])
    relative = math.sqrt(squared / sums.base) if sums.base > 0 else None
    return {"rms": math.sqrt(squared / sums.elements), "relative": relative}


def _outputs(plan: Plan, total: _Sums) -> dict[str, dict[str, Any]]:
    # Sources that are equal leave the weights undetermined.
    determined = np.linalg.matrix_rank(total.gram, hermitian=True) == len(total.gram) and total.gram.any()
    solved = np.linalg.solve(total.gram, total.moved.T).T if determined else None
    unchanged = float(total.unchanged / total.elements)
    outputs: dict[str, dict[str, Any]] = {}
    for i, output in enumerate(plan.outputs):
        weights = None if solved is None else [1.0 - math.fsum(solved[i]), *map(float, solved[i])]
        equal = [float(count / total.elements) for count in total.equal[i]]
        outputs[output.name] = {
            "effective_weights": weights,
            "effective_alpha": weights[1] if weights and len(weights) == 2 else None,
            "frac_unchanged": unchanged,
            "frac_equal_low": equal[0],
            "frac_equal_high": equal[-1],
            "warnings": list(_notes(plan, i, weights, equal, unchanged)),
        }
        share = float(total.same[i] / total.elements)
        if i and _of_changed(share, unchanged) > 0.9:
            before = plan.outputs[i - 1].name
            line = f"{output.name} is nearly the same model as {before}: {share:.1%} of the weights are equal"
            outputs[output.name]["warnings"].append(line)
    return outputs


def _of_changed(share: float, unchanged: float) -> float:
    """`share` of all elements as a share of those in which the sources differ; 1 when they never do."""
    return (share - unchanged) / (1 - unchanged) if unchanged < 1 else 1.0


def _notes(
    plan: Plan, i: int, weights: list[float] | None, equal: list[float], unchanged: float
) -> list[str]:
    """What rounding did to one output, when it did enough to matter."""
    output = plan.outputs[i]
    if weights is None:
        return [f"{output.name}: some sources hold the same weights"]
    lines = []
    off = max(abs(e - w) for e, w in zip(weights, output.weights))
    if off > 0.02 * max(1.0, *map(abs, output.weights)):
        got = f"alpha {weights[1]:.4g}" if len(weights) == 2 else f"weights {[round(w, 4) for w in weights]}"
        lines.append(
            f"{output.name}: rounding makes its effective {got}; use out_dtype float32, wider inputs, "
            "or round stochastic"
        )
    for label, weight, share in zip(plan.labels, output.weights, equal):
        if weight != 1 and _of_changed(share, unchanged) > 0.5:
            lines.append(
                f"{output.name}: {share:.0%} of the weights equal those of {label}; this is nearly that model"
            )
    return lines
