"""Messages and tools to token ids, with the model's own chat template.

A conversation that only grows is never tokenised again: the next prompt is the previous prompt's
ids, then the ids that were sampled, then the ids of the new messages. Decoding a reply and encoding
it once more can move token borders, and a model trained on the result is trained on tokens it never
produced. Context rules that rewrite the conversation are rendered anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from agentr1_envs.transitions import Episode

Ids = npt.NDArray[np.int32]
Message = Mapping[str, Any]

# Stands for a reply while the text behind it is looked up; templates may trim around it.
_MARK = "\u241farg1-reply\u241f"


class PromptEncoder:
    """Encodes states for one tokenizer.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        template_kwargs: further arguments of the template (``enable_thinking=False``, ...).
        end_ids: ids that end a turn; the tokenizer's eos where None.

    Raises:
        ValueError: the tokenizer has no chat template.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        template_kwargs: Mapping[str, Any] | None = None,
        end_ids: Sequence[int] | None = None,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
            raise ValueError(f"tokenizer {name}: it has no chat template; use an instruct model")
        self.tokenizer = tokenizer
        self.template_kwargs = dict(template_kwargs or {})
        if end_ids is None:
            end_ids = [tokenizer.eos_token_id]
        self.end_id = next(i for i in end_ids if i is not None)
        self.end_ids = frozenset(i for i in end_ids if i is not None)
        self._cache: dict[str, Ids] = {}

    def render(self, messages: Sequence[Message], tools: Sequence[Any] | None) -> str:
        """The prompt as text, up to where the model's reply starts."""
        return self.tokenizer.apply_chat_template(
            [dict(m) for m in messages],
            tools=list(tools) if tools else None,
            tokenize=False,
            add_generation_prompt=True,
            **self.template_kwargs,
        )

    def _ids(self, text: str) -> Ids:
        # Special tokens are in the template's text already.
        return np.asarray(self.tokenizer.encode(text, add_special_tokens=False), np.int32)

    def encode(self, messages: Sequence[Message], tools: Sequence[Any] | None = None) -> Ids:
        """int32 [P]: the whole state, rendered anew."""
        text = self.render(messages, tools)
        # The episodes of a group start from one prompt.
        found = self._cache.get(text)
        if found is None:
            if len(self._cache) >= 256:
                self._cache.clear()
            found = self._cache[text] = self._ids(text)
        return found

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of some messages as a prompt; what `TokenBudget(n, count)` asks for."""
        return len(self._ids(self.render(messages, None)))

    def extend(
        self,
        prompt_ids: Ids,
        response_ids: Ids,
        new_messages: Sequence[Message],
        tools: Sequence[Any] | None = None,
        *,
        system: Message | None = None,
    ) -> Ids:
        """int32 [P']: the prompt after a reply, made by splicing.

        Args:
            prompt_ids: the prompt the reply was sampled from.
            response_ids: the reply as sampled, with or without an end-of-turn token.
            new_messages: what was said since (feedback, usually one message).
            tools: as in `encode`.
            system: the conversation's system message, for templates whose turns depend on it.
        """
        head: list[Message] = [] if system is None else [system]
        head += [{"role": "user", "content": "-"}, {"role": "assistant", "content": _MARK}]
        text = self.render([*head, *new_messages], tools)
        _, found, tail = text.rpartition(_MARK)
        if not found:
            raise ValueError("the chat template drops the assistant's reply: Append cannot splice")
        new = self._ids(tail)
        if len(response_ids) and int(response_ids[-1]) in self.end_ids:
            # The turn's end was sampled: the template's own end token would double it.
            ends = np.isin(new, list(self.end_ids)).nonzero()[0]
            if len(ends):
                new = new[ends[0] + 1 :]
        return np.concatenate([prompt_ids, response_ids, new], dtype=np.int32)

    def encode_action(self, text: str) -> Ids:
        """int32 [R]: a written reply as if it had been sampled, the end-of-turn token included."""
        ids = self._ids(text)
        return np.append(ids, np.int32(self.end_id)).astype(np.int32)

    def decode(self, response_ids: Ids) -> str:
        """The action's text: special tokens kept, the end-of-turn token taken off."""
        ids = [int(i) for i in response_ids]
        if ids and ids[-1] in self.end_ids:
            ids.pop()
        return self.tokenizer.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )


class ConversationIds:
    """The prompt ids of one episode's states, spliced where the conversation only grew."""

    __slots__ = ("_messages", "_prompt", "_response", "encoder", "splice", "tools")

    def __init__(
        self, encoder: PromptEncoder, tools: Sequence[Any] | None, *, splice: bool = True
    ) -> None:
        self.encoder, self.tools, self.splice = encoder, tools, splice
        self._messages: tuple[Message, ...] = ()
        self._prompt: Ids | None = None
        self._response: Ids | None = None

    def next(self, messages: Sequence[Message]) -> Ids:
        """int32 [P]: the ids of a state; earlier ids are kept if it continues the last one."""
        messages = tuple(messages)
        n = len(self._messages)
        if (
            self.splice
            and self._prompt is not None
            and self._response is not None
            and len(messages) > n + 1
            and messages[n].get("role") == "assistant"
            and messages[:n] == self._messages
        ):
            system = messages[0] if messages[0].get("role") == "system" else None
            return self.encoder.extend(
                self._prompt, self._response, messages[n + 1 :], self.tools, system=system
            )
        return self.encoder.encode(messages, self.tools)

    def record(self, messages: Sequence[Message], prompt_ids: Ids, response_ids: Ids) -> None:
        """The reply to a state, with the ids that were fed and sampled."""
        self._messages = tuple(messages)
        self._prompt, self._response = prompt_ids, response_ids


def tokenize_episode(
    encoder: PromptEncoder,
    episode: Episode,
    tools: Sequence[Any] | None,
    *,
    splice: bool = True,
) -> None:
    """Give the transitions of a written episode (an expert's) the ids a model would have seen."""
    ids = ConversationIds(encoder, tools, splice=splice)
    for t in episode.transitions:
        t.prompt_ids = ids.next(t.observation)
        t.response_ids = encoder.encode_action(t.action)
        ids.record(t.observation, t.prompt_ids, t.response_ids)
