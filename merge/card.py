"""The model card of a merged checkpoint: its recipe, and what rounding left of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cef_env.merge.compatibility import TOKENIZER

if TYPE_CHECKING:
    from cef_env.merge.planning import Output, Plan


def model_card(plan: "Plan", output: "Output", record: dict[str, Any]) -> str:
    """README.md of one output; `record` is its `cef_merge.json`."""
    names = [source["name"] for source in record["sources"]]
    terms = [f"{weight:g} * {name}" for weight, name in zip(output.weights, names) if weight]
    where = "inside" if all(0 <= weight <= 1 for weight in output.weights) else "outside"
    title = f"{plan.axis} {output.position:g}" if output.position is not None else "given weights"
    effective = record["effective_weights"]
    after = "undefined, sources are equal" if effective is None else ", ".join(f"{w:.6g}" for w in effective)
    rounding = f"stochastic, seed {plan.seed}" if plan.round == "stochastic" else "nearest"
    side = 0 if plan.tokenizer_from == "low" else -1
    held = any((plan.sources[side].path / name).is_file() for name in TOKENIZER)
    of = names[side]
    tokenizer = f"tokenizer and chat template those of {of}" if held else f"{of} has no tokenizer"
    lines = [
        "---",
        "library_name: transformers",
        "tags: [merge, cef-env]",
        "---",
        f"# {', '.join(names[:-1])} and {names[-1]} at {title}",
        "",
        f"theta = {' + '.join(terms)}: a weighted average, {where} [0, 1], of",
        f"{len(names)} checkpoints (arXiv 2605.28751), made by cef-env without training.",
        "",
        "| | |",
        "|---|---|",
        *(
            f"| {source['label']} | {source['name']}, weight {source['weight']!r}, fingerprint "
            f"`{source['fingerprint'][:16]}` |"
            for source in record["sources"]
        ),
        f"| effective weights after rounding | {after} |",
        f"| rounding | {rounding} |",
        f"| weights equal in all sources | {record['frac_unchanged']:.2%} |",
        f"| weights equal to {names[-1]}'s | {record['frac_equal_high']:.2%} |",
        "",
        f"Config and generation config are those of {names[-1]}, {tokenizer}.",
        "`cef_merge.json` holds the full record.",
        *(f"\nWarning: {line}." for line in record["warnings"]),
    ]
    return "\n".join(lines) + "\n"


def short_names(paths: Sequence[Path]) -> list[str]:
    """The ends of `paths`, as long as it takes to tell them apart: low/model and high/model."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-length:]) for each in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names
