"""Who answers: from the options of a sweep to members, and from a member to the agent that plays it.

A member is a checkpoint at one alpha (merged in memory, in this process or inside vLLM's workers, or served
by an agent of its own) or a control: an endpoint displaced in a random direction as far as alpha displaces it
(`controls.py`), or one checkpoint at a higher temperature. Controls are ordinary members: same problems, same
budget, same statistics.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cef_env.agents import Agent, make_agent
from cef_env.errors import UserError
from cef_env.eval.records import Member, short
from cef_env.merge import apply_alpha, load_state_dict
from cef_env.problems import ProblemSet

if TYPE_CHECKING:
    import torch

RANDOM = "random-direction"
TEMPERATURE = "temperature"
_ENDS = 1 << 20


@dataclass(frozen=True)
class Recipe:
    """How one member is made."""

    member: Member
    agent: str
    """Agent string."""
    merge: float | None = None
    """Alpha whose weights are put into the agent's model; None leaves the model as it is."""
    random: bool = False
    """Displace in a random direction instead of along high - low."""
    temperature: float | None = None
    """Of sampling, where it differs from that of the sweep."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def merged_recipes(agent: str, alphas: Sequence[float], controls: Sequence[str]) -> list[Recipe]:
    """Members of a sweep between two checkpoints, controls last.

    `controls`: `random-direction` (one for each alpha outside [0, 1]) and `temperature=T,...` (the high
    checkpoint at each T).
    """
    recipes = [Recipe(Member(a + 0.0), agent, merge=a + 0.0) for a in alphas]
    for control in controls:
        if control == RANDOM:
            outside = [a for a in alphas if not 0 <= a <= 1]
            if not outside:
                raise UserError(f"--control {RANDOM}: no alpha lies outside [0, 1], so nothing is displaced")
            recipes += [
                Recipe(Member(None, f"random {short(a)}"), agent, merge=a, random=True) for a in outside
            ]
        else:
            recipes += [
                Recipe(Member(None, f"{TEMPERATURE} {t:g}"), agent, merge=1.0, temperature=t)
                for t in _temperatures(control)
            ]
    return _distinct(recipes)


def plain_recipes(
    agent: str | None, alpha: float | None, named: Sequence[str], controls: Sequence[str]
) -> list[Recipe]:
    """Members that are agents of their own: `agent` (at `alpha`, or labelled by itself), LABEL=AGENT each.

    A LABEL that is a number is an alpha. `temperature=T,...` is the one control that needs no endpoints.
    """
    recipes = []
    if agent is not None:
        recipes.append(Recipe(Member(alpha) if alpha is not None else Member(None, agent), agent))
    for text in named:
        label, mark, spec = text.partition("=")
        if not mark or not label.strip() or not spec:
            raise UserError(f"--member {text!r}: write LABEL=AGENT, such as 0.5=hf:PATH or base=hf:PATH")
        recipes.append(Recipe(Member.parse(label), spec))
    if not recipes:
        raise UserError("nobody answers: give --agent, --member, or --low and --high")
    for control in controls:
        if control == RANDOM:
            raise UserError(f"--control {RANDOM} needs the endpoints: give --low and --high")
        first = recipes[0].agent
        recipes += [
            Recipe(Member(None, f"{TEMPERATURE} {t:g}"), first, temperature=t) for t in _temperatures(control)
        ]
    return _distinct(recipes)


def _temperatures(control: str) -> list[float]:
    name, _, values = control.partition("=")
    try:
        found = [float(value) for value in values.split(",")]
    except ValueError:
        found = []
    if name != TEMPERATURE or not found or not all(0 < t < float("inf") for t in found):
        raise UserError(f"--control {control!r}: use {RANDOM} or {TEMPERATURE}=1.2,1.5")
    return found


def _distinct(recipes: list[Recipe]) -> list[Recipe]:
    seen: set[Member] = set()
    for recipe in recipes:
        if recipe.member in seen:
            raise UserError(f"member {recipe.member.name} is given twice; give each a name of its own")
        seen.add(recipe.member)
    return recipes


class Agents:
    """Makes the agent of each member; consecutive members that share an agent string share its model.

    Args:
        recipes: of all members.
        problems: what they will play.
        options: of every agent (`temperature`, `max_new_tokens`), passed to `make_agent`.
        endpoints: checkpoint directories low and high, where some recipe merges.
        seed: of random directions.
    """

    def __init__(
        self,
        recipes: Sequence[Recipe],
        problems: ProblemSet,
        options: Mapping[str, Any],
        endpoints: tuple[Path, Path] | None,
        seed: int,
    ) -> None:
        self._recipes = {recipe.member: recipe for recipe in recipes}
        self._problems, self._options, self._seed = problems, dict(options), seed
        self._endpoints = endpoints
        self._made: tuple[str, Agent] | None = None

    def __call__(self, member: Member) -> Agent:
        recipe = self._recipes[member]
        if self._made is None or self._made[0] != recipe.agent:
            self._made = None  # two models need not fit into memory
            options = dict(self._options)
            if recipe.merge is not None and recipe.agent.startswith("vllm:"):
                options["worker_extension_cls"] = _vllm().EXTENSION
            self._made = recipe.agent, make_agent(recipe.agent, self._problems, **options)
        agent = self._made[1]
        if recipe.merge is not None:
            self._set_weights(agent, recipe, recipe.merge)
        self._set_temperature(agent, recipe)
        return agent

    def _set_weights(self, agent: Agent, recipe: Recipe, alpha: float) -> None:
        assert self._endpoints is not None
        model: Any = getattr(agent, "model", None)
        if hasattr(agent, "llm") and not recipe.random:
            _vllm().set_alpha(agent.llm, *self._endpoints, alpha)
        elif not hasattr(model, "state_dict"):
            raise UserError(
                f"agent {recipe.agent!r} holds no model whose weights can be set so; merge with cef merge, "
                "and give each checkpoint as --member ALPHA=AGENT"
            )
        elif recipe.random:
            from cef_env.eval.controls import apply_random_direction

            apply_random_direction(model, *self._weights, alpha, self._seed)
        else:
            apply_alpha(model, *self._weights, alpha)

    @cached_property
    def _weights(self) -> "tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]":
        """Of low and high, read when the first model in this process needs them."""
        assert self._endpoints is not None
        low, high = self._endpoints
        return load_state_dict(low), load_state_dict(high)

    def _set_temperature(self, agent: Agent, recipe: Recipe) -> None:
        if hasattr(agent, "temperature"):
            usual = self._options.get("temperature", 1.0)
            agent.temperature = usual if recipe.temperature is None else recipe.temperature
        elif recipe.temperature is not None:
            raise UserError(f"agent {recipe.agent!r} has no temperature, so it cannot be that control")


def _vllm() -> Any:
    """What sets alpha inside a vLLM engine."""
    return import_module("cef_env.merge.vllm_worker")


def fingerprint(checkpoint: Path) -> str:
    """Names the weights of a checkpoint wherever it lies: from names, sizes and both ends of its files."""
    files = sorted(checkpoint.glob("*.safetensors"))
    if not files:
        raise UserError(f"checkpoint {str(checkpoint)!r}: no *.safetensors there; give a model directory")
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}/{size}/".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(_ENDS))
            stream.seek(max(0, size - _ENDS))
            digest.update(stream.read(_ENDS))
    return digest.hexdigest()


def union(sets: Mapping[str, ProblemSet]) -> ProblemSet:
    """All problems of several splits as one set, for agents that look problems up."""
    if len(sets) == 1:
        return next(iter(sets.values()))
    home = {id_: problems for problems in sets.values() for id_ in problems.ids}
    return ProblemSet("+".join(s.name for s in sets.values()), home, lambda id_: home[id_].get(id_))
