"""What a sweep is to hold: the plan that lies beside its samples, so that nothing can be missing unnoticed.

`plan.json` names who answers which problems how often, everything that the answers depend on (`config`),
and which shard of the chunks this folder holds. A folder belongs to one plan; reading it checks that every
planned chunk is there. Does not draw or judge.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.eval.programs import PROGRAMS
from cef_env.eval.records import Member
from cef_env.eval.store import Chunk, plan_chunks
from cef_env.files import read_json, write_json

FILE = "plan.json"
SAMPLES = "samples.jsonl"
PARQUET = "samples.parquet"
"""What `cef eval compact` makes of them."""


@dataclass(frozen=True)
class Work:
    """`samples` answers of one member to each of some problems of one split."""

    member: Member
    split: str
    problem_ids: tuple[str, ...]
    samples: int


@dataclass(frozen=True)
class Plan:
    """All work of a sweep, in the order in which it is done."""

    work: tuple[Work, ...]
    chunk_problems: int = 4
    """Problems per chunk, the unit of sampling, resuming and sharding."""
    chunk_samples: int = 25
    """Answers to each problem per chunk."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that the answers depend on, as JSON values."""
    shard: tuple[int, int] | None = None
    """(i, n): every n-th chunk from the i-th on, 1 <= i <= n. None: all."""

    def __post_init__(self) -> None:
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            raise UserError(f"shard {self.shard[0]}/{self.shard[1]}: use i/n with 1 <= i <= n")
        if not self.work:
            raise UserError("the plan holds no work; give at least one member and one problem")

    @property
    def members(self) -> list[Member]:
        """In the order of the work."""
        return list(dict.fromkeys(work.member for work in self.work))

    def all_chunks(self) -> Iterator[Chunk]:
        """Of the whole sweep, whatever the shard."""
        for w in self.work:
            ids = w.problem_ids
            yield from plan_chunks(w.split, w.member, ids, w.samples, self.chunk_problems, self.chunk_samples)

    def chunks(self) -> list[Chunk]:
        """Of this shard. Neighbouring chunks go to different shards, so that shards take equal time."""
        first, step = self.shard or (1, 1)
        return list(islice(self.all_chunks(), first - 1, None, step))

    def to_json(self) -> dict[str, Any]:
        sets = _numbered(work.problem_ids for work in self.work)
        return {
            "config": dict(self.config),
            "chunk_problems": self.chunk_problems,
            "chunk_samples": self.chunk_samples,
            "shard": None if self.shard is None else list(self.shard),
            "problem_sets": [list(ids) for ids in sets],
            "work": [
                {
                    "alpha": w.member.alpha, "label": w.member.label, "split": w.split,
                    "problem_set": sets[w.problem_ids], "samples": w.samples,
                }
                for w in self.work
            ],
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Plan":
        sets = [tuple(ids) for ids in data["problem_sets"]]
        work = tuple(
            Work(Member(w["alpha"], w["label"]), w["split"], sets[w["problem_set"]], w["samples"])
            for w in data["work"]
        )
        shard = data["shard"]
        sizes = data["chunk_problems"], data["chunk_samples"]
        config = data["config"]
        if not isinstance(config, dict) or not isinstance(config.get("problems", {}), dict):
            raise TypeError("config is no object, or its problems are none")
        return cls(work, *sizes, config, None if shard is None else (shard[0], shard[1]))


def _numbered(sets: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    numbers: dict[tuple[str, ...], int] = {}
    for ids in sets:
        numbers.setdefault(ids, len(numbers))
    return numbers


def claim(folder: Path, plan: Plan) -> None:
    """Makes `folder` the place of this plan, or refuses when it holds answers of another.

    A plan without an answer yet gives way: what is left of a command that was refused must not refuse the
    corrected one. The caller holds the folder's lock.
    """
    path = folder / FILE
    if path.exists():
        key = first_difference(_read(path), plan.to_json())
        if not key:
            return
        if _holds_answers(folder):
            raise UserError(f"{folder} holds another sweep (key {key} differs); choose another --out")
    elif _holds_answers(folder):
        raise UserError(f"{folder} holds samples without {FILE}; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, plan.to_json())


def _holds_answers(folder: Path) -> bool:
    """Also when answers were compacted, or when a kill came between the first programs and their samples."""
    files = [folder / name for name in (SAMPLES, PARQUET, PROGRAMS)]
    return any(file.is_file() and file.stat().st_size for file in files)


def read_plan(folder: Path) -> Plan:
    """The plan of a sweep's folder; `UserError` when there is none."""
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{folder}: no {FILE}, so it is no folder of a sweep; give the --out of cef eval")
    try:
        return Plan.from_json(_read(path))
    except (KeyError, TypeError, IndexError) as error:
        raise UserError(f"{path}: not a plan ({error}); restore it from a copy") from None


def _read(path: Path) -> Any:
    return read_json(path, "restore it from a copy")


def same_sweep(first: Plan, second: Plan) -> str:
    """The key in which two plans differ when their shards are ignored; empty if in none."""
    return first_difference(replace(first, shard=None).to_json(), replace(second, shard=None).to_json())


def first_difference(found: Any, wanted: Any, prefix: str = "") -> str:
    """Dotted name of the first key in which two JSON values differ; empty if they are equal."""
    if found == wanted:
        return ""
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return prefix.removesuffix(".") or "(all)"
    for key in sorted({*found, *wanted}):
        if found.get(key) != wanted.get(key):
            return first_difference(found.get(key), wanted.get(key), f"{prefix}{key}.")
    return prefix.removesuffix(".") or "(all)"
