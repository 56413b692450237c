"""The judge: programs x tests -> one `JudgeResult` each.

    with Judge() as judge:
        judge.run(problem, program).outcome

Runs programs in warm boxes (`cef_env.sandbox`), compares outputs on the host, stops at the first failing
test. Does not extract programs from answers and gives no reward by itself: see `JudgeResult`.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

from cef_env.errors import JudgeError, UserError
from cef_env.judge.cache import ResultCache
from cef_env.judge.checkers import get_checker
from cef_env.judge.languages import CompileError, Compiler, Language, parse_language
from cef_env.judge.pool import BoxPool
from cef_env.judge.speed import speed_factor as parse_speed_factor
from cef_env.judge.types import JudgeResult, TestResult, Verdict, classify
from cef_env.judge.verdicts import decide
from cef_env.problems.types import Coverage, Problem, TestCase, parse_coverage
from cef_env.sandbox.box import Box
from cef_env.sandbox.bwrap import package_paths
from cef_env.sandbox.cgroups import sweep
from cef_env.sandbox.tiers import Tier, resolve
from cef_env.sandbox.types import BoxError, Contents, Execution, Limits

VERSION = 3
"""Part of every cache key: raise it when the same program could get another result."""
BOXES_PER_CORE = 2
"""Forks and namespace teardown wait in the kernel, so more boxes than cores pay off; see bench_judge.py."""

Pair = tuple[Problem, str]
Load = Callable[[Box], str | None] | Callable[[Box], None]
"""Gives a box a program; the compiler's message, if it does not compile."""
Progress = Callable[[int, int], None]
"""(finished, total) after each result of `Judge.map`."""
Watch = Callable[[TestCase, Execution, TestResult], None]
"""Told of each test of `Judge.run`: the only way to see what a program printed, which no result keeps."""


