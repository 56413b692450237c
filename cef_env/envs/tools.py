"""What a tool is, and how tools are told to a model and answered: the form of Qwen2.5's chat template.

Does not read what a model wrote (see `tool_calls.py`) and runs nothing.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OPEN, CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool with one argument, a string; that is all that the settings of the paper need."""

    name: str
    description: str
    argument: str
    """Name of the argument."""
    meaning: str
    """What to give as the argument."""

    def schema(self) -> str:
        """The signature as JSON, as chat templates show it."""
        properties = {self.argument: {"type": "string", "description": self.meaning}}
        parameters = {"type": "object", "properties": properties, "required": [self.argument]}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return json.dumps({"type": "function", "function": function})

    def example(self) -> str:
        """A call, to copy."""
        return call_text(self.name, self.argument, "...")


def call_text(name: str, argument: str, value: str) -> str:
    """A tool call as a model should write it."""
    call = json.dumps({"name": name, "arguments": {argument: value}}, ensure_ascii=False)
    return f"{OPEN}\n{call}\n{CLOSE}"


def tools_text(tools: Sequence[Tool]) -> str:
    """The section of the first message that explains the tools."""
    schemas = "\n".join(tool.schema() for tool in tools)
    return (
        "# Tools\n\n"
        "You have these tools, with signatures within <tools></tools> XML tags:\n"
        f"<tools>\n{schemas}\n</tools>\n\n"
        "To call one, write a JSON object with its name and arguments within <tool_call></tool_call> XML "
        f"tags:\n{tools[0].example()}\n"
    )


def responses_text(outputs: Iterable[str]) -> str:
    """The message that answers the calls of one message, in their order."""
    return "".join(f"<tool_response>\n{output.rstrip()}\n</tool_response>\n" for output in outputs)
