"""A model in vLLM's offline engine as a batching agent: token in, token out, log-probs kept.

Equal conversations of a batch are one request with `n` samples, and the engine's prefix cache spares reading
again what a conversation held a turn ago. For a server in another process see `openai_agent.py`. Command:
`cef rollout --agent vllm:PATH`; tests: `make test-vllm`.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from cef_env.agents.base import Message, Reply, derived_seed
from cef_env.agents.chat import Request, require_sampling, require_template
from cef_env.errors import InstrumentError, UserError


class VLLMAgent:
    """Samples answers with vLLM.

    Args:
        path: a Hugging Face model directory.
        temperature: of sampling; log-probs are those at this temperature.
        max_new_tokens: the token budget of one answer; what it cuts is returned as `CutText`. A long
            conversation gets what the model's context has left.
        stop: strings that end an answer, itself included; None: the end of a tool call where the
            conversation shows tools.
        engine: further arguments of `vllm.LLM`, such as `tensor_parallel_size`.

    Raises `UserError` when vLLM is not installed or refuses model or arguments, `InstrumentError` when the
    engine fails later. Scripts need the guard `if __name__ == "__main__"`: the engine starts processes.
    """

    def __init__(
        self,
        path: str | Path,
        temperature: float = 1.0,
        max_new_tokens: int = 1024,
        stop: Sequence[str] | None = None,
        **engine: Any,
    ) -> None:
        require_sampling(temperature, max_new_tokens)
        try:
            import vllm
        except ImportError as error:
            raise UserError(f'vllm:{path}: {error}; pip install "cef-env[vllm]"') from error
        from cef_env.agents.transformers_agent import require_checkpoint

        try:
            vllm.SamplingParams(temperature=temperature, max_tokens=max_new_tokens)
        except Exception as error:
            raise UserError(f"vllm:{path}: {_line(error)}") from error
        arguments = {"enable_prefix_caching": True, "logprobs_mode": "processed_logprobs", **engine}
        try:
            self.llm = vllm.LLM(model=str(require_checkpoint(path)), **arguments)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"vllm:{path}: the engine did not start ({_line(error)})") from error
        self.tokenizer = self.llm.get_tokenizer()
        require_template(self.tokenizer)
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        self.stop = stop
        self._context = int(self.llm.model_config.max_model_len)
        self._lock = Lock()  # the engine serves one caller at a time

    def act(self, messages: list[Message]) -> str:
        return self.act_batch([messages], random.SystemRandom().getrandbits(31))[0].text

    def act_batch(self, conversations: Sequence[list[Message]], seed: int) -> list[Reply]:
        """One reply per conversation; each request has a seed of its own, from `seed` and its place."""
        from vllm import SamplingParams, TokensPrompt

        requests = [
            Request.of(self.tokenizer, messages, self.max_new_tokens, self._context, self.stop)
            for messages in conversations
        ]
        groups: dict[Request, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            if request.most:
                groups[request].append(index)
        params = [
            SamplingParams(
                n=len(indices),
                temperature=self.temperature,
                max_tokens=request.most,
                seed=derived_seed(seed, indices[0]),
                stop=list(request.stop),
                include_stop_str_in_output=True,
                logprobs=0,  # of the sampled token alone
            )
            for request, indices in groups.items()
        ]
        prompts = [TokensPrompt(prompt_token_ids=list(request.prompt)) for request in groups]
        with self._lock:
            try:
                results = self.llm.generate(prompts, params, use_tqdm=False) if prompts else []
            except Exception as error:
                raise InstrumentError(f"vLLM's engine failed: {_line(error)}") from error
        replies = [request.reply(self.tokenizer, (), (), ends=()) for request in requests]
        for result, (request, indices) in zip(results, groups.items(), strict=True):
            for output, index in zip(result.outputs, indices, strict=True):
                replies[index] = self._reply(request, output)
        return replies

    def _reply(self, request: Request, output: Any) -> Reply:
        tokens = list(output.token_ids)
        logprobs = [step[token].logprob for step, token in zip(output.logprobs, tokens, strict=True)]
        by_token = output.finish_reason == "stop" and not isinstance(output.stop_reason, str)
        return request.reply(self.tokenizer, tokens, logprobs, ends=tokens[-1:] if by_token else ())


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
