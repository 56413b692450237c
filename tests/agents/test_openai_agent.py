"""A server of chat completions, good and bad: what it is asked, what is kept, and how it is given up."""

import asyncio
import socket
import threading
import time
from email.utils import formatdate
from typing import Any

import pytest

from cef_env.agents import Message, make_agent, rollout
from cef_env.agents.http_retry import Retry
from cef_env.agents.openai_agent import OpenAIAgent, split_spec
from cef_env.envs import CutText, ToolUseEnv
from cef_env.envs.tools import call_text
from cef_env.errors import InstrumentError, UserError
from cef_env.judge import Judge, Outcome
from cef_env.problems import ProblemSet
from tests.agents import server as fake
from tests.agents.server import completion, fails, says, sends, serving

HELLO: list[Message] = [{"role": "user", "content": "Hello."}]
QUICK = Retry(attempts=3, first_s=0.01, patience_s=5)


@pytest.fixture(autouse=True)
def no_key_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def agent_of(server: fake.Server, **options: Any) -> OpenAIAgent:
    return OpenAIAgent("m", server.url, **{"retry": QUICK, "timeout_s": 5.0} | options)


def test_an_answer_its_ids_and_log_probs_are_kept() -> None:
    tokens = [{"token": "hi", "logprob": -0.5, "bytes": None}, {"token": "!", "logprob": -1.25}]
    choice = {"logprobs": {"content": tokens}, "token_ids": [5, 6]}
    body = completion("hi!", **choice)[:-1] + b', "prompt_token_ids": [1, 2, 3]}'
    with serving(sends(body)) as server:
        (reply,) = agent_of(server, temperature=0.7, max_new_tokens=9).act_batch([HELLO], seed=1)
    assert (reply.text, reply.prompt_ids, reply.token_ids) == ("hi!", (1, 2, 3), (5, 6))
    assert reply.logprobs == (-0.5, -1.25)
    assert not isinstance(reply.text, CutText)
    (asked,) = server.requests
    assert asked["messages"] == HELLO
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("m", 0.7, 9)


def test_what_ran_out_of_tokens_is_cut() -> None:
    with serving(says("I was about", finish_reason="length")) as server:
        assert isinstance(agent_of(server).act(HELLO), CutText)


def test_replies_are_in_order_and_each_request_has_a_seed() -> None:
    def echoes(handler: fake.Handler, body: dict[str, Any]) -> None:
        text = body["messages"][0]["content"]
        time.sleep(0.05 if text == "0" else 0)
        handler.reply(200, completion(text))

    conversations: list[list[Message]] = [[{"role": "user", "content": str(i)}] for i in range(12)]
    with serving(echoes) as server:
        agent = agent_of(server, concurrency=3)
        replies = agent.act_batch(conversations, seed=1)
        agent.act_batch(conversations, seed=1)
        agent.act_batch(conversations, seed=2)
    assert [reply.text for reply in replies] == [str(i) for i in range(12)]
    assert server.most_busy <= 3
    seeds = [
        {body["messages"][0]["content"]: body["seed"] for body in server.requests[start : start + 12]}
        for start in (0, 12, 24)
    ]
    assert seeds[0] == seeds[1] != seeds[2]
    assert len(set(seeds[0].values())) == 12


def test_the_key_is_sent_when_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(says("hi")) as server:
        agent_of(server).act(HELLO)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        agent_of(server).act(HELLO)
    assert "Authorization" not in server.headers[0]
    assert server.headers[1]["Authorization"] == "Bearer sk-1"


@pytest.mark.parametrize(
    "bad",
    [
        fails(429, "slow down"),
        fails(500),
        fails(503, "loading"),
        fake.drops,
        fake.truncates,
        sends(b'{"choices": [{"mess'),
        sends(b'{"object": "list"}'),
        sends(b'{"choices": []}'),
        sends(b'{"choices": [{"message": {"content": 5}}]}'),
        sends(b"\xff\xfe"),
        sends(b"[" * 100_000),
        says("hi", logprobs={"content": [{"token": "hi", "logprob": float("-inf")}]}),
        says("hi", logprobs={"content": [{"token": "hi", "logprob": float("nan")}]}),
    ],
)
def test_a_fault_that_passes_costs_only_an_attempt(bad: fake.Behaviour) -> None:
    with serving(bad, bad, says("hi")) as server:
        assert agent_of(server).act(HELLO) == "hi"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        (fails(429, "slow down"), "status 429: slow down"),
        (fails(502, "bad gateway"), "status 502: bad gateway"),
        (fake.drops, "RemoteProtocolError"),
        (fake.truncates, "RemoteProtocolError"),
        (sends(b'{"choices": [{"mess'), "not JSON"),
        (sends(b'{"object": "list"}'), "choices: Field required"),
        (sends(b'{"choices": []}'), "choices: there is none"),
        (fake.hangs, "no whole answer within the time"),
        (fake.trickles, "no whole answer within the time"),
        (fake.trickles_headers, "no whole answer within the time"),
    ],
)
def test_a_fault_that_stays_is_an_instrument_fault_with_server_and_cause(
    bad: fake.Behaviour, cause: str
) -> None:
    with serving(bad) as server:
        begun = time.monotonic()
        with pytest.raises(InstrumentError) as error:
            agent_of(server, timeout_s=0.3).act(HELLO)
        assert time.monotonic() - begun < 3
        assert server.url in str(error.value)
    assert "after 3 attempts" in str(error.value)
    assert cause in str(error.value)
    assert "\n" not in str(error.value)


def test_no_server_is_an_instrument_fault() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        agent = OpenAIAgent("m", f"http://127.0.0.1:{taken.getsockname()[1]}/v1", retry=QUICK)
        with pytest.raises(InstrumentError, match="ConnectError"):
            agent.act(HELLO)


