"""Languages of programs, and the compiler that turns C++ into executables.

A program is compiled once, inside a box of its own that holds the toolchain, with limits on time, memory
and output; executables are cached by hash in the user's cache folder. Does not run programs: `judge.py`.
"""

import contextlib
import hashlib
import os
import threading
from enum import StrEnum

from cef_env.errors import JudgeError, UserError
from cef_env.files import cache_folder, write_atomic
from cef_env.judge.pool import BoxPool
from cef_env.sandbox.bwrap import toolchain_paths
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.types import Contents, Execution, Limits, Stop

COMPILE_LIMITS = Limits(cpu_s=30.0, memory_bytes=1 << 30, output_bytes=64 << 20)
FILES_BYTES = 256 << 20
"""Intermediate files and the executable."""
CACHE = "compiled"
CACHE_BYTES = 1 << 30
"""Executables kept on disk; the ones that were not used for longest go first."""
MAX_MESSAGE = 300
TOO_LARGE = b"File size limit exceeded"
"""What g++ says of an assembler or linker that SIGXFSZ ended."""


class Language(StrEnum):
    """What a program may be written in."""

    PYTHON = "python"
    """The interpreter that runs the judge."""
    CPP17 = "cpp17"
    """C++17 by g++ -O2, linked statically where the machine has static libraries."""
    CPP20 = "cpp20"
    """C++20, likewise."""


STANDARDS = {Language.CPP17: "c++17", Language.CPP20: "c++20"}


def parse_language(value: object) -> Language:
    """A `Language` from its name; `UserError` names the choices."""
    try:
        return Language(value)  # type: ignore[arg-type]
    except ValueError as error:
        raise UserError(f"language={value!r}: use {', '.join(Language)}") from error


class CompileError(Exception):
    """The program does not compile: a fault of the program, whose message this is."""


class Compiler:
    """Compiles C++ in boxes of `plan`. Thread-safe; raises `UserError` on first use without a compiler."""

    def __init__(self, plan: Plan, size: int) -> None:
        self._pool = BoxPool(plan, size, Contents(toolchain=True, files_bytes=FILES_BYTES))
        self._tier = plan.tier
        self._lock = threading.Lock()
        self._identity = ""
        self._static = True
        self._memory: dict[str, bytes] = {}

    def compile(self, source: str, language: Language, include: dict[str, bytes] | None = None) -> bytes:
        """The executable of a C++ program.

        Args:
            include: headers that the program may include by name, beside those of the system.

        Raises:
            CompileError: the program does not compile within the limits.
            JudgeError: the sandbox failed.
        """
        headers = include or {}
        parts = (self._version(), STANDARDS[language], source, sorted(headers.items()))
        key = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
        executable = self._memory.get(key) or _cached(key)
        if executable is None:
            executable = self._build(source, language, headers)
            _store(key, executable)
        with self._lock:
            self._memory[key] = executable
            while len(self._memory) > 64:  # a training batch's worth
                self._memory.pop(next(iter(self._memory)))
        return executable

    def _version(self) -> str:
        """Version and target of the compiler, asked once."""
        with self._lock:
            if not self._identity:
                toolchain_paths()
                done = self._run(["-dumpfullversion", "-dumpmachine"], {}, ())
                if done.status != 0:
                    raise JudgeError(
                        f"the C++ compiler does not run in the sandbox: {_first_error(done.stderr)}"
                    )
                self._identity = f"{self._tier} {done.stdout.decode(errors='replace').strip()}"
            return self._identity

    def _build(self, source: str, language: Language, headers: dict[str, bytes]) -> bytes:
        try:
            files = {"main.cpp": source.encode(), **headers}
        except UnicodeEncodeError as error:
            raise CompileError(f"the program is not valid Unicode at position {error.start}") from error
        arguments = [f"-std={STANDARDS[language]}", "-O2", "-DONLINE_JUDGE", "-pipe", "-Wfatal-errors", "-w"]
        arguments += ["-fdiagnostics-color=never", "main.cpp", "-o", "main"]
        done = self._run([*arguments, *(["-static"] if self._static else [])], files, ("main",))
        if self._static and done.status != 0 and b"cannot find -l" in done.stderr:
            self._static = False  # no static libraries here
            done = self._run(arguments, files, ("main",))
        executable = done.files["main"]
        if done.out_of_memory:
            raise CompileError(f"the compiler needs more than {COMPILE_LIMITS.memory_bytes >> 20} MiB")
        if done.stop is not Stop.NONE:
            raise CompileError(f"compiling takes more than {COMPILE_LIMITS.cpu_s:g} s")
        if TOO_LARGE in done.stderr or done.output_exceeded or len(executable) > COMPILE_LIMITS.output_bytes:
            raise CompileError(f"the executable is larger than {COMPILE_LIMITS.output_bytes >> 20} MiB")
        if done.status != 0 or not executable:
            raise CompileError(_first_error(done.stderr) or f"the compiler ended with status {done.status}")
        return executable

    def _run(self, arguments: list[str], files: dict[str, bytes], collect: tuple[str, ...]) -> Execution:
        for _ in range(2):
            with self._pool.box() as box:
                box.load_command(COMPILE_LIMITS)
                done = box.run(b"", ["/usr/bin/g++", *arguments], files, collect)
                box.unload()
            if not done.killed_from_outside:
                return done
        raise JudgeError("the compiler was killed from outside, twice")

    def close(self) -> None:
        self._pool.close()


def _first_error(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    chosen = next((line for line in lines if "error" in line or "undefined reference" in line), "")
    return (chosen or (lines[0] if lines else ""))[:MAX_MESSAGE]


def _cached(key: str) -> bytes | None:
    """The executable under `key`; None when it is absent, cut or changed: it is then made again."""
    path = cache_folder(CACHE) / key
    try:
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    digest, executable = data[:32], data[32:]
    return executable if hashlib.sha256(executable).digest() == digest else None


def _store(key: str, executable: bytes) -> None:
    """Keep an executable. A cache that cannot be written (full disk, no home) only costs time."""
    folder = cache_folder(CACHE)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / key, hashlib.sha256(executable).digest() + executable)
        entries = sorted((entry.stat().st_mtime, entry.stat().st_size, entry) for entry in folder.iterdir())
        total = sum(size for _, size, _ in entries)
        for _, size, entry in entries:
            if total <= CACHE_BYTES:
                break
            entry.unlink(missing_ok=True)
            total -= size
