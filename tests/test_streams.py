"""How many streams may be open."""

from __future__ import annotations

from contextlib import ExitStack

from gaq_middleware.registry import Slots


def test_so_many_in_all() -> None:
    """And when one is given back there is one again."""
    slots = Slots(2, 2)
    with ExitStack() as stack:
        had = [stack.enter_context(slots.one(name, is_guest=False)) for name in "abc"]
        assert had == [True, True, False]
    with slots.one("c", is_guest=False) as again:
        assert again


def test_so_many_of_one_channel() -> None:
    """Others are not kept out."""
    slots = Slots(10, 2)
    with ExitStack() as stack:
        had = [stack.enter_context(slots.one("a", is_guest=False)) for _ in range(3)]
        assert had == [True, True, False]
        assert stack.enter_context(slots.one("b", is_guest=False))
    with slots.one("a", is_guest=False) as again:
        assert again


def test_guests_count_only_in_all() -> None:
    """Equal claims make one channel of many viewers."""
    slots = Slots(3, 1)
    with ExitStack() as stack:
        had = [stack.enter_context(slots.one("guest-a", is_guest=True)) for _ in range(4)]
        assert had == [True, True, True, False]


def test_none_at_all() -> None:
    """0 lets nobody wait."""
    with Slots(0, 20).one("a", is_guest=False) as had:
        assert not had
