"""Decides what will be written, and whether it can be, before a byte is written.

`plan` is the two-point merge, `plan_sum` any weights that sum to 1, `plan_path` a family along checkpoints
of growing coverage. What only a full read can show (NaN, infinity, unequal integer buffers) is refused by
`cef_env.merge.run` while it streams. Does not need torch.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cef_env.errors import UserError
from cef_env.merge.checkpoint import FLOATS, ITEM_BYTES, Checkpoint, TensorInfo, open_checkpoint
from cef_env.merge.compatibility import check, tokenizer_warnings
from cef_env.merge.space import check_output

if TYPE_CHECKING:
    from cef_env.merge.stochastic import Noise

FORMAT = 4
"""Raised whenever the arithmetic or the layout of the output changes, so that no old output passes as new."""

MAX_OUTPUTS = 256
"""Outputs of one merge: each holds an open file while it is written."""

OUT_DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "float64": "F64"}
ROUNDS = ("nearest", "stochastic")

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Output:
    """One checkpoint to be written: theta = sum_i weights[i] * sources[i]."""

    name: str
    """Directory: `alpha_1.5`, `coverage_4`, `weights_0.5_0.7_-0.2`."""
    weights: tuple[float, ...]
    """One per source, sum 1."""
    position: float | None = None
    """Alpha or coverage; None for a free sum."""


@dataclass(frozen=True)
class Plan:
    """What `run` will write; made by the functions of this module only."""

    sources: tuple[Checkpoint, ...]
    """The first is low, the last is high: it gives config, layout and, unless chosen, the tokenizer."""
    labels: tuple[str, ...]
    """What the sources are called: low and high, or the names of their directories."""
    outputs: tuple[Output, ...]
    axis: str
    """What `Output.position` is: alpha, coverage, or weights."""
    shards: tuple[tuple[str, tuple[str, ...]], ...]
    """File and names of its tensors, in order."""
    out_dtype: str | None = None
    """safetensors name of the dtype of every float tensor written; None keeps each tensor's own."""
    round: str = "nearest"
    seed: int = 0
    max_shard: int | None = None
    tokenizer_from: str = "high"
    warnings: tuple[str, ...] = ()
    """What is unusual but allowed, one line each."""
    free_bytes: int | None = None
    """Free space where the outputs go, when the plan was told where."""

    @property
    def low(self) -> Checkpoint:
        return self.sources[0]

    @property
    def high(self) -> Checkpoint:
        return self.sources[-1]

    @property
    def alphas(self) -> tuple[float, ...]:
        """Positions of the outputs, ascending; empty for free sums."""
        return tuple(output.position for output in self.outputs if output.position is not None)

    def dtype_out(self, info: TensorInfo) -> str:
        """Stored dtype of the merged tensor."""
        return self.out_dtype if self.out_dtype and info.dtype in FLOATS else info.dtype

    def nbytes_out(self, info: TensorInfo) -> int:
        return info.numel * ITEM_BYTES[self.dtype_out(info)]

    @property
    def bytes_per_output(self) -> int:
        """Bytes of weights in one output."""
        return sum(self.nbytes_out(info) for info in self.high.tensors.values())

    @property
    def bytes_total(self) -> int:
        """Bytes of weights in all outputs."""
        return self.bytes_per_output * len(self.outputs)

    def noise(self, output: Output, tensor: str, start: int) -> "Noise | None":
        """Of stochastic rounding, for the elements of a tensor from `start` on, which begins a block."""
        if self.round == "nearest":
            return None
        from cef_env.merge.kernel import BLOCK
        from cef_env.merge.stochastic import Noise

        return Noise(self.seed, output.name, tensor, start // BLOCK)

    def recipe(self, output: Output) -> dict[str, Any]:
        """Everything that determines the files of `output`: equal recipes give equal bytes."""
        recipe: dict[str, Any] = {
            "format": FORMAT,
            "weights": list(output.weights),
            "fingerprints": [source.fingerprint for source in self.sources],
            "out_dtype": self.out_dtype,
            "max_shard": self.max_shard,
            "tokenizer_from": self.tokenizer_from,
            "round": self.round,
        }
        return {**recipe, "seed": self.seed} if self.round == "stochastic" else recipe

    @property
    def hash(self) -> str:
        """16 hex digits over every recipe and the shard layout; names the partial directories."""
        text = json.dumps([[self.recipe(output) for output in self.outputs], self.shards], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def plan(
    low: StrPath,
    high: StrPath,
    alphas: Iterable[float],
    out_dtype: str | None = None,
    round: str = "nearest",
    max_shard: int | None = None,
    *,
    seed: int = 0,
    tokenizer_from: str = "high",
    out: StrPath | None = None,
) -> Plan:
    """Check that `low` and `high` can be merged at `alphas`; write nothing.

    `low`, `high`: Hugging Face directories with safetensors weights, single file or sharded.
    `alphas`: any finite numbers; 0 gives `low`, 1 gives `high`. `out_dtype`: None, or one of float32,
    bfloat16, float16, float64 for every float tensor of the outputs. `round`: nearest, or stochastic with
    `seed`. `max_shard`: bytes of one shard; None keeps the shards of `high`. `tokenizer_from`: low or high.
    `out`: where `run` will write; free space is then checked, too.

    Raises `UserError` with one line that names the tensor or file, both values and the remedy.
    """
    outputs = [Output(f"alpha_{a:g}", (1.0 - a, a), a) for a in positions(alphas, "alpha")]
    options: dict[str, Any] = {"out_dtype": out_dtype, "round": round, "max_shard": max_shard, "seed": seed}
    return _plan((low, high), ("low", "high"), outputs, "alpha", out, tokenizer_from, **options)


def plan_sum(
    checkpoints: Sequence[StrPath],
    weights: Iterable[Sequence[float]],
    *,
    out: StrPath | None = None,
    tokenizer_from: str = "high",
    **options: Any,
) -> Plan:
    """theta = sum_i w_i theta_i for every vector of `weights`; each has one per checkpoint and sums to 1.

    Weights may have any sign. Config and layout are those of the last checkpoint. Options, errors: `plan`.
    """
    outputs = []
    for vector in (tuple(float(w) + 0.0 for w in vector) for vector in weights):
        text = ", ".join(f"{w:g}" for w in vector)
        if len(vector) != len(checkpoints):
            raise UserError(
                f"weights ({text}): {len(vector)} for {len(checkpoints)} checkpoints; give one each"
            )
        if not all(map(math.isfinite, vector)):
            raise UserError(f"weights ({text}): not finite; give finite numbers")
        if abs(math.fsum(vector) - 1.0) > 1e-9:
            raise UserError(f"weights ({text}): sum to {math.fsum(vector):.10g}; they must sum to 1")
        outputs.append(Output("weights_" + "_".join(f"{w:g}" for w in vector), vector))
    labels = [os.path.basename(os.path.abspath(path)) for path in checkpoints]
    labels = labels if len(set(labels)) == len(labels) else [str(path) for path in checkpoints]
    return _plan(checkpoints, labels, outputs, "weights", out, tokenizer_from, **options)


def plan_path(
    checkpoints: Mapping[float, StrPath],
    coverages: Iterable[float],
    *,
    out: StrPath | None = None,
    tokenizer_from: str = "high",
    **options: Any,
) -> Plan:
    """theta(k) on the piecewise linear path through checkpoints trained at coverages k1 < k2 < ...

    Between two checkpoints it is their average; below the first and above the last it goes straight on
    along the first and the last segment. `checkpoints`: coverage -> directory; give the checkpoint of
    unlimited coverage a finite place of your choice. The paper moves between two ends only; this family
    with its corners is ours. Options, errors: `plan`.
    """
    ks = sorted(float(k) for k in checkpoints)
    if len(ks) < 2 or not all(map(math.isfinite, ks)):
        raise UserError(f"coverages {ks}: a path needs two or more checkpoints at finite coverages")
    outputs = [Output(f"coverage_{k:g}", path_weights(ks, k), k) for k in positions(coverages, "coverage")]
    for output in outputs:
        if not all(map(math.isfinite, output.weights)):
            raise UserError(f"coverages {ks}: two are too close to reach {output.name}; move them apart")
    paths = [path for _, path in sorted(checkpoints.items())]
    labels = [f"k={k:g}" for k in ks]
    return _plan(paths, labels, outputs, "coverage", out, tokenizer_from, **options)


def path_weights(ks: Sequence[float], k: float) -> tuple[float, ...]:
    """Weights of the checkpoints at ascending places `ks` for the point `k` of their path."""
    right = next((i for i in range(1, len(ks) - 1) if k < ks[i]), len(ks) - 1)
    alpha = (k - ks[right - 1]) / (ks[right] - ks[right - 1])
    return tuple({right - 1: 1.0 - alpha, right: alpha}.get(i, 0.0) for i in range(len(ks)))


def _plan(
    paths: Sequence[StrPath],
    labels: Sequence[str],
    outputs: Sequence[Output],
    axis: str,
    out: StrPath | None,
    tokenizer_from: str,
    *,
    out_dtype: str | None = None,
    round: str = "nearest",
    max_shard: int | None = None,
    seed: int = 0,
) -> Plan:
    if not outputs:
        raise UserError(f"no {axis} was given; give at least one, such as 0.5")
    if len(paths) < 2:
        raise UserError("a merge needs two or more checkpoints")
    if out_dtype is not None and out_dtype not in OUT_DTYPES:
        raise UserError(f"out_dtype {out_dtype!r} is unknown; choose one of {', '.join(OUT_DTYPES)}")
    if round not in ROUNDS:
        raise UserError(f"round {round!r} is unknown; choose nearest or stochastic")
    if max_shard is not None and max_shard < 1:
        raise UserError(f"max_shard {max_shard}: give a number of bytes above 0")
    if tokenizer_from not in ("low", "high"):
        raise UserError(f"tokenizer_from {tokenizer_from!r} is unknown; choose low or high")
    sources = [open_checkpoint(path) for path in paths]
    check(labels, sources, mixed=out_dtype is not None)
    dtype = None if out_dtype is None else OUT_DTYPES[out_dtype]
    warnings = list(tokenizer_warnings(labels, [source.path for source in sources], tokenizer_from))
    for i, source in enumerate(sources):
        same = [label for label, s in zip(labels[:i], sources[:i]) if s.fingerprint == source.fingerprint]
        if same:
            warnings.append(
                f"{same[0]} and {labels[i]} have the same fingerprint: nothing changes between them"
            )
    made = Plan(
        tuple(sources), tuple(labels), tuple(outputs), axis, (), dtype, round, seed, max_shard,
        tokenizer_from, tuple(warnings),
    )  # fmt: skip
    made = replace(made, shards=_layout(made))
    return made if out is None else replace(made, free_bytes=check_output(made, out))


def _layout(made: Plan) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The shards of high, or as many as `max_shard` needs; a larger tensor has a shard of its own."""
    high = made.high
    if made.max_shard is None:
        return tuple((file, tuple(info.name for info in high.in_file(file))) for file in high.files)
    groups: list[list[str]] = [[]]
    held = 0
    for info in high.tensors.values():
        size = made.nbytes_out(info)
        if groups[-1] and held + size > made.max_shard:
            groups.append([])
            held = 0
        groups[-1].append(info.name)
        held += size
    count = len(groups)
    names = [f"model-{i:05d}-of-{count:05d}.safetensors" for i in range(1, count + 1)]
    return tuple(zip(names if count > 1 else ["model.safetensors"], map(tuple, groups)))


def positions(values: Iterable[float], what: str) -> list[float]:
    """Ascending, finite, distinct also as `{:g}`, no more than `MAX_OUTPUTS`."""
    numbers = [float(value) + 0.0 for value in values]  # + 0.0 turns -0.0 into 0.0
    for value in numbers:
        if not math.isfinite(value):
            raise UserError(f"{what} {value} is not finite; give finite numbers")
    if len(numbers) > MAX_OUTPUTS:
        raise UserError(f"{len(numbers)} values of {what}; one merge writes at most {MAX_OUTPUTS}")
    seen: dict[str, float] = {}
    for value in numbers:
        name = f"{what}_{value:g}"
        if name in seen:
            raise UserError(f"{what}s {seen[name]!r} and {value!r} would both be written to {name}; drop one")
        seen[name] = value
    return sorted(numbers)
