"""Guest tokens: verify the JWT of an embedded viewer and derive the viewer's channel.

The channel is Superset's formula over the configured claims: a keyed digest of the decoded
claims, so it is the same on submit and on poll and no cookie is needed.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Iterator
from typing import Any

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.identities import GuestIdentity
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import Remembered, TokenError, Window, read_jws, read_window

MAX_GUEST_TOKEN_BYTES = 16_384
MAX_DEPTH = 64
"""How deep claims may be nested; digest and copies of them must not depend on Python's stack."""


class GuestVerifier:
    """Verifies the guest tokens of one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._channel_secret = settings.channel_secret or settings.jwt_secret
        self._remembered: Remembered[tuple[GuestIdentity, Window]] = Remembered(weight=20)

    def verify(self, raw: str, now: float) -> GuestIdentity | Refusal:
        """Return the guest of a valid token, else why it is refused.

        Args:
            raw: The text of the header.
            now: Epoch seconds.
        """
        found = self._remembered.get(raw)
        if found is None:
            if len(raw) > MAX_GUEST_TOKEN_BYTES:
                return Refusal.of("guest_malformed")
            try:
                found = self._read(raw)
            except TokenError as error:
                return Refusal.of(f"guest_{error.reason}")
            self._remembered.put(raw, found)
        identity, window = found
        reason = window.refusal_at(now, self._settings.jwt_leeway_seconds)
        return identity if reason is None else Refusal.of(f"guest_{reason}")

    def _read(self, raw: str) -> tuple[GuestIdentity, Window]:
        settings = self._settings
        claims, _ = read_jws(
            raw, settings.guest_secrets, settings.guest_algorithm, settings.guest_audience
        )
        window = read_window(claims, require_exp=True)
        if any(guest_faults(claims)) or _is_deeper_than(MAX_DEPTH, claims):
            raise TokenError("claims")
        channel = guest_channel(claims, settings.guest_channel_claims, self._channel_secret)
        return GuestIdentity(channel, claims), window


def guest_faults(claims: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each claim, times apart, that is not usable, and what it must be."""
    if claims.get("type") != "guest":
        yield "type", '"guest"'
    for name, shape in {"user": dict, "resources": list, "rls_rules": list}.items():
        if not isinstance(claims.get(name), shape):
            yield name, "an object" if shape is dict else "a list"


def _is_deeper_than(depth: int, claims: dict[str, Any]) -> bool:
    level: list[Any] = [claims]
    for _ in range(depth):
        below = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for items in below for item in items if isinstance(item, dict | list)]
    return bool(level)


def guest_channel(claims: dict[str, Any], names: tuple[str, ...], secret: bytes) -> str:
    """Return the channel of a guest: `guest-` and the HMAC-SHA256 of the named claims.

    Absent claims count as null; keys are sorted at every depth, ASCII only, and NaN and
    infinities are null, as Superset's own serialiser writes them (vectors `guest_channel`).
    """
    chosen = {name: claims.get(name) for name in names}
    try:
        text = json.dumps(chosen, sort_keys=True, allow_nan=False)
    except ValueError:
        text = json.dumps(_without_nan(chosen), sort_keys=True)
    return "guest-" + hmac.digest(secret, text.encode(), "sha256").hex()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
