"""The JSON of jobs and events is Superset's."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaq_middleware.core.wire import MAX_ERRORS, error_texts, to_json, wire_id

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.uuids(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(), inner)
        | st.frozensets(st.integers())
    ),
)


class Unspeakable:
    """An object that cannot say its own text."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def nested(depth: int) -> list[Any]:
    """Return lists in lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class TestToJson:
    """One way to write a value."""

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            pytest.param({"b": 1, "a": [1, 2]}, '{"b": 1, "a": [1, 2]}', id="order and spaces"),
            pytest.param("ü😀\x7f/", '"\\u00fc\\ud83d\\ude00\\u007f/"', id="ASCII"),
            pytest.param("\n", '"\\n"', id="no line break"),
            pytest.param([math.nan, math.inf, -math.inf], "[null, null, null]", id="no number"),
            pytest.param({"NaN": math.nan, "a": "NaN"}, '{"NaN": null, "a": "NaN"}', id="the word"),
            pytest.param([1.0, 10**30], f"[1.0, {10**30}]", id="kinds of numbers"),
            pytest.param(
                dt.datetime(2026, 8, 1, 12, 0, tzinfo=dt.timezone.utc),
                '"2026-08-01T12:00:00+00:00"',
                id="moment",
            ),
            pytest.param(
                [dt.date(2026, 8, 1), dt.time(12)], '["2026-08-01", "12:00:00"]', id="day"
            ),
            pytest.param(uuid.UUID(int=5), '"00000000-0000-0000-0000-000000000005"', id="UUID"),
        ],
    )
    def test_values_are_written_as_superset_writes_them(self, value: object, text: str) -> None:
        """Separators, ASCII, null for NaN, ISO dates, UUIDs as text."""
        assert to_json(value) == text

    @pytest.mark.parametrize("value", [{1}, b"x", object(), 1j, {(): 1}])
    def test_what_json_does_not_have_is_a_type_error(self, value: object) -> None:
        """It is not written as something else."""
        with pytest.raises(TypeError):
            to_json(value)

    def test_a_circle_is_a_value_error(self) -> None:
        """A value that holds itself has no text, with NaN in it or without."""
        circle: list[Any] = [math.nan]
        circle.append(circle)

        with pytest.raises(ValueError, match="Circular"):
            to_json(circle)

    def test_too_deep_is_a_value_error(self) -> None:
        """A depth that would break the reader is refused."""
        with pytest.raises(ValueError, match="nested too deeply"):
            to_json(nested(100_000))


class TestWireId:
    """Numbers where Superset writes numbers, so that it compares them as equal."""

    @pytest.mark.parametrize("number", [0, 7, 10, 2**53 - 1])
    def test_a_canonical_decimal_is_a_number(self, number: int) -> None:
        """Up to the last integer that every JSON reader keeps."""
        assert wire_id(str(number)) == number

    @pytest.mark.parametrize(
        "text", ["007", "-5", "+5", " 5", "5.0", "1e3", "\u0667", "", "ann", str(2**53), "9" * 400]
    )
    def test_any_other_text_stays_text(self, text: str) -> None:
        """So that reading it back gives the same user."""
        assert wire_id(text) == text

    def test_no_user_is_null(self) -> None:
        """Guests have none."""
        assert wire_id(None) is None

    @given(st.text())
    def test_the_text_comes_back(self, text: str) -> None:
        """No two users share what is on the wire, and each is read back."""
        assert str(wire_id(text)) == text


class TestErrorTexts:
    """Whatever went wrong, its owner gets something to read."""

    @pytest.mark.parametrize(
        ("errors", "expected"),
        [
            pytest.param("no", [{"message": "no"}], id="text"),
            pytest.param(ValueError("no"), [{"message": "no"}], id="exception"),
            pytest.param(ValueError(), [{"message": "ValueError"}], id="exception without text"),
            pytest.param(KeyboardInterrupt(), [{"message": "KeyboardInterrupt"}], id="interrupt"),
            pytest.param(Unspeakable(), [{"message": "Unspeakable"}], id="no text at all"),
            pytest.param([], [{"message": "The job failed."}], id="empty list"),
            pytest.param(
                {"message": "a", "level": "b"}, [{"message": "a", "level": "b"}], id="one"
            ),
            pytest.param(
                ({"message": "a"}, "b", ValueError("c")),
                [{"message": "a"}, {"message": "b"}, {"message": "c"}],
                id="mixed",
            ),
            pytest.param([{"extra": {1}}], [{"extra": "{1}"}], id="what JSON does not have"),
            pytest.param(
                [{"extra": uuid.UUID(int=5)}], [{"extra": str(uuid.UUID(int=5))}], id="id"
            ),
            pytest.param([{"x": Unspeakable()}], [{"x": "Unspeakable"}], id="no text inside"),
        ],
    )
    def test_errors_are_a_list_of_objects(self, errors: object, expected: object) -> None:
        """Texts and exceptions become messages; objects stay."""
        assert json.loads(error_texts(errors)) == expected

    @pytest.mark.parametrize(
        "errors",
        [
            pytest.param([{"message": "m" * 20_000}, {"message": "b"}], id="too long"),
            pytest.param([{"message": "m" * 3_000, ("a", "b"): 1}], id="a key that is no text"),
            pytest.param([{"message": "m" * 3_000, "x": nested(100_000)}], id="too deep"),
        ],
    )
    def test_what_cannot_be_kept_is_cut_to_the_first_message(self, errors: object) -> None:
        """2,000 characters of it, marked."""
        assert json.loads(error_texts(errors)) == [{"message": "m" * 2_000, "truncated": True}]

    def test_without_a_message_the_object_itself_is_cut(self) -> None:
        """Something to read remains."""
        assert json.loads(error_texts([{("a", "b"): 1}])) == [
            {"message": "{('a', 'b'): 1}", "truncated": True}
        ]

    @given(ANYTHING)
    def test_any_errors_give_a_list_of_objects(self, errors: object) -> None:
        """It always succeeds, and is bounded."""
        text = error_texts(errors)
        listed = json.loads(text, parse_constant=pytest.fail)

        assert isinstance(listed, list)
        assert listed
        assert all(isinstance(error, dict) for error in listed)
        assert text.isascii()
        assert len(text) <= max(MAX_ERRORS, 12 * 2_000 + 100)