def test_retry_after_is_waited_for_as_seconds_and_as_a_date() -> None:
    date = formatdate(time.time() + 2, usegmt=True)
    with serving(
        fails(429, Retry_After="0.5"),
        fails(503, Retry_After=date),
        fails(429, Retry_After="soon"),
        says("hi"),
    ) as server:
        assert agent_of(server, retry=Retry(attempts=4, first_s=0.01)).act(HELLO) == "hi"
    first, second, third = (b - a for a, b in zip(server.times, server.times[1:], strict=False))
    assert 0.5 <= first < 1
    assert 0.2 < second < 2.5
    assert third < 0.2


def test_a_wait_that_is_too_long_is_given_up_at_once() -> None:
    with serving(fails(429, "quota", Retry_After="3600")) as server:
        with pytest.raises(InstrumentError, match="quota, and asks to wait 3600 s"):
            agent_of(server).act(HELLO)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_the_server_refuses_is_the_users_to_change(status: int) -> None:
    with serving(fails(status, "there is no model 'm'")) as server:
        with pytest.raises(UserError, match=rf"status {status}: there is no model 'm'"):
            agent_of(server).act(HELLO)
    assert len(server.requests) == 1


def test_one_refusal_ends_a_batch_without_waiting_for_the_rest() -> None:
    def some(handler: fake.Handler, body: dict[str, Any]) -> None:
        if body["messages"][0]["content"] == "bad":
            return fails(400, "no")(handler, body)
        return fake.hangs(handler, body)

    begun = time.monotonic()
    with serving(some) as server, pytest.raises(UserError, match="status 400"):
        agent_of(server).act_batch([HELLO, [{"role": "user", "content": "bad"}], HELLO], seed=0)
    assert time.monotonic() - begun < 3


def test_a_server_that_does_not_know_a_field_is_not_sent_it_again() -> None:
    def strict(handler: fake.Handler, body: dict[str, Any]) -> None:
        for name in ("return_token_ids", "logprobs"):
            if name in body:
                return fails(400, f"Unrecognized request argument supplied: {name}")(handler, body)
        return says("hi")(handler, body)

    with serving(strict) as server:
        agent = agent_of(server)
        assert agent.act(HELLO) == agent.act(HELLO) == "hi"
    assert len(server.requests) == 4


def test_extra_fields_are_added_and_left_out() -> None:
    extra = {"max_tokens": None, "max_completion_tokens": 7, "seed": None}
    with serving(says("hi")) as server:
        agent_of(server, extra=extra).act(HELLO)
    (body,) = server.requests
    assert body["max_completion_tokens"] == 7
    assert not {"max_tokens", "seed"} & set(body)


def test_a_conversation_that_outgrew_the_model_is_out_of_tokens_and_a_first_message_is_not() -> None:
    grown: list[Message] = [*HELLO, {"role": "assistant", "content": "Hi."}, *HELLO]
    with serving(fails(400, "This model's maximum context length is 512 tokens.")) as server:
        text = agent_of(server).act(grown)
        assert (text, type(text)) == ("", CutText)
        with pytest.raises(UserError, match="maximum context length"):
            agent_of(server).act(HELLO)


def test_it_works_under_a_running_event_loop_and_in_threads() -> None:
    with serving(says("hi")) as server:
        agent = agent_of(server)

        async def notebook() -> str:
            return agent.act(HELLO)

        assert asyncio.run(notebook()) == "hi"
        heard: list[str] = []
        threads = [threading.Thread(target=lambda: heard.append(agent.act(HELLO))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert heard == ["hi"] * 8


def test_it_plays_tool_use_with_servers_that_leave_out_the_stop_string(
    doubles: ProblemSet, judge: Judge
) -> None:
    call = call_text("python", "code", "print(6 * 7)").removesuffix("</tool_call>")

    def model(handler: fake.Handler, body: dict[str, Any]) -> None:
        assert body["stop"] == ["</tool_call>"]
        assert all(set(message) == {"role", "content"} for message in body["messages"])
        last = body["messages"][-1]["content"]
        if "<tool_response>\n42\n</tool_response>" in last:
            return says("```python\nprint(2 * int(input()))\n```")(handler, body)
        return says(call)(handler, body)

    with serving(model) as server:
        agent = make_agent(f"openai:m@{server.url}", doubles)
        envs = [ToolUseEnv(problems=doubles, judge=judge) for _ in range(2)]
        try:
            trajectories = rollout(envs, agent, ["small", "large"], seed=0)
        finally:
            for env in envs:
                env.close()
    assert [trajectory.outcome for trajectory in trajectories] == [Outcome.CORRECT] * 2
    assert trajectories[0].messages[1]["content"] == f"{call}</tool_call>"
    assert trajectories[0].info["tool_calls"] == 1


def test_specs_are_split_at_the_address() -> None:
    assert split_spec("org/model@v2@http://host:1/v1") == ("org/model@v2", "http://host:1/v1")
    assert split_spec("m@https://u:p@host/v1") == ("m", "https://u:p@host/v1")


def test_half_a_surrogate_pair_is_sent_as_a_replacement_character() -> None:
    said: list[Message] = [*HELLO, {"role": "assistant", "content": "a\ud800b\U0001f600"}, *HELLO]
    with serving(says("hi")) as server:
        assert agent_of(server).act(said) == "hi"
    assert server.requests[0]["messages"][1]["content"] == "a\ufffdb\U0001f600"


def test_a_port_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match="no port 99999"):
        OpenAIAgent("m", "http://127.0.0.1:99999/v1")
