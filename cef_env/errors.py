"""The errors of the project, by who is at fault.

- a *model fault* (wrong program, no program) is never an exception: it is a verdict or an outcome;
- a `UserError` is a mistake in what was asked for: one line that names the field or file and the
  remedy; the command line prints it without a traceback and exits with status 2;
- an `InstrumentError` is a failure of the judge, the sandbox or the machine: it never becomes a
  reward, a verdict or a statistic.
"""


class CefError(Exception):
    """Root of every error that this project raises on purpose."""


class UserError(CefError, ValueError):
    """The caller asked for something that cannot be done; the message says what to change."""


class InUseError(UserError):
    """Another process works on what this one was asked to work on."""


class SandboxUnavailableError(UserError):
    """No isolation tier works on this machine; the message says how to get one."""


class InstrumentError(CefError, RuntimeError):
    """The measuring instrument failed; the measurement does not exist."""


class JudgeError(InstrumentError):
    """The judge could not reach a verdict (box died, protocol broken, checker failed)."""


class CheckerError(JudgeError):
    """The checker program of a problem failed: it does not compile, crashed, or reported a fault."""