class Judge:
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
        if workers is not None and workers < 1:
            raise UserError(f"workers={workers}: use a whole number >= 1, or None for the default")
        self.workers = workers or BOXES_PER_CORE * len(os.sched_getaffinity(0))
        self.speed_factor = parse_speed_factor(speed_factor)
        plan = resolve(sandbox)
        self._cache = ResultCache(cache) if cache is not None else None
        if plan.cgroups:
            sweep(plan.cgroups)
        package_paths(packages)
        self._pool = BoxPool(plan, self.workers, Contents(packages=tuple(packages)))
        self._compiler = Compiler(plan, self.workers)
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
            JudgeError: the judge failed, twice; nothing is known about the program.
            UserError: the problem has no test under 10^coverage characters, or an unknown checker.
        """
        self._pool.check()
        coverage, language = parse_coverage(coverage), parse_language(language)
        if not problem.coverage(coverage):
            raise UserError(
                f"problem {problem.id!r} has no test under 10^{coverage} characters; "
                f"its smallest coverage is {problem.levels[0]}"
            )
        get_checker(problem.checker)
        if watch is not None:
            return self._run_twice(problem, program, coverage, exhaustive, language, watch)
        key = self._key(problem, program, coverage, exhaustive, language)
        with self._lock:
            shared = self._running.get(key)
            if shared is None:
                mine = self._running[key] = Future()
        if shared is not None:
            return shared.result()
        try:
            result = self._cache.get(key) if self._cache is not None else None
            if result is None:
                result = self._run_twice(problem, program, coverage, exhaustive, language)
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

    def map(
        self,
        pairs: Iterable[Pair],
        coverage: Coverage = None,
        exhaustive: bool = False,
        progress: Progress | None = None,
        language: str = Language.PYTHON,
    ) -> list[JudgeResult]:
        """Judge many (problem, program) pairs in parallel; results in the order of the pairs.

        Equal pairs are judged once. `progress(finished, total)` is called from this thread, counting
        distinct pairs. Raises what `run` raises, after the runs in progress have ended.
        """
        pairs = list(pairs)
        keys = [self._key(problem, program, coverage, exhaustive, language) for problem, program in pairs]
        distinct = dict(zip(keys, pairs))
        results: dict[str, JudgeResult] = {}
        with ThreadPoolExecutor(self.workers, thread_name_prefix="cef-judge") as threads:
            futures = {
                threads.submit(self.run, problem, program, coverage, exhaustive, language): key
                for key, (problem, program) in distinct.items()
            }
            try:
                for future in as_completed(futures):
                    results[futures[future]] = future.result()
                    if progress is not None:
                        progress(len(results), len(distinct))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return [results[key] for key in keys]

    def close(self) -> None:
        """End all boxes. Idempotent."""
        self._pool.close()
        self._compiler.close()
        if self._cache is not None:
            self._cache.close()

    def __enter__(self) -> "Judge":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _key(
        self, problem: Problem, program: str, coverage: Coverage, exhaustive: bool, language: str
    ) -> str:
        """Everything that a result depends on."""
        source = hashlib.sha256(program.encode("utf-8", "surrogatepass")).hexdigest()
        limits = (limits_of(problem, self.speed_factor), self.speed_factor)
        parts = (VERSION, self.tier, problem.id, problem.tests_hash, limits, source, coverage)
        packages = [(name, version(name)) for name in self._pool.contents.packages]
        return hashlib.sha256(repr((*parts, exhaustive, language, packages)).encode()).hexdigest()

    def _run_twice(
        self,
        problem: Problem,
        program: str,
        coverage: Coverage,
        exhaustive: bool,
        language: Language,
        watch: Watch | None = None,
    ) -> JudgeResult:
        """Once, and again on a fresh box if the first died: something outside may have killed it."""
        limits = limits_of(problem, self.speed_factor)
        load: Load = partial(Box.load, program=program, limits=limits)
        if language is not Language.PYTHON:
            try:
                executable = self._compiler.compile(program, language)
            except CompileError as error:
                return self._result(problem, (), coverage, exhaustive, str(error))
            load = partial(Box.load_native, executable=executable, limits=limits)
        try:
            return self._run_once(problem, load, coverage, exhaustive, watch)
        except BoxError:
            return self._run_once(problem, load, coverage, exhaustive, watch, fresh=True)

    def _run_once(
        self,
        problem: Problem,
        load: Load,
        coverage: Coverage,
        exhaustive: bool,
        watch: Watch | None,
        fresh: bool = False,
    ) -> JudgeResult:
        limits = limits_of(problem, self.speed_factor)
        tests: list[TestResult] = []
        with self._pool.box(fresh) as box:
            compile_error = load(box)
            if compile_error is None:
                tests = _run_tests(box, problem, limits, coverage, exhaustive, watch)
            box.unload()
        return self._result(problem, tuple(tests), coverage, exhaustive, compile_error)

    def _result(
        self,
        problem: Problem,
        tests: tuple[TestResult, ...],
        coverage: Coverage,
        exhaustive: bool,
        compile_error: str | None,
    ) -> JudgeResult:
        return JudgeResult(
            problem_id=problem.id,
            outcome=classify(tests, compile_error=compile_error is not None),
            tests=tests,
            levels=problem.levels,
            coverage=coverage,
            exhaustive=exhaustive,
            compile_error=compile_error,
            tier=str(self.tier),
            speed_factor=self.speed_factor,
        )


def limits_of(problem: Problem, speed_factor: float = 1.0) -> Limits:
    """The limits of one test of this problem on a machine of this speed."""
    return Limits(cpu_s=problem.time_limit_s * speed_factor, memory_bytes=problem.memory_limit_mb << 20)


def _run_tests(
    box: Box, problem: Problem, limits: Limits, coverage: Coverage, exhaustive: bool, watch: Watch | None
) -> list[TestResult]:
    checker = get_checker(problem.checker)
    results: list[TestResult] = []
    for test in problem.coverage(coverage):
        stdin = test.input.encode("utf-8", "surrogateescape")
        expected = test.output.encode("utf-8", "surrogateescape")
        execution = box.run(stdin)
        if execution.killed_from_outside:
            execution = box.run(stdin)
        try:
            result = decide(execution, limits, expected, test.length, checker)
        except Exception as error:  # a checker is code of its own; its failure is no verdict
            raise JudgeError(f"checker {problem.checker!r} failed on {problem.id!r}: {error!r}") from error
        results.append(result)
        if watch is not None:
            watch(test, execution, result)
        if result.verdict is not Verdict.ACCEPTED and not exhaustive:
            break
    return results
