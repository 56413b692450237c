"""The text between two messages of a model, by the chat template of its tokenizer.

The model's own tokens stay as they were sampled; only what stands between them is rendered: the end of its
message, the observation as the user's message, and the beginning of its next.
"""

from typing import Any

from cef_env.errors import UserError

MARK = "\u2063cef\u2063"
"""Stands for the model's message; no template or observation holds it."""


def between(tokenizer: Any, observation: str, last: int | None) -> str:
    """What follows a message that ended with the token `last`, up to where the model writes again.

    Raises `UserError` when the template does not show messages one after the other.
    """
    conversation = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": MARK},
        {"role": "user", "content": without_special(tokenizer, observation)},
    ]
    try:
        text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs, and raise what they like
        raise UserError(f"the chat template cannot show a conversation of several turns: {error}") from error
    _, found, rest = text.rpartition(MARK)
    if not found:
        raise UserError("the chat template leaves out the model's message; multi-turn training needs it")
    # The model writes the token that ends its message itself, unless it was cut.
    first = tokenizer(text=rest, add_special_tokens=False)["input_ids"][:1]
    if first and first[0] == last:
        return rest.removeprefix(tokenizer.decode(first))
    return rest


def without_special(tokenizer: Any, text: str) -> str:
    """Text that tokenizes without special tokens: what a program prints must not end the user's message."""
    for token in tokenizer.added_tokens_decoder.values():
        if token.special and token.content in text:
            text = text.replace(token.content, f"{token.content[0]} {token.content[1:]}")
    return text
