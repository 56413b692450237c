"""One judge for all environments of a process, started when the first program is judged.

A judge is a pool of sandboxes; sixty environments do not need sixty pools.
"""

import atexit
import os
import threading

from cef_env.judge.judge import Judge

_lock = threading.Lock()
_judge: Judge | None = None
_owner = 0


def shared_judge() -> Judge:
    """The process's judge, with default settings; closed when the process ends.

    A forked child gets one of its own, since boxes answer to the process that started them.
    """
    global _judge, _owner
    with _lock:
        if _judge is None or _owner != os.getpid():
            _judge, _owner = Judge(), os.getpid()
            atexit.register(_judge.close)
        return _judge
