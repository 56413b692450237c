"""The sampling of `cef reproduce`: the sweep over alpha, and the checkpoints that are evaluated beside it.

Alphas and controls make one sweep, further RL runs another with the same problems and as many answers.
Does not compute statistics and trains nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cef_env.eval.members import Recipe, merged_recipes
from cef_env.eval.plan import FILE, Plan, Work
from cef_env.eval.records import Member
from cef_env.eval.shape import STABLE
from cef_env.files import write_json
from cef_env.problems import ProblemSet
from cef_env.training.config import Config

if TYPE_CHECKING:
    from cef_env.agents.transformers_agent import TransformersAgent
    from cef_env.experiment.stages import Run


def evaluation_problems(config: Config) -> dict[str, ProblemSet]:
    """The held-out problems of each split: fixed by a seed, disjoint from training by composition."""
    from cef_env.training.settings import problems_of

    seed = config.seed if config.sweep.problem_seed is None else config.sweep.problem_seed
    return {split: problems_of(config, split, count, seed) for split, count in config.sweep.problems.items()}


def recipes(config: Config) -> list[Recipe]:
    """Alphas in ascending order, then controls; those in random directions imitate the stable alphas."""
    alphas = config.sweep.alphas
    stable = [a for a in alphas if STABLE[0] <= a <= STABLE[1]]
    controls = [r for r in merged_recipes("", stable, config.sweep.controls) if r.member.alpha is None]
    return merged_recipes("", alphas, ()) + controls


def sweep_plan(config: Config, problems: dict[str, ProblemSet], members: list[Member]) -> Plan:
    """Members outer loop; a chunk holds all answers to some problems."""
    work = tuple(
        Work(member, split, problem_set.ids, config.sweep.samples)
        for member in members
        for split, problem_set in problems.items()
    )
    identity = {"seed": config.seed, "temperature": config.sweep.temperature}
    return Plan(work, config.sweep.chunk_problems, config.sweep.samples, identity)


def keep_plan(folder: Path, config: Config) -> None:
    """Writes the plan of a sweep over alpha that has none: runs of earlier versions kept samples alone, and
    their config.json says already whose they are."""
    if not (folder / FILE).exists():
        members = [recipe.member for recipe in recipes(config)]
        write_json(folder / FILE, sweep_plan(config, evaluation_problems(config), members).to_json())


def sweep_stage(run: "Run", folder: Path) -> None:
    from cef_env.eval.controls import apply_random_direction
    from cef_env.merge import apply_alpha, load_state_dict

    agent = _agent(run)
    low, high = (load_state_dict(run.endpoint(name)) for name in ("low", "high"))
    known = {recipe.member: recipe for recipe in recipes(run.config)}

    def agent_of(member: Member) -> "TransformersAgent":
        recipe = known[member]
        assert recipe.merge is not None
        if recipe.random:
            apply_random_direction(agent.model, low, high, recipe.merge, run.config.seed)
        else:
            apply_alpha(agent.model, low, high, recipe.merge)
        agent.temperature = recipe.temperature or run.config.sweep.temperature
        return agent

    keep_plan(folder, run.config)
    _sample(run, folder, list(known), agent_of)


def variants_stage(run: "Run", folder: Path) -> None:
    """The warm start and the checkpoint of every variant."""
    from cef_env.agents.transformers_agent import load_model

    agent = _agent(run)
    paths = {Member(None, WARM_START): run.warm_start}
    paths |= {Member(None, name): run.endpoint(name) for name in run.config.variants}

    def agent_of(member: Member) -> "TransformersAgent":
        agent.model.load_state_dict(load_model(paths[member])[0].state_dict())
        return agent

    _sample(run, folder, list(paths), agent_of)


WARM_START = "warm start"


def _agent(run: "Run") -> "TransformersAgent":
    """Holds the warm start, in float32."""
    from cef_env.agents.transformers_agent import TransformersAgent, load_model
    from cef_env.training.hardware import Hardware

    model, tokenizer = load_model(run.warm_start)
    model.to(Hardware.choose("float32").device)
    return TransformersAgent(model, tokenizer, run.config.sweep.temperature, run.config.max_new_tokens)


def _sample(
    run: "Run", folder: Path, members: list[Member], agent_of: Callable[[Member], "TransformersAgent"]
) -> None:
    from cef_env.eval.sampling import sweep
    from cef_env.training.settings import ENVIRONMENTS, env_options

    config = run.config
    problems = evaluation_problems(config)
    plan = sweep_plan(config, problems, members)
    with run.reporter.bar(folder.name, sum(chunk.size for chunk in plan.chunks())) as progress:
        env_id, options = ENVIRONMENTS[config.setting], env_options(config)
        sweep(plan, folder, agent_of, problems, run.judge, config.seed, progress, env_id, options)
