"""A causal language model of the Hugging Face format as a batching agent.

Samples with a key-value cache, drops finished rows from the batch, and keeps token ids and log-probs for
training. Runs on whatever device the model is on; it is not a serving engine (use vLLM for that).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from cef_env.agents.base import Message, Reply
from cef_env.agents.chat import Request, require_sampling, require_template
from cef_env.errors import UserError


def require_checkpoint(path: str | Path) -> Path:
    """`path` if a checkpoint could be there; `UserError` otherwise. Cheap: nothing is loaded."""
    path = Path(path)
    if not (path / "config.json").is_file():
        raise UserError(
            f"checkpoint {str(path)!r}: no config.json there; give a Hugging Face model directory"
        )
    return path


def load_model(path: str | Path) -> tuple[Any, Any]:
    """(model, tokenizer) of a local Hugging Face directory, in eval mode.

    Raises `UserError` when the directory is missing or does not hold a loadable checkpoint.
    """
    path = require_checkpoint(path)
    try:
        model = AutoModelForCausalLM.from_pretrained(path, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"checkpoint {str(path)!r} does not load ({reason}); write it again") from error
    return model.eval(), tokenizer


class TransformersAgent:
    """Samples answers from a causal language model, token in, token out (see `chat.py`).

    Args:
        model, tokenizer: of `load_model`, or your own; the tokenizer needs a chat template.
        temperature: of sampling; log-probs are always those at this temperature.
        max_new_tokens: the token budget of one answer; what it cuts is returned as `CutText`. A long
            conversation gets what the model's context has left.
        stop: strings that end an answer, itself included; None: the end of a tool call where the
            conversation shows tools.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        temperature: float = 1.0,
        max_new_tokens: int = 256,
        stop: Sequence[str] | None = None,
    ) -> None:
        require_sampling(temperature, max_new_tokens)
        require_template(tokenizer)
        self.model = model
        self.tokenizer = tokenizer
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        self.stop = stop
        self._context = getattr(model.config, "max_position_embeddings", None)
        self._end = tokenizer.eos_token_id
        self._text_of = lru_cache(maxsize=None)(lambda token: tokenizer.decode([token]))

    def act(self, messages: list[Message]) -> str:
        seed = int(torch.randint(0, 2**31, ()))
        return self.act_batch([messages], seed)[0].text

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        """One reply per conversation; the same seed and batch give the same replies."""
        requests = [
            Request.of(self.tokenizer, messages, self.max_new_tokens, self._context, self.stop)
            for messages in conversations
        ]
        fitting = [request for request in requests if request.most]
        sampled: Iterator[tuple[list[int], list[float]]] = iter(())
        if fitting:
            prompts, most = [request.prompt for request in fitting], max(r.most for r in fitting)
            finished = self._finished(fitting, most)
            sampled = zip(*sample(self.model, prompts, seed, self._end, most, self.temperature, finished))
        replies = []
        for request in requests:
            tokens, logprobs = next(sampled) if request.most else ([], [])
            replies.append(request.reply(self.tokenizer, tokens, logprobs, ends=(self._end,)))
        return replies

    def _finished(self, requests: Sequence[Request], most: int) -> Callable[[int, list[int]], bool] | None:
        """What ends answers besides the end token and `most`; None when nothing does."""
        if all(request.most == most and not request.stop for request in requests):
            return None

        def finished(index: int, tokens: list[int]) -> bool:
            request = requests[index]
            return len(tokens) >= request.most or any(self._ends_with(tokens, stop) for stop in request.stop)

        return finished

    def _ends_with(self, tokens: list[int], stop: str) -> bool:
        """Whether the last token completes `stop`; it may bring more characters."""
        last = self._text_of(tokens[-1])
        if stop[-1] not in last and "\ufffd" not in last:  # the latter: a part of a character
            return False
        return stop in self.tokenizer.decode(
            tokens[-len(stop.encode()) :], clean_up_tokenization_spaces=False
        )


@torch.no_grad()
def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    seed: int,
    end: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    finished: Callable[[int, list[int]], bool] | None = None,
) -> tuple[list[list[int]], list[list[float]]]:
    """Ancestral sampling of one continuation per prompt.

    Each distinct prompt is read once and its cache repeated, since groups share prompts. Rows that ended
    leave the batch; `finished(index of the prompt, tokens so far)` may end one before its end token. Returns
    token ids (the end token included) and their log-probs at `temperature`.
    """
    device = next(model.parameters()).device
    generator = torch.Generator(device=device).manual_seed(seed)
    distinct = list(dict.fromkeys(tuple(prompt) for prompt in prompts))
    row_of = {prompt: row for row, prompt in enumerate(distinct)}
    width = max(len(prompt) for prompt in distinct)
    ids = torch.zeros(len(distinct), width, dtype=torch.long, device=device)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(distinct):  # left padding: all rows end at the same column
        ids[row, width - len(prompt) :] = torch.tensor(prompt, device=device)
        mask[row, width - len(prompt) :] = 1
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    output = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1
    )
    rows = torch.tensor([row_of[tuple(prompt)] for prompt in prompts], device=device)
    cache = output.past_key_values
    cache.batch_select_indices(rows)
    logits, mask, position = output.logits[rows, -1], mask[rows], positions[rows, -1]

    batch = list(range(len(prompts)))  # which answer each row of the batch belongs to
    done = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    tokens: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    for step in range(max_new_tokens):
        log_p = torch.log_softmax(logits.float() / temperature, dim=-1)  # (batch, vocabulary)
        chosen = torch.multinomial(log_p.exp(), 1, generator=generator)[:, 0]  # (batch,)
        chosen_log_p = log_p.gather(1, chosen[:, None])[:, 0]
        for index, skip, token, value in zip(
            batch, done.tolist(), chosen.tolist(), chosen_log_p.tolist(), strict=True
        ):
            if not skip:
                tokens[index].append(token)
                logprobs[index].append(value)
        done = done | (chosen == end)
        if finished is not None:
            for row, index in enumerate(batch):
                if finished(index, tokens[index]):
                    done[row] = True
        if bool(done.all()) or step == max_new_tokens - 1:
            break
        position = position + 1
        mask = torch.cat([mask, mask.new_ones(len(batch), 1)], dim=1)
        if int(done.sum()) * 4 >= len(batch):  # fewer finished rows cost less than moving the cache
            rows = (~done).nonzero()[:, 0]
            cache.batch_select_indices(rows)
            batch = [batch[row] for row in rows.tolist()]
            chosen, mask, position, done = chosen[rows], mask[rows], position[rows], done[rows]
        output = model(
            input_ids=chosen[:, None],
            attention_mask=mask,
            position_ids=position[:, None],
            past_key_values=cache,
            use_cache=True,
        )
        logits = output.logits[:, -1]
    return tokens, logprobs
