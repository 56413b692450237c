"""The real vLLM, its offline engine and its server: ids and log-probs are the model's, and tools are used."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from cef_env.agents import Agent, Message, Trajectory, make_agent, rollout
from cef_env.agents.transformers_agent import load_model
from cef_env.agents.vllm_agent import VLLMAgent
from cef_env.envs import CutText, ToolUseEnv
from cef_env.errors import UserError
from cef_env.judge import Judge, Outcome
from cef_env.problems import ProblemSet
from cef_env.training.data import answer_logprobs
from tests.agents.conftest import Talk
from tests.vllm.conftest import ANSWER, CALL, ENGINE

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here; run make test-vllm", allow_module_level=True)

TEMPERATURE = 2.0  # so that the model says what nobody would tokenize as it does


def user(content: str) -> list[Message]:
    return [{"role": "user", "content": content}]


@pytest.fixture(scope="module")
def agent(checkpoint: Path, double: ProblemSet) -> VLLMAgent:
    made = make_agent(f"vllm:{checkpoint}", double, temperature=TEMPERATURE, max_new_tokens=40, **ENGINE)
    assert isinstance(made, VLLMAgent)
    return made


def require_model_logprobs(checkpoint: Path, trajectory: Trajectory, temperature: float) -> None:
    """The sampler's log-probs are those of a full forward pass over the trajectory's tokens."""
    model, _ = load_model(checkpoint)
    with torch.no_grad():
        full = answer_logprobs(model, torch.tensor([trajectory.tokens]), temperature)[0]
    mask = torch.tensor(trajectory.mask).bool()
    assert mask.any()
    assert torch.allclose(full[mask[1:]], torch.tensor(trajectory.logprobs)[mask], atol=1e-3)


def test_equal_conversations_are_one_request_and_seeds_repeat(
    agent: VLLMAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[int]] = []
    generate = agent.llm.generate

    def spy(prompts: Any, params: Any, **rest: Any) -> Any:
        asked.append([each.n for each in params])
        return generate(prompts, params, **rest)

    monkeypatch.setattr(agent.llm, "generate", spy)
    conversations = [user("One.\n"), user("Two.\n"), user("One.\n"), user("One.\n")]
    first, again, other = (agent.act_batch(conversations, seed) for seed in (1, 1, 2))
    assert asked == [[3, 1]] * 3
    assert first == again
    assert first != other
    ones = {first[index].token_ids for index in (0, 2, 3)}
    assert len(ones) == 3
    assert {first[index].prompt_ids for index in (0, 2, 3)} == {first[0].prompt_ids} != {first[1].prompt_ids}


def test_over_turns_the_engine_is_fed_the_very_ids_that_it_sampled(
    agent: VLLMAgent, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[list[int]] = []
    generate = agent.llm.generate

    def spy(prompts: Any, params: Any, **rest: Any) -> Any:
        fed.extend(prompt["prompt_token_ids"] for prompt in prompts)
        results = generate(prompts, params, **rest)
        assert [result.prompt_token_ids for result in results] == fed[-len(results) :]
        return results

    monkeypatch.setattr(agent.llm, "generate", spy)
    (trajectory,) = rollout([Talk(3)], agent, [None], seed=5)
    assert list(trajectory.tokens) == fed[2] + list(trajectory.replies[2].token_ids)
    for turn in (1, 2):
        before = trajectory.replies[turn - 1]
        assert tuple(fed[turn])[: len(fed[turn - 1]) + len(before.token_ids)] == (
            before.prompt_ids + before.token_ids
        )
    text = agent.tokenizer.apply_chat_template(list(trajectory.messages), tokenize=False)
    encoded = agent.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert encoded[: len(trajectory.tokens)] != list(trajectory.tokens)
    require_model_logprobs(checkpoint, trajectory, TEMPERATURE)
    assert agent.llm.llm_engine.vllm_config.cache_config.enable_prefix_caching


def test_stop_strings_end_the_answer_and_belong_to_it(agent: VLLMAgent, monkeypatch: Any) -> None:
    monkeypatch.setattr(agent, "stop", ["a"])
    replies = agent.act_batch([user(f"{number}\n") for number in range(20)], seed=0)
    stopped = [reply for reply in replies if "a" in reply.text]
    assert stopped
    for reply in stopped:
        assert reply.text.index("a") == len(reply.text) - 1
        assert not isinstance(reply.text, CutText)
        assert len(reply.logprobs) == len(reply.token_ids)


def test_budgets_and_contexts_are_kept(agent: VLLMAgent) -> None:
    cut = agent.act_batch([user("Hello.\n")] * 8, seed=0)
    assert max(len(reply.token_ids) for reply in cut) == 40
    assert all(isinstance(reply.text, CutText) == (len(reply.token_ids) == 40) for reply in cut)
    with pytest.raises(UserError, match="context of 2048"):
        agent.act(user("é" * 3000))
    full: list[Message] = [*user("Hello."), {"role": "assistant", "content": "é" * 3000}, *user("More.")]
    assert agent.act(full) == ""
    assert isinstance(agent.act(full), CutText)


@pytest.mark.parametrize("scheme", ["hf", "vllm", "openai"])
def test_every_adapter_uses_the_tool_and_answers(
    scheme: str, agent: VLLMAgent, checkpoint: Path, double: ProblemSet, judge: Judge, request: Any
) -> None:
    options: dict[str, Any] = {"temperature": 0.1, "max_new_tokens": 200}
    player: Agent
    if scheme == "vllm":
        for name, value in options.items():
            request.getfixturevalue("monkeypatch").setattr(agent, name, value)
        player = agent
    else:
        url = request.getfixturevalue("server") if scheme == "openai" else ""
        spec = {"hf": f"hf:{checkpoint}", "openai": f"openai:tiny@{url}"}[scheme]
        player = make_agent(spec, double, **options)
    envs = [ToolUseEnv(problems=double, judge=judge) for _ in range(3)]
    try:
        trajectories = rollout(envs, player, ["double"] * 3, seed=1)
    finally:
        for env in envs:
            env.close()
    for trajectory in trajectories:
        said = [message["content"] for message in trajectory.messages if message["role"] == "assistant"]
        assert said == [CALL, ANSWER]
        assert trajectory.outcome is Outcome.CORRECT
        assert trajectory.info["tool_calls"] == 1
        for reply in trajectory.replies:
            one = Trajectory("double", (), 0.0, Outcome.CORRECT, replies=(reply,))
            require_model_logprobs(checkpoint, one, 0.1)
        if scheme != "openai":
            require_model_logprobs(checkpoint, trajectory, 0.1)


def test_the_server_cuts_refuses_and_repeats(server: str, double: ProblemSet) -> None:
    remote = make_agent(f"openai:tiny@{server}", double, max_new_tokens=5)
    replies, again = (remote.act_batch([user("Hello.\n")] * 3, seed=4) for _ in range(2))  # type: ignore[attr-defined]
    assert replies == again
    assert len({reply.token_ids for reply in replies}) == 3
    assert all(isinstance(reply.text, CutText) == (len(reply.token_ids) == 5) for reply in replies)
    with pytest.raises(UserError, match=r"status 404: .*nobody"):
        make_agent(f"openai:nobody@{server}", double).act(user("Hello."))
    with pytest.raises(UserError, match=r"status 400: .*2048"):
        remote.act(user("é" * 3000))
    grown: list[Message] = [*user("Hello."), {"role": "assistant", "content": "é" * 3000}, *user("More.")]
    assert isinstance(remote.act(grown), CutText)


def test_what_the_engine_does_not_take_is_a_user_error(checkpoint: Path, double: ProblemSet) -> None:
    with pytest.raises(UserError, match="the engine did not start"):
        make_agent(f"vllm:{checkpoint}", double, no_such_argument=1)
    with pytest.raises(UserError, match=r"temperature must be in \[0, 2\]"):
        make_agent(f"vllm:{checkpoint}", double, temperature=3.0)
    with pytest.raises(UserError, match=r"no config\.json"):
        make_agent("vllm:/nowhere", double)
