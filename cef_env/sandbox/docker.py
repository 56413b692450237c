"""Boxes in containers of a Docker engine: one container per box, with the zygote as its first process.

Finds the engine (DOCKER_HOST) and the image (CEF_DOCKER_IMAGE), starts and removes containers. The SDK is
imported only here, when used. Programs see the image's files; of the host only the zygote's source.
The engine must be this machine's own: the socket between us and the zygote lies in a folder that both see.
"""

import contextlib
import functools
import os
import select
import socket
from typing import Any

from cef_env.errors import SandboxUnavailableError, UserError
from cef_env.sandbox import bwrap, owner
from cef_env.sandbox.inside import protocol
from cef_env.sandbox.landlock import PrivateFolder
from cef_env.sandbox.seccomp import Mode
from cef_env.sandbox.types import BoxError, Contents

IMAGE_VARIABLE, DEFAULT_IMAGE = "CEF_DOCKER_IMAGE", "python:3.12-slim"
LABEL = "cef-judge"
"""Label of our containers; its value is the mark of the process that started them."""
HOST = f"{bwrap.HOME}/host"
"""Where the folder with the socket lies in a container."""
ANSWER_TIMEOUT_S, START_TIMEOUT_S = 5, 30.0
SPARE_PROCESSES = 16
PYTHON = ("python3", "-S", "-s", "-B")
_PROBE = (
    "import shutil, sys; print(sys.version_info >= (3, 11), *sys.version_info[:2], shutil.which('g++') or '')"
)


def image_name() -> str:
    """The image that boxes are made of."""
    return os.environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE


def connect(timeout_s: float = 60) -> Any:
    """A client of the engine; `SandboxUnavailableError` when there is no SDK or none answers."""
    try:
        import docker
    except ImportError as error:
        raise SandboxUnavailableError("the docker SDK is missing: pip install 'cef-env[docker]'") from error
    try:
        with contextlib.ExitStack() as stack:
            client = docker.from_env(timeout=timeout_s)
            stack.callback(client.close)
            client.ping()
            stack.pop_all()
    except docker.errors.DockerException as error:
        where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        raise SandboxUnavailableError(
            f"no Docker engine answers at {where}: start one that this user may use, or set DOCKER_HOST"
        ) from error
    return client


def require_image(*, pull: bool) -> str:
    """The image's name, once it is there and its Python will do.

    Raises `SandboxUnavailableError`, saying what to do, when there is no engine, no image (and none to
    pull) or no Python in it.
    """
    import docker.errors

    name = image_name()
    other = f"or name an image with Python 3.11 or newer in {IMAGE_VARIABLE}"
    with contextlib.closing(connect(ANSWER_TIMEOUT_S)) as client:
        try:
            client.images.get(name)
        except docker.errors.ImageNotFound:
            if not pull:
                raise SandboxUnavailableError(
                    f"image {name} is not here: docker pull {name}, {other}"
                ) from None
            with contextlib.closing(connect(600)) as patient:
                try:
                    patient.images.pull(name)
                except docker.errors.DockerException as error:
                    reason = str(error).splitlines()[0]
                    raise SandboxUnavailableError(
                        f"image {name} is not here and cannot be pulled ({reason}): load it by hand, {other}"
                    ) from error
    fits, major, minor, _ = _probe(name)
    if fits != "True":
        raise SandboxUnavailableError(
            f"Python {major}.{minor} of image {name} is too old: use another, {other}"
        )
    return name


@functools.cache
def _probe(image: str) -> list[str]:
    """What `_PROBE` finds in an image."""
    import docker.errors

    with contextlib.closing(connect()) as client:
        options = {"network_mode": "none", "remove": True, "entrypoint": ["python3", "-S", "-c", _PROBE]}
        try:
            text = client.containers.run(image, [], labels={LABEL: owner.mark()}, **options).decode()
        except docker.errors.DockerException as error:
            reason = str(getattr(error, "explanation", None) or error).splitlines()[0]
            raise SandboxUnavailableError(
                f"image {image} runs no python3 ({reason[-200:]}): name another image in {IMAGE_VARIABLE}"
            ) from error
    return [*text.rstrip("\n").split(" "), ""][:4]


def sweep(client: Any) -> int:
    """Remove the containers of judges that were killed; returns how many."""
    import docker.errors

    removed = 0
    for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        if owner.is_gone(container.labels.get(LABEL, "")):
            with contextlib.suppress(docker.errors.DockerException):  # it is just ending by itself
                container.remove(force=True)
                removed += 1
    return removed


