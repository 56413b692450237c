"""Where the outputs of a plan go: not onto an input or anything else, and only where there is room.

Writes nothing.
"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cef_env.errors import UserError
from cef_env.merge.checkpoint import read_json

if TYPE_CHECKING:
    from cef_env.merge.planning import Output, Plan

RECORD = "cef_merge.json"

_MARGIN = 64 << 20  # room left for tokenizers, headers and the file system's own records


def check_output(plan: "Plan", out: str | os.PathLike[str]) -> int:
    """Free bytes where `out` is or will be.

    Raises `UserError`: it is an input or a file, an output's name is taken, the disk is too small.

    Outputs and shards that are there already need no room again.
    """
    out = Path(out)
    targets = [out / output.name for output in plan.outputs]
    for source in plan.sources:
        for path in (out, *targets):
            if path.resolve() == source.path.resolve():
                raise UserError(f"{path}: is an input of the merge; choose another output directory")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; choose another output directory")
    missing = [
        target for target, output in zip(targets, plan.outputs) if not is_complete(target, plan, output)
    ]
    partials = [target.with_name(f"{target.name}.partial-{plan.hash}") for target in missing]
    # Blocks rather than sizes: a shard that a full disk cut short may be sparse.
    held = sum(f.stat().st_blocks * 512 for p in partials if p.exists() for f in p.iterdir())
    needed = plan.bytes_per_output * len(missing) + _MARGIN - held if missing else 0
    free = shutil.disk_usage(next(p for p in (out, *out.absolute().parents) if p.exists())).free
    if needed > free:
        raise UserError(
            f"{out}: {len(missing)} outputs need {needed / 1e9:.2f} GB, the disk has {free / 1e9:.2f} GB; "
            "free some, give fewer alphas, or use apply_alpha, which needs no disk"
        )
    return free


def is_complete(target: Path, plan: "Plan", output: "Output") -> bool:
    """Whether `target` is the finished `output`; a `UserError` if it is anything else."""
    if not target.exists():
        return False
    recipe = plan.recipe(output)
    held = read_json(target / RECORD).get("recipe") if (target / RECORD).is_file() else None
    if held == recipe:
        return True
    differs = [key for key in recipe if not isinstance(held, dict) or held.get(key) != recipe[key]]
    what = f" (its recipe has other {', '.join(differs)})" if held else ""
    raise UserError(
        f"{target}: exists and holds something else{what}; remove it or choose another output directory"
    )
