"""Plain calls and awaitables of one piece of code."""

from __future__ import annotations

import asyncio

import pytest

from gaq_middleware.registry.colours import at_once


async def _add(left: int, right: int) -> int:
    return left + right


def test_what_waits_for_nothing_is_done_at_once() -> None:
    """Also inside a running loop, which takes no notice."""

    async def add_all() -> int:
        return await _add(1, 2) + await _add(3, 4)

    async def inside() -> int:
        return at_once(add_all())

    assert at_once(add_all()) == asyncio.run(inside()) == 10


def test_what_is_raised_comes_out() -> None:
    """As from any call."""

    async def fail() -> None:
        await _add(1, 2)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        at_once(fail())


def test_what_waits_is_refused() -> None:
    """It is ended, and cleans up, rather than hang or be forgotten."""
    ended: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(True)

    with pytest.raises(RuntimeError, match="only an event loop"):
        at_once(wait())
    assert ended == [True]
