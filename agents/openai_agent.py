"""A model behind a server that speaks OpenAI's chat completions, as a batching agent.

Works with vLLM's server, llama.cpp, SGLang, hosted services and others alike. The server applies the chat
template and encodes the conversation anew each turn: token ids and log-probs are kept where it tells them,
but for training over many turns use `vllm:PATH`. How requests fail and are tried again: `http_retry.py`. The
key is taken from OPENAI_API_KEY. Command: `cef rollout --agent openai:MODEL@http://localhost:8000/v1 ...`.
"""

import asyncio
import os
import random
import re
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import BaseModel, FiniteFloat, ValidationError

from cef_env.agents.base import Message, Reply, derived_seed, plain
from cef_env.agents.chat import require_sampling, stop_strings
from cef_env.agents.http_retry import Endpoint, RefusedError, Result, Retry, Session, UnusableError
from cef_env.envs.text import CutText
from cef_env.envs.tools import CLOSE, OPEN
from cef_env.errors import UserError

OPTIONAL = ("return_token_ids", "logprobs")
"""Fields of a request that only ask for more to be told. A server that refuses one by name is not sent it
again."""


class _Token(BaseModel):
    token: str
    logprob: FiniteFloat


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Said(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Said
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None


class _Completion(BaseModel):
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None


def split_spec(text: str) -> tuple[str, str]:
    """(model, url) of `MODEL@URL`."""
    match = re.fullmatch(r"(.+)@(https?://[^/\s]+\S*)", text)
    if match is None:
        raise UserError(
            f"agent 'openai:{text}': use openai:MODEL@URL, as openai:qwen@http://localhost:8000/v1"
        )
    return match[1], match[2]


class OpenAIAgent:
    """Asks a server for answers.

    Args:
        model: the name under which the server knows the model.
        url: the base of the API, up to and with `/v1`.
        temperature, max_new_tokens: of sampling; what the budget cuts is returned as `CutText`, and so is an
            empty answer when a conversation has outgrown the model's context.
        stop: strings that end an answer; None: the end of a tool call where the conversation shows tools.
        extra: more fields of each request; None as a value leaves a field out that is sent otherwise.
        concurrency: requests at once.
        timeout_s: of one request, from connecting to the last byte, however slowly they come.
        retry: how often and how patiently a request is tried again.

    `Reply.logprobs` are the server's: before or after temperature, as it is set up (vLLM: `--logprobs-mode
    processed_logprobs` for after). Raises `UserError` for what the server refuses (an unknown model, a wrong
    key), and `InstrumentError`, with server and last cause, when it cannot be had an answer from.
    """

    def __init__(
        self,
        model: str,
        url: str,
        temperature: float = 1.0,
        max_new_tokens: int = 1024,
        stop: Sequence[str] | None = None,
        extra: Mapping[str, Any] = {},
        concurrency: int = 16,
        timeout_s: float = 600.0,
        retry: Retry = Retry(),  # noqa: B008 - frozen
    ) -> None:
        require_sampling(temperature, max_new_tokens)
        self.model = model
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        self.stop = stop
        self.extra = dict(extra)
        key = os.environ.get("OPENAI_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        address = url.rstrip("/") + "/chat/completions"
        self._endpoint = Endpoint(address, headers, concurrency, timeout_s, retry)
        self._refused: set[str] = set()

    def act(self, messages: list[Message]) -> str:
        return self.act_batch([messages], random.SystemRandom().getrandbits(31))[0].text

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        """One reply per conversation; how far the same seed gives the same replies is up to the server."""
        return _run(self._all(conversations, seed))

    async def _all(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        try:
            async with Session(self._endpoint) as session, asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._one(session, messages, derived_seed(seed, index)))
                    for index, messages in enumerate(conversations)
                ]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # the others were cancelled because of it
        return [task.result() for task in tasks]

    async def _one(self, session: Session, messages: list[Message], seed: int) -> Reply:
        stop = stop_strings(self.stop, messages)
        while True:
            body = self._body(messages, stop, seed)
            try:
                return await session.post(body, lambda answer: _to_reply(answer, stop))
            except RefusedError as error:
                refused = [name for name in OPTIONAL if name in body and name in str(error)]
                self._refused.update(refused[:1])
                if not refused:
                    if _outgrown(error, messages):
                        return Reply(CutText(""))
                    raise

    def _body(self, messages: list[Message], stop: Sequence[str], seed: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [_sendable(message) for message in plain(messages)],
            "temperature": self.temperature,
            "max_tokens": self.max_new_tokens,
            "seed": seed,
            "logprobs": True,
            "return_token_ids": True,
            **({"stop": list(stop)} if stop else {}),
            **self.extra,
        }
        return {
            name: value for name, value in body.items() if value is not None and name not in self._refused
        }


def _sendable(message: Message) -> Message:
    """The message with a replacement character for each half of a surrogate pair, which UTF-8 cannot hold."""
    return {
        "role": message["role"],
        "content": message["content"].encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
    }


def _outgrown(error: RefusedError, messages: Sequence[Message]) -> bool:
    """Whether a conversation that began well has become too long for the model."""
    grown = any(message["role"] == "assistant" for message in messages)
    return grown and ("context_length" in str(error) or "context length" in str(error))


def _to_reply(answer: Any, stop: Sequence[str]) -> Reply:
    try:
        completion = _Completion.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the answer"
        raise UnusableError(f"{where}: {first['msg']}") from error
    if not completion.choices:
        raise UnusableError("choices: there is none")
    choice = completion.choices[0]
    text = choice.message.content or ""
    if choice.finish_reason == "length":
        text = CutText(text)
    elif CLOSE in stop and text.rfind(OPEN) > text.rfind(CLOSE):
        text += CLOSE  # servers leave the stop string out
    said = choice.logprobs.content if choice.logprobs else None
    return Reply(
        text,
        tuple(completion.prompt_token_ids or ()),
        tuple(choice.token_ids or ()),
        tuple(token.logprob for token in said or ()),
    )


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, also where the caller's thread has an event loop at work, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
