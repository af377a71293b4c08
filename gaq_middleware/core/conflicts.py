"""What is wrong, or doubtful, between settings that are each right by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from gaq_middleware.core.store_urls import BLOCK_SECONDS, socket_timeout

_USUAL_HEADERS = {"x-forwarded-for", "x-forwarded-proto"}  # the default


def contradictions(v: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong between settings that are each right."""
    name, secure = v["cookie_name"], v["cookie_secure"]
    is_host = name.lower().startswith("__host-")  # in any case: RFC 6265bis section 5.7
    needs_secure = {
        "GAQ_COOKIE_NAME starting with __Host-": is_host,
        "GAQ_COOKIE_NAME starting with __Secure-": name.lower().startswith("__secure-"),
        "GAQ_COOKIE_SAMESITE=None": v["cookie_samesite"] == "None",
        "GAQ_COOKIE_PARTITIONED=true": v["cookie_partitioned"],
    }
    for cause, applies in needs_secure.items():
        if applies and secure is False:
            yield (
                f"{cause} needs a Secure cookie, or browsers drop it: unset GAQ_COOKIE_SECURE or "
                "set it to true."
            )
    if is_host and (v["cookie_domain"] or v["cookie_path"] != "/"):
        yield (
            "GAQ_COOKIE_NAME starting with __Host- allows no GAQ_COOKIE_DOMAIN and no "
            "GAQ_COOKIE_PATH but /: unset them."
        )
    for one, other in combinations(("token_header", "guest_header", "remote_user_header"), 2):
        if v[one].lower() == v[other].lower():
            yield f"GAQ_{one.upper()} and GAQ_{other.upper()} must differ: rename one of them."
    yield from _source_contradictions(v)
    if v["guest_secret"] is None and v["guest_verify_secrets"]:
        yield "GAQ_GUEST_VERIFY_SECRETS is set without GAQ_GUEST_SECRET: set that, or unset this."
    if v["guest_secret"] is not None:
        yield from _guest_contradictions(v)


def _source_contradictions(v: Mapping[str, Any]) -> Iterator[str]:
    if v["session_format"] and v["session_secret"] is None:
        yield (
            "GAQ_SESSION_SECRET is not set. With GAQ_SESSION_FORMAT it must be the secret that "
            "signs the app's sessions (Flask: SECRET_KEY)."
        )
    if v["session_secret"] is not None and not v["session_format"]:
        yield "GAQ_SESSION_SECRET is set without GAQ_SESSION_FORMAT: set it to flask or starlette."
    if v["session_secret"] is None and v["session_previous_secrets"]:
        yield (
            "GAQ_SESSION_PREVIOUS_SECRETS is set without GAQ_SESSION_SECRET: set that, or unset "
            "this."
        )
    if v["session_format"] and v["session_cookie"] == v["cookie_name"]:
        yield (
            "GAQ_COOKIE_NAME and GAQ_SESSION_COOKIE must differ, or each deletes the other: rename "
            "one of them."
        )
    if v["remote_user_header"] not in {"", "REMOTE_USER"} and not v["trusted_proxies"]:
        yield (
            "GAQ_REMOTE_USER_HEADER is believed from trusted proxies only, and there are none: set "
            "GAQ_TRUSTED_PROXIES to the address of the proxy that sets it."
        )
    if "forwarded" in v["trusted_headers"] and len(v["trusted_headers"]) > 1:
        yield (
            "GAQ_TRUSTED_HEADERS has forwarded beside others: a proxy that overwrites one passes "
            "the others through. Keep the one kind that yours overwrites."
        )


def _guest_contradictions(v: Mapping[str, Any]) -> Iterator[str]:
    if v["guest_audience"] is None:
        yield (
            "GAQ_GUEST_AUDIENCE is not set. With GAQ_GUEST_SECRET it must be the `aud` text of "
            "your guest tokens (Superset: GUEST_TOKEN_JWT_AUDIENCE), or * to check none."
        )
    guests = {v["guest_secret"], *v["guest_verify_secrets"]}
    if guests & {v["jwt_secret"], *v["jwt_verify_secrets"]}:
        yield (
            "GAQ_GUEST_SECRET equals a token secret: whoever mints guests could then mint users. "
            "Use two secrets."
        )
    least = int(v["guest_algorithm"][2:]) // 8
    if min(map(len, guests)) < least:
        yield (
            f"GAQ_GUEST_ALGORITHM={v['guest_algorithm']} needs guest secrets of at least {least} "
            "bytes (RFC 7518 section 3.2): `gaq secret` prints a good one."
        )


