"""Signals by other names: what the filter denies beside kill()."""

import ctypes
import errno
import os

import pytest

from cef_env.sandbox.seccomp import FCNTL, Mode, deny_filter

F_SETOWN, F_SETSIG, F_SETOWN_EX = 8, 10, 15


@pytest.mark.parametrize("command", [F_SETOWN, F_SETSIG, F_SETOWN_EX])
def test_no_signal_by_the_owner_of_a_descriptor(command: int) -> None:
    """F_SETOWN names any process of the same user, F_SETSIG any signal, O_ASYNC sends it: a kill() by another
    name. Where Landlock does not scope signals, it ends the runner, the judge, and all of the user's processes."""
    if os.uname().machine != "x86_64":
        pytest.skip("x86_64 numbers")
    from cef_env.sandbox.inside import kernel

    seccomp = kernel.SeccompFilter(deny_filter("x86_64", Mode.ALONE))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        kernel.no_new_privileges()
        seccomp.install()
        libc = ctypes.CDLL(None, use_errno=True)
        argument = ctypes.create_string_buffer(8) if command == F_SETOWN_EX else 0
        result = libc.syscall(FCNTL[0], reading, command, argument)
        os._exit(0 if result == -1 and ctypes.get_errno() == errno.EPERM else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(reading), os.close(writing)
    assert status == 0
