"""Concurrent texts share calls, keep their answers apart, and fail only with their own call."""

import asyncio
from collections.abc import Sequence

import pytest

from api.coalescing import Coalescer


class Runner:
    """A predictable runner: the answer to a text is the text in capitals; "bad" fails the whole call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gate = asyncio.Event()

    async def score(self, texts: list[str]) -> Sequence[str]:
        self.calls.append(texts)
        await self.gate.wait()
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]


def test_texts_that_arrive_during_a_call_leave_together_in_order() -> None:
    async def scenario() -> None:
        runner = Runner()
        coalescer = Coalescer(runner.score, max_batch=3)
        first = asyncio.create_task(coalescer.score("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert runner.calls == [["a"]]  # a lone text waits for nobody
        rest = [asyncio.create_task(coalescer.score(text)) for text in "bcdef"]
        await asyncio.sleep(0)
        runner.gate.set()
        assert await asyncio.gather(first, *rest) == list("ABCDEF")
        assert runner.calls == [["a"], ["b", "c", "d"], ["e", "f"]]

    asyncio.run(scenario())


def test_a_failed_call_fails_its_texts_and_no_others() -> None:
    async def scenario() -> None:
        runner = Runner()
        runner.gate.set()
        coalescer = Coalescer(runner.score, max_batch=1)
        bad, good = await asyncio.gather(coalescer.score("bad"), coalescer.score("good"), return_exceptions=True)
        assert isinstance(bad, ValueError)
        assert good == "GOOD"

    asyncio.run(scenario())


def test_a_text_given_up_while_waiting_is_not_sent() -> None:
    async def scenario() -> None:
        runner = Runner()
        coalescer = Coalescer(runner.score, max_batch=8)
        first = asyncio.create_task(coalescer.score("a"))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(coalescer.score("b"), 0.01)
        last = asyncio.create_task(coalescer.score("c"))
        await asyncio.sleep(0)
        runner.gate.set()
        assert list(await asyncio.gather(first, last)) == ["A", "C"]
        assert runner.calls == [["a"], ["c"]]

    asyncio.run(scenario())
