"""What servers behind proxies serve: the plain app of `served`, guarded in several ways.

The header `X-Deployment`, which the proxies set, chooses the settings; a test that reads the log
sends `X-Run` to get a middleware of its own, which has said nothing yet.
"""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

from gaq_middleware import Settings, asgi, wsgi
from tests.helpers import K2
from tests.live.served import plain_asgi, plain_wsgi

TRUSTING = {"GAQ_TRUSTED_PROXIES": "127.0.0.1"}
DEFAULT_HEADERS = "x-forwarded-for,x-forwarded-proto"
DEPLOYMENTS = {
    "bare": {},
    "trusting": TRUSTING,
    "trusting the host": {**TRUSTING, "GAQ_TRUSTED_HEADERS": f"{DEFAULT_HEADERS},x-forwarded-host"},
    "trusting the prefix": {
        **TRUSTING,
        "GAQ_TRUSTED_HEADERS": f"{DEFAULT_HEADERS},x-forwarded-prefix",
    },
    "trusting the user": {**TRUSTING, "GAQ_REMOTE_USER_HEADER": "X-Remote-User"},
    "trusting the user of another proxy": {
        "GAQ_TRUSTED_PROXIES": "127.0.0.9",
        "GAQ_REMOTE_USER_HEADER": "X-Remote-User",
    },
    "second": {**TRUSTING, "GAQ_JWT_SECRET": K2, "GAQ_COOKIE_NAME": "second-token"},
}

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")


def settings_of(deployment: str) -> Settings:
    """Return the settings of a deployment."""
    return Settings.from_env({**os.environ, **DEPLOYMENTS[deployment]})


async def routed_asgi(scope: Any, receive: Any, send: Any) -> None:
    """Route as frameworks do: below the root path, if the path begins with it."""
    root = scope.get("root_path", "")
    if root and scope["path"].startswith(f"{root}/"):
        scope = {**scope, "path": scope["path"][len(root) :]}
    await plain_asgi(scope, receive, send)


@functools.cache
def guarded_asgi(deployment: str, run: str) -> Any:
    """Return the wrapped ASGI app of a deployment."""
    return asgi.AsyncQueryMiddleware(routed_asgi, settings_of(deployment))


@functools.cache
def guarded_wsgi(deployment: str, run: str) -> Any:
    """Return the wrapped WSGI app of a deployment."""
    return wsgi.AsyncQueryMiddleware(plain_wsgi, settings_of(deployment))


async def asgi_app(scope: Any, receive: Any, send: Any) -> None:
    """Serve the deployment that is asked for."""
    headers = dict(scope.get("headers", ()))
    names = [headers.get(name, b"").decode() for name in (b"x-deployment", b"x-run")]
    await guarded_asgi(names[0] or "bare", names[1])(scope, receive, send)


def wsgi_app(environ: Any, start_response: Any) -> Any:
    """Serve the deployment that is asked for."""
    deployment, run = environ.get("HTTP_X_DEPLOYMENT", "bare"), environ.get("HTTP_X_RUN", "")
    return guarded_wsgi(deployment, run)(environ, start_response)
