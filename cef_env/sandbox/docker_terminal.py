"""A bash in a container of a Docker engine: one container per terminal, spoken to over the SDK's exec socket.

The container's first process only holds it: it reads from a connection of ours, so the container ends, and is
removed, when this process does, however it ends. Unlike in bubblewrap (see `pty_line.py`) there is a
controlling terminal, which programs can read, and CPU time is limited for each single process only. The image
needs bash and the coreutils.
"""

import base64
import contextlib
import os
import shlex
import signal
import socket
from collections.abc import Mapping
from typing import Any, cast

from pexpect import EOF, TIMEOUT
from pexpect.socket_pexpect import SocketSpawn

from cef_env.sandbox import owner
from cef_env.sandbox.docker import LABEL, connect
from cef_env.sandbox.inside.terminal import FOLDERS
from cef_env.sandbox.shell import READ_BYTES, START_TIMEOUT_S, ShellEnded, TerminalLimits
from cef_env.sandbox.tiers import Plan
from cef_env.sandbox.types import BoxError

WORK = FOLDERS["work"]
UID = 1000
SPARE_PROCESSES = 8
ENVIRONMENT = {
    "HOME": WORK,
    "USER": "user",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_IN_ORDER = "stty -echo -echonl -opost -icanon -iexten isig min 1 time 0"
# bash puts the terminal back to how it found it when a command dies of a signal.
_SHELL = f"{_IN_ORDER}; exec bash --norc --noprofile --noediting -i"
# Reads what nobody writes, by itself: bash reaps what others leave meanwhile, and has no child to lose.
_INIT = "trap '' HUP INT QUIT TERM; while read -r line; do :; done"
# Signals processes by what their parent is: 0 for what was started from outside, that is, the shell and
# this script. $1: signal; $2: "shell" or "others"; $3: only if there are so many. Starts no process itself.
_SIGNAL = """
set -f; found=
for d in $(set +f; echo /proc/[0-9]*); do
    p=${d#/proc/}; [ $p = 1 ] && continue; [ $p = $$ ] && continue
    read -r line 2> /dev/null < $d/stat || continue
    set -- "$1" "$2" "$3" ${line##*) }
    [ "$5" = $$ ] && continue
    if [ "$5" = 0 ]; then kind=shell; else kind=others; fi
    [ $kind = "$2" ] && found="$found $p"
done
signal=$1 least=$3; set -- $found
[ $# -ge $least ] && [ $# -gt 0 ] && kill -$signal "$@" 2> /dev/null && echo $#
:
"""
_READ = """
path=$(realpath -e -- "$1" 2> /dev/null) || exit 1
case $path in "$3"/?*) ;; *) exit 1 ;; esac
[ -f "$path" ] && head -c "$2" -- "$path"
"""


class DockerLine:
    """A `Line` (see `shell.py`) to a bash in a container."""

    preamble = f"$({_IN_ORDER} <&0)"

    def __init__(self, plan: Plan, files: Mapping[str, bytes], limits: TerminalLimits) -> None:
        self.plan = plan
        self.limits = limits
        self._closed = False
        self._spawn: SocketSpawn | None = None
        self._exec = ""
        with contextlib.ExitStack() as stack:
            self._client = connect()
            stack.callback(self._client.close)
            self._container = self._create(plan.image)
            stack.callback(self._remove)
            hold = self._container.attach_socket(params={"stdin": 1, "stream": 1})
            stack.enter_context(_taken(hold))
            self._container.start()
            self._place(files)
            self._stack = stack.pop_all()

    def _create(self, image: str) -> Any:
        limits = self.limits
        # `nr_inodes` counts for each folder: the bound of files and bytes is not one for all of them here.
        files = f"size={limits.files_bytes},nr_inodes={limits.files}"
        with _faults():
            return self._client.containers.create(
                image,
                ["-c", _INIT],
                entrypoint=["bash"],
                stdin_open=True,
                auto_remove=True,
                user=f"{UID}:{UID}",
                hostname="box",
                working_dir="/",
                network_mode="none",
                ipc_mode="private",
                read_only=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                mem_limit=limits.memory_bytes + limits.files_bytes,
                memswap_limit=limits.memory_bytes + limits.files_bytes,
                pids_limit=limits.processes + SPARE_PROCESSES,
                ulimits=self._ulimits(),
                tmpfs={
                    WORK: f"{files},uid={UID},gid={UID},mode=755,exec",
                    "/tmp": f"{files},mode=1777,exec",
                    "/dev/shm": f"{files},mode=1777",
                },
                labels={LABEL: owner.mark()},
            )

    def _ulimits(self) -> list[Any]:
        from docker.types import Ulimit

        cpu = max(1, int(self.limits.cpu_s))
        size = self.limits.files_bytes
        return [
            Ulimit(name="cpu", soft=cpu, hard=cpu + 1),
            Ulimit(name="fsize", soft=size, hard=size),
            Ulimit(name="nofile", soft=1024, hard=1024),
            Ulimit(name="core", soft=0, hard=0),
        ]

    def _place(self, files: Mapping[str, bytes]) -> None:
        """Through the shell of a process in the container: the engine's way cannot write to a tmpfs."""
        lines = ["set -e"]
        for name, content in files.items():
            if "/" in name:
                lines.append(f"mkdir -p -- {shlex.quote(os.path.dirname(name))}")
            lines += [
                f"base64 -d > {shlex.quote('./' + name)} << 'END'",
                base64.encodebytes(content).decode() + "END",
            ]
        script = "\n".join([*lines, "exit"]).encode() + b"\n"
        with _faults():
            number, stream = self._execute(["sh", "-s"], tty=False)
            with contextlib.closing(stream):
                stream.sendall(script)
                while stream.recv(READ_BYTES):
                    pass
            if self._client.api.exec_inspect(number)["ExitCode"] != 0:
                raise BoxError("the files do not fit into the terminal")

    def _execute(self, command: list[str], tty: bool) -> tuple[str, socket.socket]:
        """Start a process in the container; its number, and the socket that is its stdin and output."""
        api = self._client.api
        number = api.exec_create(
            self._container.id, command, stdin=True, tty=tty, environment=ENVIRONMENT, workdir=WORK
        )["Id"]
        stream = _taken(api.exec_start(number, tty=tty, socket=True))
        stream.settimeout(START_TIMEOUT_S)
        return number, stream

    def start_shell(self, end: bool) -> None:
        if end:
            self._signal(signal.SIGKILL, "shell")
        with _faults():
            if self._spawn is not None:
                self._spawn.socket.close()
            self._exec, stream = self._execute(["sh", "-c", _SHELL], tty=True)
            self._spawn = SocketSpawn(stream, maxread=READ_BYTES)
            self._spawn.delaybeforesend = self._spawn.delayafterread = None

    def write(self, data: bytes) -> None:
        assert self._spawn is not None
        try:
            self._spawn.send(data)
        except OSError:
            raise self._ended() from None

    def read(self, timeout_s: float) -> bytes:
        assert self._spawn is not None
        try:
            return self._spawn.read_nonblocking(READ_BYTES, max(timeout_s, 0.001))
        except TIMEOUT:
            return b""
        except (EOF, OSError):
            raise self._ended() from None

    def _ended(self) -> ShellEnded:
        with _faults():
            status = self._client.api.exec_inspect(self._exec)["ExitCode"]
        if not self.alive or status is None:
            raise BoxError("the container of the terminal is gone")
        return ShellEnded(status)

    def send_signal(self, number: signal.Signals) -> None:
        keys = {signal.SIGINT: b"\x03", signal.SIGQUIT: b"\x1c"}
        if number in keys:
            self.write(keys[number])
        else:
            self._signal(number, "others")

    def make_room(self) -> bool:
        least = self.limits.processes // 2
        if not self._signal(signal.SIGSTOP, "others", least):
            return False
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
            self._signal(number, "others")
        return True

    def _signal(self, number: signal.Signals, whom: str, least: int = 0) -> bool:
        arguments = [number.name.removeprefix("SIG"), whom, str(least)]
        return bool(self._container_output(["sh", "-c", _SIGNAL, "sh", *arguments])[1])

    def _container_output(self, command: list[str]) -> tuple[int, bytes]:
        with _faults():
            code, output = self._container.exec_run(command, workdir="/", demux=True, environment=ENVIRONMENT)
        return code, output[0] or b""

    def cpu_s(self) -> float:
        return 0.0

    def read_file(self, path: str, most: int) -> bytes | None:
        code, content = self._container_output(["sh", "-c", _READ, "sh", path, str(most), WORK])
        return content if code == 0 else None

    @property
    def alive(self) -> bool:
        from docker.errors import DockerException

        if self._closed:
            return False
        try:
            self._container.reload()
        except (DockerException, OSError):
            return False
        return self._container.status == "running"

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._spawn is not None:
                self._spawn.socket.close()
            self._stack.close()

    def _remove(self) -> None:
        from docker.errors import DockerException

        with contextlib.suppress(DockerException, OSError):
            self._container.remove(force=True)
        with contextlib.suppress(DockerException, OSError):
            self._container.wait(condition="removed", timeout=10)


def _taken(reader: Any) -> socket.socket:
    """The socket behind the SDK's object for reading, as our own; the SDK closes it only when collected."""
    with contextlib.closing(reader._response):
        return cast(socket.socket, reader._sock.dup())


@contextlib.contextmanager
def _faults() -> Any:
    """What the engine says, as an instrument fault on one line."""
    from docker.errors import DockerException

    try:
        yield
    except (DockerException, OSError) as error:
        raise BoxError(f"Docker: {str(error).splitlines()[0]}") from error