class DockerZygote:
    """A zygote that is the first process of a container."""

    seccomp = Mode.NAMESPACES

    def __init__(self, image: str, inside: str, contents: Contents, processes: int) -> None:
        """`inside`: folder of the zygote's source. `processes`: how many a test may have."""
        if contents.toolchain and not _probe(image)[3]:
            raise UserError(
                f"image {image} has no g++: name one that has, such as gcc:14, in {IMAGE_VARIABLE}"
            )
        variables = bwrap.environment(contents)
        del variables["PATH"]  # the image's
        self.config: dict[str, Any] = {
            "isolation": "container",
            "work": protocol.WORK,
            "site": [],
            "keep": None,
            "environment": sorted(["PATH", *variables]),
        }
        self._stderr = os.memfd_create("box-stderr", os.MFD_CLOEXEC)
        self._folder = PrivateFolder(())
        self._client: Any = None
        self._container: Any = None
        try:
            self._client = connect()
            _sweep_once(os.getpid())
            self.conn = self._start(image, inside, contents, processes, variables)
        except BaseException:
            self._remove()
            raise

    def _start(
        self, image: str, inside: str, contents: Contents, processes: int, variables: dict[str, str]
    ) -> socket.socket:
        import docker.errors

        files = f"size={contents.files_bytes},nr_inodes=4096"
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            path = self._folder.share()
            listener.bind(path)
            os.chmod(path, 0o666)  # root of the container may be another user here; nobody else gets at it
            listener.listen(1)
            listener.settimeout(START_TIMEOUT_S)
            try:
                self._container = self._client.containers.run(
                    image,
                    [],
                    entrypoint=[*PYTHON, f"{bwrap.HOME}/inside/start.py", f"{HOST}/{os.path.basename(path)}"],
                    detach=True,
                    auto_remove=True,
                    user="0:0",
                    hostname="box",
                    working_dir="/",
                    network_mode="none",
                    ipc_mode="private",
                    read_only=True,
                    cap_drop=["ALL"],
                    cap_add=["SETUID", "SETGID", "KILL"],
                    security_opt=["no-new-privileges"],
                    mem_limit=memory,
                    memswap_limit=memory,
                    pids_limit=processes + SPARE_PROCESSES,
                    tmpfs={"/box": f"{files},mode=755", "/tmp": f"{files},mode=1777", "/dev/shm": files},
                    volumes={
                        inside: {"bind": f"{bwrap.HOME}/inside", "mode": "ro"},
                        os.path.dirname(path): {"bind": HOST, "mode": "ro"},
                    },
                    environment=variables,
                    labels={LABEL: owner.mark()},
                )
            except docker.errors.DockerException as error:
                raise BoxError(f"the container did not start: {str(error).splitlines()[0]}") from error
            try:
                conn, _ = listener.accept()
            except TimeoutError as error:
                raise BoxError(
                    "no zygote called from the container: is the Docker engine on this machine? "
                    f"(docker logs: {self._log()})"
                ) from error
        socket.send_fds(conn, [b"S"], [self._stderr])
        return conn

    def _log(self) -> str:
        import docker.errors

        try:
            text = self._container.logs(tail=1).decode("utf-8", "replace")
        except docker.errors.DockerException:
            text = ""
        return text.strip() or "no message"

    @property
    def alive(self) -> bool:
        # It speaks only when asked: something to read now is the end of file.
        waiting = select.poll()
        waiting.register(self.conn, select.POLLIN)
        return not waiting.poll(0)

    def complaint(self) -> str:
        lines = os.pread(self._stderr, 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def close(self) -> None:
        # At the end of file the zygote ends, and with it the container, which is then removed.
        self.conn.close()
        self._remove()

    def _remove(self) -> None:
        import docker.errors

        if self._container is not None:
            with contextlib.suppress(docker.errors.DockerException, OSError):
                self._container.remove(force=True)
            with contextlib.suppress(docker.errors.DockerException, OSError):
                self._container.wait(condition="removed", timeout=10)
        if self._client is not None:
            self._client.close()
        self._folder.remove()
        os.close(self._stderr)


@functools.cache
def _sweep_once(pid: int) -> None:
    """The first box of a process removes what killed judges left; `pid` is that of this process."""
    with contextlib.closing(connect()) as client:
        sweep(client)
