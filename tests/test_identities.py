"""Who a request comes from, as values."""

from __future__ import annotations

import pytest

from gaq_middleware.core.identities import AnonymousIdentity, GuestIdentity, UserIdentity


def test_every_identity_has_a_channel_and_a_user_id() -> None:
    """Guests and anonymous visitors have no user id (design 2)."""
    identities = (UserIdentity("c", "7"), AnonymousIdentity("c"), GuestIdentity("c", {}))
    assert [(i.channel_id, i.user_id) for i in identities] == [("c", "7"), ("c", None), ("c", None)]


@pytest.mark.parametrize(
    "identity",
    [UserIdentity("c", "7"), AnonymousIdentity("c"), GuestIdentity("c", {})],
    ids=["a user", "an anonymous visitor", "a guest"],
)
def test_identities_are_frozen_values(identity: object) -> None:
    """Identities cannot be changed, and can be keys (design 2)."""
    with pytest.raises(AttributeError):
        identity.channel_id = "other"  # type: ignore[attr-defined]
    assert {identity: 1}[identity] == 1


def test_the_claims_of_a_guest_are_a_copy() -> None:
    """Whoever changes the claims changes their own copy, at every depth (design 9)."""
    guest = GuestIdentity("c", {"user": {"username": "g"}, "resources": [{"id": 1}]})
    guest.claims["user"]["username"] = "admin"
    guest.claims["resources"].append(2)
    assert guest.claims == {"user": {"username": "g"}, "resources": [{"id": 1}]}


def test_the_claims_of_a_guest_are_not_in_the_repr() -> None:
    """What a guest may see is not for logs; the channel identifies the guest."""
    guest = GuestIdentity("c", {"user": {"username": "someone"}})
    assert repr(guest) == "GuestIdentity(channel_id='c', user_id=None)"
    assert guest == GuestIdentity("c", {})
