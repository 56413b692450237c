"""The `cef` command: every subsystem from a terminal. The commands themselves are in `commands/`.

Imports each subsystem only when it is used. Exit status: 0 when the work is done, 2 when the request was
wrong, 3 when the instrument failed, 130 when interrupted (run the same command again to continue).
"""

import atexit
import gc
import io
import os
import sys
from typing import Annotated, Any

import typer

from cef_env.commands import agents, evaluation, judging, merging, playing, showing, training
from cef_env.commands.console import errors, plain
from cef_env.commands.openrlhf import openrlhf_app
from cef_env.commands.problems import problems_app
from cef_env.commands.serving import serve_app
from cef_env.errors import CefError, InstrumentError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def options(debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False) -> None:
    """Correctness-efficiency frontiers in code RL: environments, training, merging, evaluation."""
    if debug:
        os.environ["CEF_DEBUG"] = "1"


for command in (
    training.reproduce,
    evaluation.report,
    judging.doctor,
    judging.judge,
    playing.play,
    agents.rollout,
    showing.show,
    merging.merge,
):
    app.command()(command)
app.add_typer(evaluation.eval_app, name="eval")
app.add_typer(problems_app, name="problems")
app.add_typer(training.train_app, name="train")
app.add_typer(openrlhf_app, name="openrlhf")
app.add_typer(serve_app, name="serve")


def main() -> Any:
    """Entry point of the `cef` command."""
    atexit.register(gc.freeze)  # the end of the process frees all; looking for cycles first takes 0.1 s
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # one progress bar is enough: ours
    for stream in (sys.stdout, sys.stderr):
        if (
            isinstance(stream, io.TextIOWrapper) and stream.errors == "strict"
        ):  # names of files may be no text; a terminal may be ASCII
            stream.reconfigure(errors="backslashreplace")
    try:
        return app()
    except SystemExit as end:
        # typer turns an interrupt into this exit
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            errors.print("interrupted; run the same command again to continue")
        raise
    except (CefError, OSError) as error:
        if os.environ.get("CEF_DEBUG"):
            raise
        if isinstance(error, OSError):  # disk full, no permission, a file where a folder should be
            place = "" if error.filename is None else f" ({error.filename})"
            errors.print(
                plain(
                    f"cef: {error.strerror or error}{place}; run the same command again when this is mended"
                ),
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            sys.exit(2)
        errors.print(plain(f"cef: {error}"), markup=False, highlight=False, soft_wrap=True)
        sys.exit(3 if isinstance(error, InstrumentError) else 2)


if __name__ == "__main__":
    main()
