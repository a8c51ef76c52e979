"""Concurrent texts share calls, keep their answers apart, and fail only with their own call."""

import asyncio
from collections.abc import Sequence

import pytest

from api import coalescing
from api.coalescing import Coalescer, QueueFullError, Scored


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
        return [text.upper() for text in texts if text != "lost"]


async def behind_a_call(coalescer: Coalescer[str], texts: Sequence[str]) -> list[asyncio.Task[Scored[str]]]:
    """A call for "a" that is under way, and those for `texts`, which wait for its end."""
    first = asyncio.create_task(coalescer.score("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = [asyncio.create_task(coalescer.score(text)) for text in texts]
    await asyncio.sleep(0)
    return [first, *rest]


def test_texts_that_arrive_during_a_call_leave_together_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalescing, "MAX_BATCH", 3)

    async def scenario() -> None:
        runner = Runner()
        coalescer = Coalescer(runner.score)
        first = asyncio.create_task(coalescer.score("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert runner.calls == [["a"]]  # a lone text waits for nobody
        rest = [asyncio.create_task(coalescer.score(text)) for text in "bcdef"]
        await asyncio.sleep(0)
        runner.gate.set()
        scored = await asyncio.gather(first, *rest)
        assert [(one.answer, one.batch) for one in scored] == list(zip("ABCDEF", (1, 3, 3, 3, 2, 2), strict=True))
        assert runner.calls == [["a"], ["b", "c", "d"], ["e", "f"]]

    asyncio.run(scenario())


def test_a_failed_call_fails_its_texts_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalescing, "MAX_BATCH", 1)

    async def scenario() -> None:
        runner = Runner()
        runner.gate.set()
        coalescer = Coalescer(runner.score)
        bad, good = await asyncio.gather(coalescer.score("bad"), coalescer.score("good"), return_exceptions=True)
        assert isinstance(bad, ValueError)
        assert good == Scored("GOOD", 1)

    asyncio.run(scenario())


def test_a_text_given_up_while_waiting_is_not_sent() -> None:
    async def scenario() -> None:
        runner = Runner()
        coalescer = Coalescer(runner.score)
        first = asyncio.create_task(coalescer.score("a"))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(coalescer.score("b"), 0.01)
        last = asyncio.create_task(coalescer.score("c"))
        await asyncio.sleep(0)
        runner.gate.set()
        assert [scored.answer for scored in await asyncio.gather(first, last)] == ["A", "C"]
        assert runner.calls == [["a"], ["c"]]

    asyncio.run(scenario())


def test_an_answer_lost_by_the_runner_fails_its_call_and_the_next_goes_on() -> None:
    async def scenario() -> None:
        runner = Runner()
        coalescer = Coalescer(runner.score)
        first = asyncio.create_task(coalescer.score("a"))
        await asyncio.sleep(0)
        lost = [asyncio.create_task(coalescer.score(text)) for text in ("b", "lost")]
        await asyncio.sleep(0)
        runner.gate.set()
        assert (await first).answer == "A"
        found = await asyncio.gather(*lost, return_exceptions=True)
        assert [type(answer) for answer in found] == [RuntimeError, RuntimeError]
        assert (await coalescer.score("c")).answer == "C"

    asyncio.run(scenario())


def test_long_texts_share_no_call_and_a_full_queue_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalescing, "MAX_BATCH_CHARACTERS", 10)
    monkeypatch.setattr(coalescing, "MAX_WAITING", 3)

    async def scenario() -> None:
        runner = Runner()
        coalescer = Coalescer(runner.score)
        tasks = await behind_a_call(coalescer, ["b" * 30, "c" * 6, "d" * 6])
        with pytest.raises(QueueFullError):
            await coalescer.score("e")
        runner.gate.set()
        await asyncio.gather(*tasks)
        assert runner.calls == [["a"], ["b" * 30], ["c" * 6], ["d" * 6]]

    asyncio.run(scenario())


def test_long_texts_fill_the_queue_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalescing, "MAX_WAITING_CHARACTERS", 40)

    async def scenario() -> None:
        runner = Runner()
        coalescer = Coalescer(runner.score)
        tasks = await behind_a_call(coalescer, ["b" * 15, "c" * 15])
        assert len(coalescer) == 2
        with pytest.raises(QueueFullError):
            await coalescer.score("d" * 11)
        tasks.append(asyncio.create_task(coalescer.score("d" * 10)))
        await asyncio.sleep(0)
        assert coalescer.is_full
        runner.gate.set()
        await asyncio.gather(*tasks)
        assert (await coalescer.score("d" * 11)).answer == "D" * 11

    asyncio.run(scenario())
