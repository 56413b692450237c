"""One judged answer as one row of data. No judging, no sampling: see the agents and the judge for these."""

from dataclasses import asdict, dataclass
from typing import Any

from cef_env.errors import UserError
from cef_env.judge.types import Outcome


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer to one problem by the checkpoint at one alpha, judged on the full suite."""

    problem_id: str
    split: str
    """Named set of problems, such as `hard`; statistics are per split."""
    alpha: float
    """theta = alpha * high + (1 - alpha) * low: 0 is the low checkpoint, 1 the high one."""
    index: int
    """Number of the answer among those of this (split, alpha, problem), from 0."""
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

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.FORMAT_ERROR) != (self.format_error is not None):
            raise UserError(
                f"sample {self.problem_id!r} #{self.index}: outcome {self.outcome} with format_error "
                f"{self.format_error!r}; a cause belongs to every format error and to nothing else"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; `from_json` inverts it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Sample":
        return cls(**{**data, "outcome": Outcome(data["outcome"]), "tags": tuple(data["tags"])})
