"""`cef merge`: checkpoints at alphas inside and outside [0, 1]."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from cef_env.commands.console import Out, console
from cef_env.errors import UserError


def merge(
    low: Annotated[Path, typer.Argument(help="Checkpoint of the smaller coverage (alpha 0).")],
    high: Annotated[Path, typer.Argument(help="Checkpoint of the larger coverage (alpha 1).")],
    out: Out,
    alpha: Annotated[str, typer.Option(help="Numbers and ranges: -0.5:1.5:0.25 or 0.5,1.2")],
) -> None:
    """Writes theta(alpha) = alpha * high + (1 - alpha) * low for every alpha."""
    from cef_env.merge import plan, run

    for path in run(plan(low, high, parse_alphas(alpha)), out):
        console.print(escape(str(path)), soft_wrap=True)


def parse_alphas(text: str) -> list[float]:
    """Alphas from `a,b,c` and `start:stop:step` (both ends included)."""
    alphas: list[float] = []
    for part in text.split(","):
        try:
            numbers = [float(piece) for piece in part.split(":")]
        except ValueError as error:
            raise UserError(f"alpha {part!r} is not a number or start:stop:step") from error
        if len(numbers) == 1:
            alphas += numbers
            continue
        if len(numbers) != 3 or numbers[2] <= 0 or numbers[1] < numbers[0]:
            raise UserError(f"alpha range {part!r}: use start:stop:step with start <= stop and step > 0")
        start, stop, step = numbers
        count = round((stop - start) / step)
        alphas += [round(start + i * step, 10) for i in range(count + 1) if start + i * step <= stop + 1e-9]
    return alphas
