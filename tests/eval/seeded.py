"""An agent whose answers depend on the seed and nothing else, for tests of sampling."""

import hashlib

from cef_env.agents import Reply
from cef_env.envs.text import fenced

PROGRAMS = ("print(0)", "print(1)", "print(", "import sys\nprint(len(sys.stdin.read()))")


class SeededAgent:
    """Programs, broken programs and answers without any."""

    def __init__(self, temperature: float = 1.0, max_new_tokens: int = 16) -> None:
        self.temperature = temperature

    def act(self, messages):
        return self.act_batch([messages], 0)[0].text

    def act_batch(self, conversations, seed):
        replies = []
        for index, messages in enumerate(conversations):
            text = f"{seed}/{index}/{self.temperature}/{messages[0]['content']}"
            at = hashlib.sha256(text.encode()).digest()[0] % (len(PROGRAMS) + 1)
            answer = fenced(PROGRAMS[at]) if at < len(PROGRAMS) else "I cannot."
            replies.append(Reply(answer, token_ids=tuple(range(at + 1))))
        return replies
