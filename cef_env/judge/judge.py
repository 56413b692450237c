"""The judge: programs x tests -> one `JudgeResult` each.

    with Judge() as judge:
        judge.run(problem, program).outcome

Runs programs in warm boxes (`cef_env.sandbox`), compares outputs on the host, stops at the first failing
test. Does not extract programs from answers and gives no reward by itself: see `JudgeResult`.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from cef_env.errors import CheckerError, UserError
from cef_env.judge.base import BaseJudge
from cef_env.judge.cache import ResultCache
from cef_env.judge.checkers import get_checker
from cef_env.judge.custom_checker import Check, CheckerPrograms
from cef_env.judge.languages import CompileError, Compiler, Language, parse_language
from cef_env.judge.pool import BoxPool
from cef_env.judge.speed import speed_factor as parse_speed_factor
from cef_env.judge.suite import Job, Watch, refuse_mistakes, run_tests
from cef_env.judge.types import JudgeResult, TestResult, classify
from cef_env.problems.types import Coverage, Problem, parse_coverage
from cef_env.sandbox.box import Box
from cef_env.sandbox.bwrap import package_paths
from cef_env.sandbox.cgroups import sweep
from cef_env.sandbox.tiers import Tier, resolve
from cef_env.sandbox.types import BoxError, Contents

VERSION = 3
"""Part of every cache key: raise it when the same program could get another result."""
BOXES_PER_CORE = 2
"""Forks and namespace teardown wait in the kernel, so more boxes than cores pay off; see bench_judge.py."""

Load = Callable[[Box], str | None] | Callable[[Box], None]
"""Gives a box a program; the compiler's message, if it does not compile."""


