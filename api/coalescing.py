"""Concurrent requests meet in one call to the runner, since each call crosses a process."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

AnswerT = TypeVar("AnswerT")


class Coalescer(Generic[AnswerT]):
    """Turns many calls for one text into few calls for many.

    A lone text goes out at once: there is no timer. Texts that arrive while a call is under
    way wait for its end and leave together in the next one, oldest first.
    """

    def __init__(self, score_batch: Callable[[list[str]], Awaitable[Sequence[AnswerT]]], max_batch: int) -> None:
        self._score_batch, self._max_batch = score_batch, max_batch
        self._waiting: deque[tuple[str, asyncio.Future[AnswerT]]] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def score(self, text: str) -> AnswerT:
        """The answer for `text`; raises what the call that carried it raised."""
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_until_empty())
        return await answer

    async def _send_until_empty(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._max_batch))]
            batch = [(text, answer) for text, answer in batch if not answer.done()]  # given up meanwhile
            if batch:
                await self._send(batch)

    async def _send(self, batch: Sequence[tuple[str, asyncio.Future[AnswerT]]]) -> None:
        try:
            answers = await self._score_batch([text for text, _ in batch])
        except Exception as error:
            for _, waiting in batch:
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for (_, waiting), answer in zip(batch, answers, strict=True):
            if not waiting.done():
                waiting.set_result(answer)
