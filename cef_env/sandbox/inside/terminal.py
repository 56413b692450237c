"""The first process of a terminal's shell: lays out the files, confines itself, becomes bash.

Runs *inside* bubblewrap as `python -S -s -P -B -c "from inside import terminal; terminal.main()"`, started
anew for every shell by the terminal's pid 1, which is a shell loop (see `pty_line.py`). Stdin is the socket
to the host, stdout the terminal for writing only, stderr the terminal.

Every millisecond here is waited for at the start of every terminal: it imports little, and takes modules of C
where the standard library wraps them in larger ones.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import resource
import sys

sys.modules.setdefault("signal", _signal)  # what it adds to this are enumerations, for 6 ms
from . import kernel  # noqa: E402

ROOT = "/box"
"""Where the one tmpfs of a terminal is mounted first; its folders then appear at their usual places."""
FOLDERS = {"work": "/work", "tmp": "/tmp", "shm": "/dev/shm"}
"""What is in it -> where it appears."""
MS_BIND = 4096
MAX_FDS = 1024
ADDRESS_SPACE_SLACK = 4 << 30
HEADER_BYTES = 8


def main() -> None:
    conn = _socket.socket(fileno=os.dup(0))
    os.dup2(2, 0)
    os.dup2(1, 2)
    config, fds = receive(conn)
    files_fd, *join_fds = fds
    if config["first"]:
        lay_out(config)
    os.chdir(FOLDERS["work"])
    if config["first"]:
        place(config["files"], files_fd, config["uid"])
    bash = unreadable_copy(config["bash"])
    confine(config, join_fds)
    # The host learns our process id from the credentials of this message.
    conn.send(b"+")
    os.closerange(3, bash)
    os.closerange(bash + 1, MAX_FDS)
    arguments = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
    os.execve(bash if bash > 2 else config["bash"], arguments, config["environment"])


def receive(conn: _socket.socket) -> tuple[dict, list[int]]:
    """The host's configuration and the descriptors that came with it; its length comes first."""
    size, data, fds = HEADER_BYTES, b"", []
    while len(data) < size:
        chunk, ancillary, _, _ = conn.recvmsg(size - len(data), _socket.CMSG_SPACE(64))
        if not chunk:
            sys.exit("the host is gone")
        data += chunk
        if size == HEADER_BYTES == len(data):
            size += int.from_bytes(data, "little")
        for _, kind, content in ancillary:
            if kind == _socket.SCM_RIGHTS:
                fds += memoryview(content).cast("i").tolist()
    return marshal.loads(data[HEADER_BYTES:]), fds


def lay_out(config: dict) -> None:
    """One tmpfs, so that one limit of bytes and files holds, seen as three folders."""
    kernel.mount_tmpfs(ROOT, f"size={config['files_bytes']},nr_inodes={config['inodes']},mode=755")
    for name, target in FOLDERS.items():
        path = f"{ROOT}/{name}"
        os.mkdir(path)
        if config["uid"] is not None:
            os.chown(path, config["uid"], config["uid"])
        os.chmod(path, 0o755 if name == "work" else 0o1777)
        bind = kernel.libc.mount(path.encode(), target.encode(), None, kernel.ctypes.c_ulong(MS_BIND), None)
        kernel.check(bind, f"bind {target}")
    kernel.unmount(ROOT)


def place(files: dict[str, int], fd: int, uid: int | None) -> None:
    """Cuts a descriptor into files of the working folder, the user's own; `files` holds names and sizes."""
    start = 0
    os.umask(0o022)
    for name, size in files.items():
        folder = ""
        for part in name.split("/")[:-1]:
            folder = os.path.join(folder, part)
            if not os.path.isdir(folder):
                os.mkdir(folder)
                own(folder, uid)
        with open(name, "wb") as target:
            target.write(os.pread(fd, size, start))
        own(name, uid)
        start += size


def own(path: str, uid: int | None) -> None:
    if uid is not None:
        os.chown(path, uid, uid)


def unreadable_copy(path: str) -> int:
    """A descriptor of bash that may be executed and not read; -1 where the kernel refuses such programs.

    The kernel makes a process of a program that its user cannot read opaque to that user: /proc shows neither
    its memory nor its environment, so what the shell knows stays with it.
    """
    try:
        fd = os.memfd_create("bash", os.MFD_CLOEXEC)
        with open(path, "rb") as source:
            size = os.fstat(source.fileno()).st_size
            while size > os.fstat(fd).st_size:
                os.sendfile(fd, source.fileno(), None, size)
        os.fchmod(fd, 0o111)
    except OSError:
        return -1
    # Written to while it is open here, it could not be executed.
    readable = os.open(f"/proc/self/fd/{fd}", os.O_PATH | os.O_CLOEXEC)
    os.close(fd)
    return readable


def confine(config: dict, join_fds: list[int]) -> None:
    """Limits, control group, user, capabilities, system calls, in this order."""
    # Not a session leader: a leader takes any terminal that it opens, and hangs it up when it ends.
    os.setpgid(0, 0)
    # Python ignores the first two, a script's background the others, and exec would keep that.
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT):
        _signal.signal(number, _signal.SIG_DFL)
    limits = [
        (resource.RLIMIT_CPU, config["cpu_s"], config["cpu_s"] + 1),
        (resource.RLIMIT_FSIZE, config["files_bytes"], config["files_bytes"]),
        (resource.RLIMIT_NOFILE, MAX_FDS, MAX_FDS),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_SIGPENDING, 1024, 1024),
    ]
    if not join_fds:
        limits += [
            (resource.RLIMIT_NPROC, config["processes"], config["processes"]),
            (resource.RLIMIT_DATA, config["memory_bytes"], config["memory_bytes"]),
            (resource.RLIMIT_AS, *[config["memory_bytes"] + ADDRESS_SPACE_SLACK] * 2),
        ]
    for kind, soft, hard in limits:
        kernel.limit(kind, soft, hard)
    for fd in join_fds:
        os.write(fd, b"0")
    uid = config["uid"]
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    kernel.drop_capabilities()
    kernel.no_new_privileges()
    kernel.SeccompFilter(config["seccomp"]).install()
