"""Who a request comes from."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class UserIdentity:
    """A user known to the app."""

    channel_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class AnonymousIdentity:
    """A visitor who holds a channel of their own but no user id."""

    channel_id: str
    user_id: None = None


@dataclass(frozen=True, slots=True)
class GuestIdentity:
    """A viewer of an embedded page, known by a guest token."""

    channel_id: str
    verified_claims: dict[str, Any] = field(repr=False, compare=False)
    user_id: None = None

    @property
    def claims(self) -> dict[str, Any]:
        """A copy of the verified claims of the guest token."""
        return copy.deepcopy(self.verified_claims)


Identity = UserIdentity | AnonymousIdentity | GuestIdentity
"""Every identity has `channel_id` and `user_id`."""