class Judge(BaseJudge):
    """A pool of sandboxes that judges programs. Thread-safe; a context manager.

    Args:
        workers: how many programs run at once; by default twice the number of usable cores.
        sandbox: `auto`, or the name of an isolation tier (`cef_env.sandbox.Tier`). The environment variable
            CEF_SANDBOX takes the place of `auto`.
        cache: path of a file that keeps results across runs and processes; None keeps none.
        packages: third-party packages that Python programs may import, loaded beforehand: `("numpy",)`.
        speed_factor: multiplies every time limit, for machines slower than the one that the limits are meant
            for (see `cef_env.judge.speed`); None takes the environment variable CEF_SPEED_FACTOR, else 1.

    Raises:
        SandboxUnavailableError: no isolation tier works here; programs never run without one.
        UserError: an argument makes no sense, or the cache file is broken.
    """

    def __init__(
        self,
        workers: int | None = None,
        sandbox: str = "auto",
        cache: str | Path | None = None,
        packages: Sequence[str] = (),
        speed_factor: float | None = None,
    ) -> None:
        if workers is not None and (type(workers) is not int or workers < 1):
            raise UserError(f"workers={workers!r}: use a whole number >= 1, or None for the default")
        self.workers = workers or BOXES_PER_CORE * len(os.sched_getaffinity(0))
        self.speed_factor = parse_speed_factor(speed_factor)
        plan = resolve(sandbox)
        if plan.cgroups:
            sweep(plan.cgroups)
        if isinstance(packages, str):
            raise UserError(f"packages={packages!r}: use a list of names, such as ({packages!r},)")
        package_paths(packages)
        self._cache = ResultCache(cache) if cache is not None else None
        self._pool = BoxPool(plan, self.workers, Contents(packages=tuple(packages)))
        self._compiler = Compiler(plan, self.workers)
        self._checkers = CheckerPrograms(plan, self.workers, self._compiler)
        self._lock = threading.Lock()
        self._running: dict[str, Future[JudgeResult]] = {}

    @property
    def tier(self) -> Tier:
        """How strongly programs are confined."""
        return self._pool.plan.tier

    @property
    def cached(self) -> bool:
        """Whether results come from a file where they can."""
        return self._cache is not None

    def run(
        self,
        problem: Problem,
        program: str,
        coverage: Coverage = None,
        exhaustive: bool = False,
        language: str = Language.PYTHON,
        watch: Watch | None = None,
    ) -> JudgeResult:
        """Judge one program. Equal calls that overlap in time share one execution.

        Args:
            problem: its tests run in ascending length.
            program: source text.
            coverage: only the tests under 10^coverage characters; None: all.
            exhaustive: run every test instead of stopping at the first failure.
            language: of the program: `python`, `cpp17` or `cpp20` (`cef_env.judge.Language`).
            watch: called after each test; such a call always executes, past cache and sharing, and starts
                over if its box dies.

        Raises:
            JudgeError: the judge failed, twice, or its checker did (`CheckerError`): nothing is known.
            UserError: the problem has no test under 10^coverage characters, an unknown checker, or cannot be
                judged (interactive; a function, in C++); the program is not text.
        """
        self._pool.check()
        job = Job(problem, program, parse_coverage(coverage), exhaustive, parse_language(language))
        refuse_mistakes(job)
        if watch is not None:
            return self._run_twice(job, watch)
        key = self._key(job)
        with self._lock:
            shared = self._running.get(key)
            if shared is None:
                mine = self._running[key] = Future()
        if shared is not None:
            return shared.result()
        try:
            result = self._cache.get(key) if self._cache is not None else None
            if result is None:
                result = self._run_twice(job)
                if self._cache is not None:
                    self._cache.put(key, result)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(result)
            return result
        finally:
            with self._lock:
                del self._running[key]

    def close(self) -> None:
        """End all boxes. Idempotent."""
        self._pool.close()
        self._checkers.close()
        self._compiler.close()
        if self._cache is not None:
            self._cache.close()

    def _key(self, job: Job) -> str:
        """Everything that a result depends on."""
        source = hashlib.sha256(job.program.encode("utf-8", "surrogatepass")).hexdigest()
        problem, limits = job.problem, (job.limits(self.speed_factor), self.speed_factor)
        parts = (VERSION, self.tier, problem.id, problem.tests_hash, limits, source, job.coverage)
        packages = [(name, version(name)) for name in self._pool.contents.packages]
        headers = self._checkers.headers(problem.checker_program)
        whole = (*parts, job.exhaustive, job.language, packages, headers)
        return hashlib.sha256(repr(whole).encode()).hexdigest()

    def _run_twice(self, job: Job, watch: Watch | None = None) -> JudgeResult:
        """Once, and again on a fresh box if the first died: something outside may have killed it."""
        limits = job.limits(self.speed_factor)
        # Most programs do not look at their own file, and putting it there for each test would take time.
        own_source, function = "__file__" in job.program, job.problem.function
        load: Load = partial(
            Box.load, program=job.program, limits=limits, function=function, own_source=own_source
        )
        if job.language is not Language.PYTHON:
            try:
                executable = self._compiler.compile(job.program, job.language)
            except CompileError as error:
                return self._result(job, [], str(error))
            load = partial(Box.load_native, executable=executable, limits=limits)
        try:
            return self._run_once(job, load, watch)
        except BoxError:
            return self._run_once(job, load, watch, fresh=True)

    def _run_once(self, job: Job, load: Load, watch: Watch | None, fresh: bool = False) -> JudgeResult:
        tests: list[TestResult] = []
        with self._pool.box(fresh) as box:
            compile_error = load(box)
            if compile_error is None:
                with self._check(job.problem) as check:
                    tests = run_tests(box, job, check, watch)
            box.unload()
        return self._result(job, tests, compile_error)

    @contextmanager
    def _check(self, problem: Problem) -> Iterator[Check]:
        """What compares outputs, for the tests of one run."""
        if problem.checker_program is None:
            checker = get_checker(problem.checker)
            yield lambda stdin, printed, expected: checker(printed, expected)
            return
        try:
            with self._checkers.lend(problem.checker_program) as check:
                yield check
        except CheckerError as error:
            raise CheckerError(f"problem {problem.id!r}: {error}") from error

    def _result(self, job: Job, tests: Sequence[TestResult], compile_error: str | None) -> JudgeResult:
        return JudgeResult(
            problem_id=job.problem.id,
            outcome=classify(tests, compile_error=compile_error is not None),
            tests=tuple(tests),
            levels=job.problem.levels,
            coverage=job.coverage,
            exhaustive=job.exhaustive,
            compile_error=compile_error,
            tier=str(self.tier),
            speed_factor=self.speed_factor,
        )
