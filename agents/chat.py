"""From a conversation to token ids and from sampled ids to a reply, the same for every local sampler.

Token in, token out: where a message knows the ids that it was sampled as (`base.Said`), the model is fed
these ids, and only what was said to it since is encoded. Encoding the answer's text again would often give
other ids than the model sampled, and then log-probs and gradients of another text. Samples nothing itself.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from cef_env.agents.base import Message, Reply, Said, plain
from cef_env.envs.text import CutText
from cef_env.envs.tools import CLOSE, OPEN
from cef_env.errors import UserError

_ANSWER = "what-was-said"


def require_template(tokenizer: Any) -> None:
    """`UserError` unless the tokenizer can write conversations and end answers."""
    if not getattr(tokenizer, "chat_template", None):
        where = f"{tokenizer.name_or_path}: " if getattr(tokenizer, "name_or_path", "") else ""
        raise UserError(
            f"{where}no tokenizer with a chat template is there; use an instruct model, or set one"
        )
    if tokenizer.eos_token_id is None:
        raise UserError("the tokenizer has no end token (eos_token); set one")


def prompt_ids(tokenizer: Any, messages: Sequence[Message]) -> tuple[int, ...]:
    """What to feed the model so that it answers `messages`."""
    for index in range(len(messages) - 1, -1, -1):
        content = messages[index]["content"]
        if isinstance(content, Said) and content.reply.token_ids:
            return _continued(tokenizer, content.reply, messages[index + 1 :])
    return _encode(tokenizer, _render(tokenizer, plain(messages)))


def _continued(tokenizer: Any, reply: Reply, since: Sequence[Message]) -> tuple[int, ...]:
    """The ids of a reply and of what was said since, as the chat template joins them."""
    conversation: list[Message] = [
        {"role": "user", "content": "-"},
        {"role": "assistant", "content": _ANSWER},
        *plain(since),
    ]
    text = _render(tokenizer, conversation)
    if _ANSWER not in text:
        raise UserError("the tokenizer's chat template leaves out an answer; use another template")
    suffix = text.partition(_ANSWER)[2]  # the end of the answer, then the new messages
    end = tokenizer.eos_token
    if reply.token_ids[-1] == tokenizer.eos_token_id and suffix.startswith(end):
        suffix = suffix[len(end) :]
    return reply.prompt_ids + reply.token_ids + _encode(tokenizer, suffix)


def _render(tokenizer: Any, messages: Sequence[Message]) -> str:
    return tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)


def _encode(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


@dataclass(frozen=True, slots=True)
class Request:
    """What a sampler is asked for."""

    prompt: tuple[int, ...]
    most: int
    """Tokens that the answer may have; 0 when the conversation fills the model's context."""
    stop: tuple[str, ...]
    """Strings that end the answer, themselves included."""

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        messages: Sequence[Message],
        max_new_tokens: int,
        context: int | None,
        stop: Sequence[str] | None,
    ) -> "Request":
        """The request that a conversation makes.

        A conversation that has grown gets what is left of the context. Raises `UserError` when even a first
        answer would not fit: this is a matter of settings, not of what the model did.
        """
        prompt = prompt_ids(tokenizer, messages)
        left = max_new_tokens if context is None else context - len(prompt)
        if left < max_new_tokens and not any(message["role"] == "assistant" for message in messages):
            raise UserError(
                f"a prompt of {len(prompt)} tokens and max_new_tokens={max_new_tokens} exceed the model's "
                f"context of {context}; lower max_new_tokens, leave long problems out, or take another model"
            )
        return cls(prompt, max(0, min(left, max_new_tokens)), stop_strings(stop, messages))

    def reply(
        self, tokenizer: Any, tokens: Sequence[int], logprobs: Sequence[float], ends: Collection[int]
    ) -> Reply:
        """What was sampled as a reply: without its end token, up to a stop string, or cut."""
        ended = bool(tokens) and tokens[-1] in ends
        text = tokenizer.decode(list(tokens[:-1] if ended else tokens), clean_up_tokenization_spaces=False)
        stops = [text.find(stop) + len(stop) for stop in self.stop if stop in text]
        if stops:
            text = text[: min(stops)]
        return Reply(text if ended or stops else CutText(text), self.prompt, tuple(tokens), tuple(logprobs))


def stop_strings(stop: Sequence[str] | None, messages: Sequence[Message]) -> tuple[str, ...]:
    """What ends an answer besides the end token.

    None stands for the end of a tool call wherever the conversation shows how calls are written, so that a
    model does not go on to invent the tool's response; single-turn answers are not touched.
    """
    if stop is not None:
        return tuple(stop)
    told = any(OPEN in message["content"] for message in messages if message["role"] != "assistant")
    return (CLOSE,) if told else ()


def require_sampling(temperature: float, max_new_tokens: int) -> None:
    """`UserError` unless both can be sampled with."""
    if not isinstance(temperature, int | float) or not 0 < temperature < float("inf"):
        raise UserError(f"temperature={temperature!r}: must be a positive number")
    if not isinstance(max_new_tokens, int) or max_new_tokens < 1:
        raise UserError(f"max_new_tokens={max_new_tokens!r}: must be a whole number, at least 1")