def doubts(v: Mapping[str, Any]) -> Iterator[str]:
    """Yield what works but is probably not meant; logged at start-up."""
    if v["issue"] == "off":
        yield "GAQ_ISSUE=off: the cookie is only verified here; another part must issue it."
    if v["celery_app"] and v["store_url"] == "memory://":
        yield (
            "GAQ_STORE_URL is memory:// but Celery's workers, by GAQ_CELERY_APP, are other "
            "processes and do not see the jobs: set it to a Redis."
        )
    timeout = socket_timeout(v["store_url"])
    if timeout is not None and timeout <= BLOCK_SECONDS:
        yield (
            f"GAQ_STORE_URL has a socket_timeout of {timeout:g} s: a Redis that pauses so long, as "
            "when it forks to save, fails requests; reads that wait for events take longer and "
            f"do not heed it. Raise it above {BLOCK_SECONDS:g}, or leave it out (5 s)."
        )
    yield from _token_doubts(v)
    yield from _path_doubts(v)
    yield from _proxy_doubts(v)
    if v["guest_secret"] is None and v["guest_audience"] is not None:
        yield "GAQ_GUEST_AUDIENCE is set without GAQ_GUEST_SECRET: guests are off; set that too."
    claims = set(v["guest_channel_claims"])
    if v["guest_secret"] is not None:
        if "rls_rules" not in claims:
            yield (
                "GAQ_GUEST_CHANNEL_CLAIMS without rls_rules: guests with different row-level "
                "rules can share a channel."
            )
        if not {"iat", "exp"} <= claims and not {"jti", "sid", "sub"} & claims:
            yield (
                "GAQ_GUEST_CHANNEL_CLAIMS without iat and exp: guests with equal claims share a "
                "channel; add jti, sid or sub."
            )


def _token_doubts(v: Mapping[str, Any]) -> Iterator[str]:
    life = v["jwt_expiration_seconds"]
    if v["jwt_max_age_seconds"] < life:
        yield (
            "GAQ_JWT_MAX_AGE_SECONDS is below GAQ_JWT_EXPIRATION_SECONDS: no token lives longer "
            "than the former, and none is renewed. Raise the former or lower the latter."
        )
    if v["jwt_leeway_seconds"] > life / 2:
        yield (
            "GAQ_JWT_LEEWAY_SECONDS is more than half the life of a token: lower it; 10 is enough "
            "for clocks that are synchronised."
        )
    if not v["jwt_require_exp"] and v["issue"] != "off":
        yield (
            "GAQ_JWT_REQUIRE_EXP=false: a cookie without exp is good for ever, also in the hands "
            "of a thief. Set it to true as soon as nobody else issues such cookies."
        )
    if v["cookie_partitioned"] and v["cookie_samesite"] != "None":
        yield (
            "GAQ_COOKIE_PARTITIONED=true is for frames on other sites, where browsers send no "
            f"cookie with GAQ_COOKIE_SAMESITE={v['cookie_samesite']}: set that to None."
        )


def _path_doubts(v: Mapping[str, Any]) -> Iterator[str]:
    login, logout = set(v["login_paths"]), set(v["logout_paths"])
    guarded = {*v["protected_paths"], v["events_path"]} - {""}
    for path in sorted(login & logout):
        yield (
            f"GAQ_LOGIN_PATHS and GAQ_LOGOUT_PATHS both have {path}, where the cookie is then "
            "deleted: take it out of one of them."
        )
    for path in sorted((login | logout) & guarded):
        name = "GAQ_LOGIN_PATHS" if path in login else "GAQ_LOGOUT_PATHS"
        yield f"{name} has the protected path {path}, which is then open to all: take it out."
    if not guarded:
        yield "GAQ_PROTECTED_PATHS and GAQ_EVENTS_PATH are empty: nothing is guarded; set one."


def _proxy_doubts(v: Mapping[str, Any]) -> Iterator[str]:
    for peer in v["trusted_proxies"]:
        if getattr(peer, "prefixlen", 32) == 0:
            yield (
                f"GAQ_TRUSTED_PROXIES={peer} believes everybody: name the addresses of your "
                "proxies only."
            )
    if not v["trusted_proxies"] and set(v["trusted_headers"]) != _USUAL_HEADERS:
        yield (
            "GAQ_TRUSTED_HEADERS counts for GAQ_TRUSTED_PROXIES only, and there are none: set them."
        )
