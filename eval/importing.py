"""Answers from elsewhere: generations that exist already are judged and become a sweep like any other.

Formats:
- `lcb`: LiveCodeBench's output, a JSON list of {question_id, code_list};
- `jsonl`: a line per answer with problem_id and program (null for none), and optionally alpha or label.

Judged chunk by chunk, so an import can be killed and continued. Command: `cef eval import FILE --format lcb`.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from cef_env.errors import UserError
from cef_env.eval.plan import SAMPLES, Plan, Work, claim
from cef_env.eval.programs import Judgement, Program, ProgramStore
from cef_env.eval.records import Member, Sample
from cef_env.eval.sampling import Progress, hash_of
from cef_env.eval.store import Chunk, SampleStore
from cef_env.files import exclusive
from cef_env.judge import FormatErrorCause, Judge, JudgeResult
from cef_env.problems import Problem, ProblemSet

FORMATS = ("lcb", "jsonl")

Answers = dict[Member, dict[str, list[str | None]]]
"""Member -> problem -> programs in order; None where there is no program."""


def read_answers(files: Sequence[str], form: str, member: Member) -> Answers:
    """Answers of several files. A file may be written LABEL=FILE; others are of `member`."""
    if form not in FORMATS:
        raise UserError(f"--format {form!r}: use {' or '.join(FORMATS)}")
    read: Callable[[Path, Member], Iterator[tuple[Member, str, str | None]]]
    read = _lcb if form == "lcb" else _jsonl
    answers: Answers = defaultdict(lambda: defaultdict(list))
    for text in files:
        label, mark, name = text.partition("=")
        labelled = bool(mark) and not Path(text).exists()
        path, who = (Path(name), Member.parse(label)) if labelled else (Path(text), member)
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        for found, problem, program in read(path, who):
            answers[found][problem].append(program if program and program.strip() else None)
    if not answers:
        raise UserError("the files hold no answer")
    return answers


def _lcb(path: Path, member: Member) -> Iterator[tuple[Member, str, str | None]]:
    try:
        rows = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path}: not JSON ({error}); --format lcb takes LiveCodeBench's output file"
        ) from None
    if not isinstance(rows, list):
        raise UserError(f"{path}: not a JSON list; --format lcb takes LiveCodeBench's output file")
    seen: set[str] = set()
    for number, row in enumerate(rows):
        problem, programs = _fields(path, f"entry {number}", row, question_id=(str, int), code_list=list)
        if str(problem) in seen:
            raise UserError(f"{path}: entry {number}: question_id {problem!r} occurs twice; keep one")
        seen.add(str(problem))
        if not programs:
            raise UserError(
                f"{path}: entry {number}: code_list is empty; write null for an answer without a program, or "
                "remove the entry"
            )
        for at, program in enumerate(programs):
            if not isinstance(program, str | None):
                raise UserError(f"{path}: entry {number}: code_list[{at}] is not text")
            yield member, str(problem), program


def _jsonl(path: Path, member: Member) -> Iterator[tuple[Member, str, str | None]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                cut = "" if line.endswith(b"\n") else "; it is the last one and half written, remove it"
                raise UserError(f"{path}: line {number} is not JSON{cut}") from None
            fields = _fields(path, f"line {number}", row, problem_id=(str, int), program=(str, type(None)))
            problem, program = fields
            yield _member(path, number, row, member), str(problem), program


def _member(path: Path, number: int, row: Mapping[str, Any], default: Member) -> Member:
    alpha, label = row.get("alpha"), row.get("label")
    if label:
        if alpha is not None:
            raise UserError(f"{path}: line {number}: has alpha and label; keep one of them")
        return Member.parse(str(label))
    if alpha is None:
        return default
    if isinstance(alpha, bool) or not isinstance(alpha, int | float):
        raise UserError(f"{path}: line {number}: alpha {alpha!r} is not a number")
    return Member.parse(str(alpha))


def _fields(path: Path, where: str, row: Any, **kinds: Any) -> list[Any]:
    if not isinstance(row, dict):
        raise UserError(f"{path}: {where} is not a JSON object")
    for name, kind in kinds.items():
        if name not in row:
            raise UserError(f"{path}: {where} has no field {name!r}")
        if not isinstance(row[name], kind):
            raise UserError(f"{path}: {where}: field {name!r} is of type {type(row[name]).__name__}")
    return [row[name] for name in kinds]


def plan_import(answers: Answers, problems: ProblemSet, split: str, chunk_problems: int = 16) -> Plan:
    """Every answer once. Problems that got equally many answers of a member are worked on together.

    Raises `UserError` for an id that `problems` lack.
    """
    known = set(problems.ids)
    digest = []
    work = []
    for member in sorted(answers, key=lambda m: m.order):
        by_size: dict[int, list[str]] = defaultdict(list)
        for problem, programs in answers[member].items():
            if problem not in known:
                raise UserError(
                    f"answers to problem {problem!r} ({member.name}), which {problems.name!r} does not hold; "
                    "give the --problems that were answered"
                )
            by_size[len(programs)].append(problem)
            digest.append([member.name, problem, [program or "" for program in programs]])
        work += [Work(member, split, tuple(sorted(ids)), n) for n, ids in sorted(by_size.items()) if n]
    config = {"problems": {split: problems.name}, "answers": hash_of(json.dumps(sorted(digest)))}
    return Plan(tuple(work), chunk_problems, 25, config)


def import_answers(
    answers: Answers, problems: ProblemSet, split: str, out: Path, judge: Judge, progress: Progress
) -> Plan:
    """Judge all answers and keep them in `out`; what is there already is skipped."""
    plan = plan_import(answers, problems, split)
    chunks = plan.chunks()
    total = sum(chunk.size for chunk in chunks)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(exclusive(out / "lock", f"folder {str(out)!r}"))
        claim(out, plan)
        store = stack.enter_context(SampleStore(out / SAMPLES))
        kept = stack.enter_context(closing(ProgramStore(out)))
        done = sum(chunk.size for chunk in store.done)
        for chunk in chunks:
            if chunk in store.done:
                continue
            texts = {
                (id_, i): answers[chunk.member][id_][i]
                for id_ in chunk.problem_ids
                for i in range(chunk.start, chunk.stop)
            }
            present = {cell: text for cell, text in texts.items() if text is not None}
            results = judge.map([(problems.get(id_), text) for (id_, _), text in present.items()])
            judged = dict(zip(present, results, strict=True))
            hashes = {cell: hash_of(text) for cell, text in present.items()}
            kept.append(
                {hashes[cell]: Program(hashes[cell], text) for cell, text in present.items()},
                [Judgement.of(hashes[cell], result) for cell, result in judged.items()],
            )
            samples = [
                _sample(chunk, problems.get(id_), i, judged.get((id_, i)), hashes.get((id_, i)))
                for id_, i in texts
            ]
            store.append(chunk, samples)
            done += chunk.size
            progress(done, total, chunk.member.name)
    return plan


def _sample(
    chunk: Chunk, problem: Problem, index: int, result: JudgeResult | None, sha256: str | None
) -> Sample:
    if result is None:
        result = JudgeResult.no_program(problem.id, problem.levels, FormatErrorCause.NO_CODE)
    return Sample(
        problem_id=problem.id,
        split=chunk.split,
        alpha=chunk.alpha,
        index=index,
        outcome=result.outcome,
        coverage_reached=result.coverage_reached,
        format_error=None if result.format_error is None else str(result.format_error),
        compile_error=result.compile_error is not None,
        program_sha256=sha256,
        tags=problem.tags,
        label=chunk.label,
        difficulty=problem.difficulty,
    )
