"""What host and zygote say to each other: message kinds, the report of one execution, its constants.

Messages are packets of a SOCK_SEQPACKET socket; the host speaks first. Descriptors travel with them.

    C  JSON configuration          descriptors: cgroup.procs of each hierarchy, then the CPU counter
                                                (none without control groups)       -> READY or MISSING
    P  JSON program and limits     descriptors: the source text or executable        -> RESULT + message
    T  JSON arguments, file names  descriptors: stdin, stdout, stderr, files, collect -> RESULT
    E  end of the program                                                            -> nothing
"""

import struct

READY, MISSING = b"ready", b"missing "
"""The zygote's first message; the second goes on with the package that cannot be imported, in words."""
RESULT = struct.Struct("<iqqqB")
"""wait status, CPU ns, wall ns, peak resident KiB, stop reason."""
STOP_NONE, STOP_CPU, STOP_WALL = 0, 1, 2
COMPILE_ERROR_STATUS = 3
"""Exit status of the child that compiles Python source, when it does not compile."""
MAX_MESSAGE = 1 << 16
MAX_DESCRIPTORS = 32

# Kinds of program.
PYTHON, NATIVE, COMMAND = "python", "native", "command"
"""Source text, an executable in a descriptor, an executable that lies in the box (a compiler)."""
WORK = "/box/work"
"""Working directory of a test."""
