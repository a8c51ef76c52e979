"""Concurrent requests meet in one call to the runner, since each call crosses a process."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

AnswerT = TypeVar("AnswerT")


MAX_BATCH = 32
# With the number of texts this bounds how long one call takes, and so how long the next one waits.
MAX_BATCH_CHARACTERS = 4_000
# What may wait is served well within the time limit of a request.
MAX_WAITING = 256
MAX_WAITING_CHARACTERS = 200_000


class QueueFullError(Exception):
    """As many texts, or as long ones, wait as may wait."""


class Scored(NamedTuple, Generic[AnswerT]):
    """An answer, and how many texts shared the call that brought it."""

    answer: AnswerT
    batch: int


@dataclass(frozen=True)
class _Waiting(Generic[AnswerT]):
    text: str
    scored: asyncio.Future[Scored[AnswerT]]


class Coalescer(Generic[AnswerT]):
    """Turns many calls for one text into few calls for many.

    A lone text goes out at once: there is no timer. Texts that arrive while a call is under
    way wait for its end and leave together in the next one, oldest first. Beyond MAX_WAITING
    waiting texts or MAX_WAITING_CHARACTERS waiting characters a further text is refused at once.
    """

    def __init__(self, score_batch: Callable[[list[str]], Awaitable[Sequence[AnswerT]]]) -> None:
        self._score_batch = score_batch
        self._waiting: deque[_Waiting[AnswerT]] = deque()
        self._characters = 0
        self._sender: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many texts wait."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether no further text would be taken, however short."""
        return len(self._waiting) >= MAX_WAITING or self._characters >= MAX_WAITING_CHARACTERS

    async def score(self, text: str) -> Scored[AnswerT]:
        """The answer for `text`.

        Raises QueueFullError, and whatever the call that carried the text raised.
        """
        if self.is_full or self._characters + len(text) > MAX_WAITING_CHARACTERS:
            raise QueueFullError
        waiting = _Waiting[AnswerT](text, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._characters += len(text)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_until_empty())
        return await waiting.scored

    async def _send_until_empty(self) -> None:
        while self._waiting:
            if batch := self._next_batch():
                await self._send(batch)

    def _next_batch(self) -> list[_Waiting[AnswerT]]:
        batch: list[_Waiting[AnswerT]] = []
        characters = 0
        while self._waiting and len(batch) < MAX_BATCH:
            length = len(self._waiting[0].text)
            if batch and characters + length > MAX_BATCH_CHARACTERS:
                break
            waiting = self._waiting.popleft()
            self._characters -= length
            if not waiting.scored.done():  # else given up meanwhile
                batch.append(waiting)
                characters += length
        return batch

    async def _send(self, batch: Sequence[_Waiting[AnswerT]]) -> None:
        try:
            answers = await self._score_batch([waiting.text for waiting in batch])
            if len(answers) != len(batch):
                raise RuntimeError("the runner gave another number of answers than it got texts")
        except Exception as error:
            for waiting in batch:
                if not waiting.scored.done():
                    waiting.scored.set_exception(error)
            return
        for waiting, answer in zip(batch, answers, strict=True):
            if not waiting.scored.done():
                waiting.scored.set_result(Scored(answer, len(batch)))
