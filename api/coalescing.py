"""Concurrent requests meet in one call to the runner, since each call crosses a process."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

AnswerT = TypeVar("AnswerT")


MAX_BATCH = 32
# With the number of texts this bounds how long one call takes, and so how long the next one waits.
MAX_BATCH_CHARACTERS = 4_000
MAX_WAITING = 256


class QueueFullError(Exception):
    """As many texts wait as may wait."""


class Coalescer(Generic[AnswerT]):
    """Turns many calls for one text into few calls for many.

    A lone text goes out at once: there is no timer. Texts that arrive while a call is under
    way wait for its end and leave together in the next one, oldest first. Beyond MAX_WAITING
    waiting texts a further one is refused at once.
    """

    def __init__(self, score_batch: Callable[[list[str]], Awaitable[Sequence[AnswerT]]]) -> None:
        self._score_batch = score_batch
        self._waiting: deque[tuple[str, asyncio.Future[AnswerT]]] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def score(self, text: str, *, first: bool = False) -> AnswerT:
        """The answer for `text`, which with `first` overtakes all that wait.

        Raises QueueFullError, and whatever the call that carried the text raised.
        """
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft((text, answer))
        elif len(self._waiting) >= MAX_WAITING:
            raise QueueFullError
        else:
            self._waiting.append((text, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_until_empty())
        return await answer

    async def _send_until_empty(self) -> None:
        while self._waiting:
            if batch := self._next_batch():
                await self._send(batch)

    def _next_batch(self) -> list[tuple[str, asyncio.Future[AnswerT]]]:
        batch: list[tuple[str, asyncio.Future[AnswerT]]] = []
        characters = 0
        while self._waiting and len(batch) < MAX_BATCH:
            text, answer = self._waiting[0]
            if batch and characters + len(text) > MAX_BATCH_CHARACTERS:
                break
            self._waiting.popleft()
            if not answer.done():  # else given up meanwhile
                batch.append((text, answer))
                characters += len(text)
        return batch

    async def _send(self, batch: Sequence[tuple[str, asyncio.Future[AnswerT]]]) -> None:
        try:
            answers = await self._score_batch([text for text, _ in batch])
            if len(answers) != len(batch):
                raise RuntimeError("the runner gave another number of answers than it got texts")
        except Exception as error:
            for _, waiting in batch:
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for (_, waiting), answer in zip(batch, answers, strict=True):
            if not waiting.done():
                waiting.set_result(answer)
