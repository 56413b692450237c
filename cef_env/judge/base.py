"""What every judge offers: one program, or many at once.

    run(problem, program, ...) -> JudgeResult
    map(pairs, ...)            -> results, in the order of the pairs

`Judge` runs programs on this machine, `RayJudge` (`ray_judge.py`) on the nodes of a Ray cluster; environments
take either. Runs nothing itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import Literal, Self, overload

from cef_env.errors import JudgeError, UserError
from cef_env.judge.languages import Language, parse_language
from cef_env.judge.suite import Job, refuse_mistakes
from cef_env.judge.types import JudgeResult
from cef_env.problems.types import Coverage, Problem, parse_coverage
from cef_env.sandbox.tiers import Tier

Pair = tuple[Problem, str]
Progress = Callable[[int, int], None]
"""(finished, total) after each result of `map`."""


class BaseJudge(ABC):
    """Judges programs; a context manager. Thread-safe."""

    workers: int
    """How many programs run at once."""
    speed_factor: float
    """What time limits are multiplied by."""

    @property
    @abstractmethod
    def tier(self) -> Tier:
        """How strongly programs are confined."""

    @abstractmethod
    def run(
        self,
        problem: Problem,
        program: str,
        coverage: Coverage = None,
        exhaustive: bool = False,
        language: str = Language.PYTHON,
    ) -> JudgeResult:
        """Judge one program; see `Judge.run`."""

    @abstractmethod
    def close(self) -> None:
        """Give back what this judge holds. Idempotent."""

    @abstractmethod
    def _key(self, job: Job) -> str:
        """Everything that a result depends on: jobs with equal keys have equal results."""

    @overload
    def map(
        self,
        pairs: Iterable[Pair],
        coverage: Coverage = None,
        exhaustive: bool = False,
        progress: Progress | None = None,
        language: str = Language.PYTHON,
        errors: Literal["raise"] = "raise",
    ) -> list[JudgeResult]: ...
    @overload
    def map(
        self,
        pairs: Iterable[Pair],
        coverage: Coverage = None,
        exhaustive: bool = False,
        progress: Progress | None = None,
        language: str = Language.PYTHON,
        *,
        errors: Literal["return"],
    ) -> list[JudgeResult | JudgeError]: ...
    def map(
        self,
        pairs: Iterable[Pair],
        coverage: Coverage = None,
        exhaustive: bool = False,
        progress: Progress | None = None,
        language: str = Language.PYTHON,
        errors: Literal["raise", "return"] = "raise",
    ) -> Sequence[JudgeResult | JudgeError]:
        """Judge many (problem, program) pairs in parallel; results in the order of the pairs.

        Equal pairs are judged once. `progress(finished, total)` is called from this thread, counting
        distinct pairs.

        With `errors="return"` a pair that the judge failed on has its `JudgeError` in place of a result, and
        the other pairs keep theirs. With `errors="raise"` the first error is raised, after the runs in
        progress have ended. A `UserError` is always raised: it is a mistake of the caller.
        """
        if errors not in ("raise", "return"):
            raise UserError(f"errors={errors!r}: use raise or return")
        options = (parse_coverage(coverage), exhaustive, parse_language(language))
        jobs = [Job(problem, program, *options) for problem, program in pairs]
        for job in jobs:
            refuse_mistakes(job)
        keys = [self._key(job) for job in jobs]
        distinct = dict(zip(keys, jobs))
        results: dict[str, JudgeResult | JudgeError] = {}
        with ThreadPoolExecutor(self.workers, thread_name_prefix="cef-judge") as threads:
            futures = {
                threads.submit(self.run, job.problem, job.program, *options): key
                for key, job in distinct.items()
            }
            try:
                for future in as_completed(futures):
                    failure = future.exception()
                    if isinstance(failure, JudgeError) and errors == "return":
                        results[futures[future]] = failure
                    else:
                        results[futures[future]] = future.result()
                    if progress is not None:
                        progress(len(results), len(distinct))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return [results[key] for key in keys]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
