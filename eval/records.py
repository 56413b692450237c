"""Members of a sweep, and one judged answer as one row of data. No judging, no sampling."""

from dataclasses import dataclass
from typing import Any

from cef_env.errors import UserError
from cef_env.judge.types import Outcome

MAX_ALPHA = 1e4
"""Weights a thousand times as far as anyone goes are noise, and figures cannot be drawn of them."""


@dataclass(frozen=True, slots=True)
class Member:
    """What gave an answer: the checkpoint at one alpha, or a control with a label of its own."""

    alpha: float | None = None
    """theta = alpha * high + (1 - alpha) * low: 0 is the low checkpoint, 1 the high one. None: a control."""
    label: str = ""
    """Name of a control; empty for an alpha."""

    def __post_init__(self) -> None:
        if (self.alpha is None) != bool(self.label):
            raise UserError(
                f"member alpha={self.alpha} label={self.label!r}: give an alpha or a label, not both"
            )
        if self.alpha is not None and not abs(self.alpha) <= MAX_ALPHA:
            raise UserError(
                f"alpha {self.alpha:g}: give a finite number from -{MAX_ALPHA:g} to {MAX_ALPHA:g}"
            )
        if self.label and not self.label.isprintable():
            raise UserError(f"member label {self.label!r}: use printable characters")

    @classmethod
    def parse(cls, text: str) -> "Member":
        """`1.25` is an alpha, anything else a label."""
        try:
            alpha = float(text)
        except ValueError:
            return cls(None, text.strip())
        return cls(alpha + 0.0)

    @property
    def name(self) -> str:
        """For people; different members have different names."""
        return self.label if self.alpha is None else f"alpha {short(self.alpha)}"

    @property
    def order(self) -> tuple[bool, float, str]:
        """Alphas first, ascending; then controls by label."""
        return self.alpha is None, self.alpha or 0.0, self.label


def short(alpha: float) -> str:
    """Six digits where they are all there is, otherwise every digit."""
    text = f"{alpha:g}"
    return text if float(text) == alpha else repr(alpha)


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer to one problem by one member, judged on the full suite."""

    problem_id: str
    split: str
    """Named set of problems, such as `hard`; statistics are per split."""
    alpha: float | None
    """Of the member; None for a control."""
    index: int
    """Number of the answer among those of this (split, member, problem), from 0."""
    outcome: Outcome
    coverage_reached: int = 0
    """The largest coverage level k with R_k = 1; 0 when there is none."""
    format_error: str | None = None
    """A `FormatErrorCause` value exactly when the outcome is FORMAT_ERROR."""
    program_sha256: str | None = None
    """Hash of the extracted program; None without one."""
    tokens: int = 0
    """Tokens that the answer took, over all turns."""
    tags: tuple[str, ...] = ()
    """Properties of the problem, for breaking results down."""
    compile_error: bool = False
    """Whether the extracted program does not compile (then the outcome is CORRECTNESS_FAILURE)."""
    label: str = ""
    """Of the member, when it is a control."""
    difficulty: str | None = None
    """Of the problem, as its source says it."""

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.FORMAT_ERROR) != (self.format_error is not None):
            raise UserError(
                f"sample {self.problem_id!r} #{self.index}: outcome {self.outcome} with format_error "
                f"{self.format_error!r}; a cause belongs to every format error and to nothing else"
            )

    @property
    def member(self) -> Member:
        return Member(self.alpha, self.label)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; `from_json` inverts it. An empty `label` or `difficulty` is left out."""
        row = {name: getattr(self, name) for name in self.__slots__}
        row["outcome"], row["tags"] = str(self.outcome), list(self.tags)
        for name in ("label", "difficulty"):
            if not row[name]:
                del row[name]
        return row

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Sample":
        return cls(**{**data, "outcome": Outcome(data["outcome"]), "tags": tuple(data["tags"])})
