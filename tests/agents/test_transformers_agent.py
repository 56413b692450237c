"""A model in this process: token in, token out over turns, where answers stop, and how long they may be."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cef_env.agents import Message, Reply, Trajectory, rollout
from cef_env.agents.chat import prompt_ids
from cef_env.agents.transformers_agent import TransformersAgent
from cef_env.envs import CutText
from cef_env.errors import InstrumentError, UserError
from cef_env.judge import Outcome
from cef_env.training.data import answer_logprobs
from tests.agents.conftest import Talk

Tiny = tuple[Any, Any]


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def said(content: str) -> Message:
    return {"role": "assistant", "content": content}


def test_over_turns_the_model_is_fed_the_very_ids_that_it_sampled(tiny: Tiny) -> None:
    model, tokenizer = tiny
    fed: list[list[int]] = []

    def remember(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("past_key_values") is None:
            fed.extend(
                ids[mask.bool()].tolist()
                for ids, mask in zip(kwargs["input_ids"], kwargs["attention_mask"], strict=True)
            )

    handle = model.register_forward_pre_hook(remember, with_kwargs=True)
    try:
        agent = TransformersAgent(model, tokenizer, max_new_tokens=12)
        (trajectory,) = rollout([Talk(4)], agent, [None], seed=3)
    finally:
        handle.remove()
    assert len(fed) == 4
    assert [list(reply.prompt_ids) for reply in trajectory.replies] == fed
    tokens, mask = list(trajectory.tokens), torch.tensor(trajectory.mask).bool()
    assert tokens == fed[-1] + list(trajectory.replies[-1].token_ids)
    sampled = [token for reply in trajectory.replies for token in reply.token_ids]
    assert torch.tensor(tokens)[mask].tolist() == sampled

    encoded = tokenizer.apply_chat_template(list(trajectory.messages), tokenize=False)
    assert tokenizer(encoded, add_special_tokens=False)["input_ids"][: len(tokens)] != tokens
    joined = tokenizer.decode(tokens)
    for message in trajectory.messages:
        if message["role"] == "user":
            assert (
                f"<|im_end|>\n<|im_start|>user\n{message['content']}<|im_end|>\n" in "<|im_end|>\n" + joined
            )

    with torch.no_grad():
        full = answer_logprobs(model, torch.tensor([tokens]))[0]
    expected = torch.tensor(trajectory.logprobs)
    assert torch.allclose(full[mask[1:]], expected[mask], atol=1e-4)
    assert (expected[~mask] == 0).all()


def test_messages_are_plain_for_whoever_does_not_ask(tiny: Tiny) -> None:
    (trajectory,) = rollout([Talk(2)], TransformersAgent(*tiny, max_new_tokens=4), [None], seed=0)
    assert [type(message["content"]) for message in trajectory.messages] == [str] * 4
    message = Reply("one", (1, 2), (7, 8)).message()
    assert message == said("one")
    assert json.dumps(message) == json.dumps(said("one"))


@given(st.lists(st.tuples(st.text(), st.text(min_size=1)), min_size=1, max_size=3), st.booleans())
def test_canonical_ids_go_on_as_the_encoded_conversation(
    tiny: Tiny, turns: list[tuple[str, str]], ended: bool
) -> None:
    """What is added after an answer is what the template would have written."""
    tokenizer = tiny[1]
    messages, plain = [user("Begin.\n")], [user("Begin.\n")]
    for answer, remark in turns:
        ids = tokenizer(answer, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id] * ended
        reply = Reply(answer, prompt_ids(tokenizer, messages), tuple(ids))
        messages += [reply.message(), user(remark)]
        plain += [said(answer), user(remark)]
    assert prompt_ids(tokenizer, messages) == prompt_ids(tokenizer, plain)


def test_an_answer_that_was_edited_is_encoded_anew(tiny: Tiny) -> None:
    reply = Reply("one", (1, 2), (7, 8))
    message = reply.message()
    message["content"] = message["content"].replace("one", "two")
    conversation = [user("Begin.\n"), message, user("More!\n")]
    plain = [user("Begin.\n"), said("two"), user("More!\n")]
    assert prompt_ids(tiny[1], conversation) == prompt_ids(tiny[1], plain)


def test_turns_that_were_encoded_anew_are_not_one_sequence() -> None:
    replies = (Reply("a", (1, 2), (3,), (-1.0,)), Reply("b", (1, 2, 4, 5), (6,), (-1.0,)))
    with pytest.raises(InstrumentError, match="turn 2 was not fed with the tokens"):
        _ = Trajectory("p", (), 0.0, Outcome.CORRECT, replies=replies).tokens
    silent = Trajectory("p", (), 0.0, Outcome.CORRECT, replies=(Reply("a"), Reply("b")))
    assert silent.tokens == silent.mask == silent.logprobs == ()


class Saying(torch.nn.Module):
    """Says given ids, whatever it is asked; for what ends an answer."""

    def __init__(self, vocabulary: int, ids: Sequence[int], context: int = 512) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config = SimpleNamespace(max_position_embeddings=context)
        self.vocabulary, self.ids, self.calls = vocabulary, list(ids), 0

    def forward(self, input_ids: torch.Tensor, past_key_values: Any = None, **rest: Any) -> Any:
        self.calls += 1
        cache = past_key_values or SimpleNamespace(step=0, batch_select_indices=lambda rows: None)
        logits = torch.full((len(input_ids), 1, self.vocabulary), -1e9)
        logits[:, :, self.ids[cache.step % len(self.ids)]] = 0
        cache.step += 1
        return SimpleNamespace(logits=logits, past_key_values=cache)


def saying(tokenizer: Any, text: str, **options: Any) -> TransformersAgent:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return TransformersAgent(Saying(len(tokenizer), ids), tokenizer, **options)


CALL = '<tool_call>\n{"name": "python", "arguments": {"code": "print(1)"}}\n</tool_call>'


def test_generation_stops_after_a_tool_call_where_the_conversation_shows_tools(tiny: Tiny) -> None:
    agent = saying(tiny[1], f"{CALL}\n<tool_response>\n1\n</tool_response>\n", max_new_tokens=200)
    shown, not_shown = agent.act_batch([[user("Write <tool_call>.\n")], [user("Answer.\n")]], seed=0)
    assert shown.text == CALL
    assert not isinstance(shown.text, CutText)
    assert tiny[1].decode(list(shown.token_ids)) == CALL
    assert len(shown.logprobs) == len(shown.token_ids)
    assert len(not_shown.token_ids) == 200
    assert not_shown.text.startswith(f"{CALL}\n<tool_response>")


@pytest.mark.parametrize("stop", ["END", "né", "D."])
def test_own_stop_strings_end_the_answer_and_belong_to_it(tiny: Tiny, stop: str) -> None:
    agent = saying(tiny[1], "to the E END. né END", max_new_tokens=60, stop=[stop])
    (reply,) = agent.act_batch([[user("Answer.\n")]], seed=0)
    assert reply.text == "to the E END. né END".partition(stop)[0] + stop
    assert tiny[1].decode(list(reply.token_ids)).startswith(reply.text)


def test_a_prompt_and_budget_beyond_the_context_are_refused(tiny: Tiny) -> None:
    agent = TransformersAgent(*tiny, max_new_tokens=512)
    with pytest.raises(UserError, match=r"max_new_tokens=512 exceed the model's context of 512; lower"):
        agent.act([user("Hello.\n")])


def test_a_conversation_that_has_grown_gets_what_is_left_and_then_nothing(tiny: Tiny) -> None:
    short = [user("Hello.\n")]
    grown = [*short, said("a" * 20), user("b\n")]
    full = [*short, said("a" * 60), user("b\n")]
    left = 7
    context = len(prompt_ids(tiny[1], grown)) + left
    model = Saying(len(tiny[1]), [tiny[1]("a", add_special_tokens=False)["input_ids"][0]], context)
    agent = TransformersAgent(model, tiny[1], max_new_tokens=20)
    replies = agent.act_batch([grown, short, full], seed=0)
    assert [len(reply.token_ids) for reply in replies] == [left, 20, 0]
    assert all(isinstance(reply.text, CutText) for reply in replies)
    model.calls = 0
    assert agent.act_batch([full], seed=0)[0].text == ""
    assert model.calls == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "temperature=0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
    ],
)
def test_what_cannot_be_sampled_with_is_refused(tiny: Tiny, options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        TransformersAgent(*tiny, **options)


def test_a_tokenizer_without_a_chat_template_is_refused(tiny: Tiny) -> None:
    bare = SimpleNamespace(chat_template=None, eos_token_id=2)
    with pytest.raises(UserError, match="no tokenizer with a chat template is there"):
        TransformersAgent(tiny[0], bare)
