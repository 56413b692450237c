"""What a judge could leave on the host, to be compared before and after."""

import contextlib
import functools
import gc
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cef_env.errors import SandboxUnavailableError
from cef_env.sandbox import docker, landlock, owner
from cef_env.sandbox.cgroups import PREFIX, find_parent


@dataclass(frozen=True)
class Traces:
    """What a judge could leave on the host."""

    processes: frozenset[str]
    fds: int
    mounts: int
    shm: frozenset[str]
    cgroups: frozenset[str]
    folders: frozenset[str]
    containers: frozenset[str]


def descendants(ancestor: int | None = None) -> frozenset[str]:
    """A process (this one) and those whose ancestor it is."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[entry.name] = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
    found: set[str] = {str(ancestor or os.getpid())}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return frozenset(found)


def _ours(mount: str) -> bool:
    """Not of an engine's containers, which may be anybody's: those are counted by their label."""
    return not any(word in mount for word in (" overlay ", "/containers/", "/netns/"))


@functools.cache
def _engine_answers() -> bool:
    """Asked once: a client that finds no engine keeps descriptors until it is collected."""
    try:
        docker.connect().close()
    except SandboxUnavailableError:
        gc.collect()
        return False
    return True


def containers(mark: str) -> frozenset[str]:
    """Containers of the process of this mark; none where this process never used Docker."""
    if "docker" not in sys.modules or not _engine_answers():
        return frozenset()
    with contextlib.closing(docker.connect()) as client:
        filters = {"label": f"{docker.LABEL}={mark}"}
        found = client.containers.list(all=True, filters=filters, ignore_removed=True)
        return frozenset(container.id for container in found)


def traces() -> Traces:
    """All traces of this process's judges now."""
    gc.collect()  # what earlier tests left to it is no trace
    of_ours = containers(owner.mark())
    parent = find_parent()
    folders = Path(tempfile.gettempdir()).glob(f"{landlock.PREFIX}.{owner.mark()}.*")
    return Traces(
        processes=descendants(),
        fds=len(os.listdir("/proc/self/fd")),
        mounts=len([line for line in Path("/proc/self/mountinfo").read_text().splitlines() if _ours(line)]),
        shm=frozenset(os.listdir("/dev/shm")),
        cgroups=frozenset(
            str(group)
            for folder in (parent.folders if parent else ())
            for group in folder.glob(f"{PREFIX}.*.{os.getpid()}.*")
        ),
        folders=frozenset(map(str, folders)),
        containers=of_ours,
    )
