"""An image for the tier `docker` out of this machine's own files, for where no registry can be reached.

    DOCKER_HOST=unix://... python tests/docker/make_image.py [--tag cef-test:latest]

Holds this Python (without its third-party packages), bash, the coreutils and, where the machine has one, the
C++ compiler, each with the libraries it loads. For tests and developers; Debian and its like only. Prints why
not where it cannot, and exits with 1.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path

from cef_env.sandbox.bwrap import interpreter

TOOLS = ("bash", "sh", "ls", "cat", "cp", "mv", "rm", "mkdir", "sleep", "env", "id", "ps", "kill", "true")
TOOLS += (
    "stty",
    "base64",
    "realpath",
    "head",
    "seq",
    "yes",
    "wc",
    "setsid",
    "touch",
    "ln",
    "mkfifo",
    "grep",
    "tr",
    "od",
    "tail",
    "whoami",
    "chmod",
    "hostname",
)
SKIPPED = {
    "site-packages",
    "dist-packages",
    "test",
    "idlelib",
    "tkinter",
    "ensurepip",
    "lib2to3",
    "turtledemo",
}


def python_files() -> Iterator[str]:
    yield interpreter()
    yield from glob(f"{sys.base_exec_prefix}/lib/libpython3*.so*")
    stdlib = sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})
    for folder, folders, names in os.walk(stdlib):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith("config-")]
        yield from (f"{folder}/{name}" for name in names)


def compiler_files() -> Iterator[str]:
    """The driver, the passes it runs, and what programs are linked with."""
    if shutil.which("g++") is None:
        return

    def asked(option: str) -> str:
        return subprocess.run(["g++", option], capture_output=True, text=True, check=True).stdout.strip()

    yield from (path for name in ("g++", "as", "ld") for path in [shutil.which(name)] if path)
    own = Path(asked("-print-file-name=crtbegin.o")).resolve().parent
    yield from (asked(f"-print-prog-name={name}") for name in ("cc1plus", "collect2"))
    for pattern in ("lib*.so*", "lib*.a", "*.o"):
        yield from map(str, own.glob(pattern))
    c_library = Path(asked("-print-file-name=crt1.o")).resolve().parent
    for pattern in (
        "*crt*.o",
        "libc.*",
        "libc_nonshared.a",
        "libm.*",
        "libm-*.a",
        "libmvec*",
        "libpthread.*",
    ):
        yield from map(str, c_library.glob(pattern))
    for folder in (
        str(own / "include"),
        "/usr/include/c++",
        *glob("/usr/include/*-linux-gnu"),
        *glob("/usr/include/*"),
    ):
        if folder.endswith(("include", "c++", "-gnu", "/linux", "/asm-generic", ".h")):
            for inner, _, names in os.walk(folder):
                yield from (f"{inner}/{name}" for name in names)
            if os.path.isfile(folder):
                yield folder


def with_links(path: str) -> Iterator[str]:
    """`path` in its real folder, and what it leads to, one link after the other."""
    while True:
        path = f"{os.path.realpath(os.path.dirname(path))}/{os.path.basename(path)}"
        yield path
        if not os.path.islink(path):
            return
        path = os.path.join(os.path.dirname(path), os.readlink(path))


def libraries(paths: Iterable[str]) -> set[str]:
    """What the dynamic loader would load for executables and shared libraries."""
    found = set()
    for path in paths:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        text = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        found.update(word for word in text.split() if word.startswith("/") and os.path.exists(word))
    return found


def collect() -> list[str]:
    tools = [path for name in TOOLS for path in [shutil.which(name)] if path]
    files = {name for path in [*python_files(), *tools, *compiler_files()] for name in with_links(path)}
    loaders = [path for path in files if os.path.isfile(path) and (os.access(path, os.X_OK) or ".so" in path)]
    files |= {name for path in libraries(loaders) for name in with_links(path)}
    return sorted(path for path in files if os.path.lexists(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default="cef-test:latest")
    tag = parser.parse_args().tag
    try:
        import docker
        from docker.errors import DockerException
    except ImportError:
        sys.exit("no image: the docker SDK is missing (pip install docker)")
    with tempfile.TemporaryDirectory() as folder:
        archive = f"{folder}/image.tar"
        with tarfile.open(archive, "w") as tar:
            root = tarfile.TarInfo("root")
            root.type, root.mode = tarfile.DIRTYPE, 0o755  # a Python that lives there is for everybody
            tar.addfile(root)
            for name in ("bin", "sbin", "lib", "lib64", "lib32"):
                if os.path.islink(f"/{name}"):
                    tar.add(f"/{name}", name, recursive=False)
            for name in ("tmp", "proc", "sys", "dev", "box", "cef", "usr/local/bin"):
                info = tarfile.TarInfo(name)
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            for path in collect():
                tar.add(path, path.lstrip("/"), recursive=False)
            link = tarfile.TarInfo("usr/local/bin/python3")
            link.type, link.linkname = tarfile.SYMTYPE, interpreter()
            tar.addfile(link)
        try:
            client = docker.from_env()
            repository, _, version = tag.partition(":")
            client.api.import_image_from_file(archive, repository=repository, tag=version)
        except DockerException as error:
            sys.exit(f"no image: the Docker engine does not take it: {str(error).splitlines()[0]}")
    print(f"{tag}: {os.fspath(interpreter())}")


if __name__ == "__main__":
    main()
