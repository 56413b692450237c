"""The model card of a merged checkpoint: its recipe, and what rounding left of it."""

from typing import TYPE_CHECKING, Any

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
    tokenizer = names[0 if plan.tokenizer_from == "low" else -1]
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
        f"Config and generation config are those of {names[-1]}, tokenizer and chat template those of",
        f"{tokenizer}. `cef_merge.json` holds the full record.",
        *(f"\nWarning: {line}." for line in record["warnings"]),
    ]
    return "\n".join(lines) + "\n"
