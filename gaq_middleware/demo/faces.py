"""The demo app behind the two faces: real apps of Starlette and of werkzeug, each wrapped."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from werkzeug import Request as WerkzeugRequest
from werkzeug import Response as WerkzeugResponse
from werkzeug.routing import Map, Rule

from gaq_middleware import asgi, wsgi
from gaq_middleware.demo.app import Ask, Demo, Handler


def asgi_app(demo: Demo) -> asgi.AsyncQueryMiddleware:
    """Return the demo as a Starlette app inside the middleware."""
    app = Starlette(routes=[_route(*row) for row in demo.routes])
    return asgi.AsyncQueryMiddleware(app, demo.settings, canceller=demo.stop)


def _route(method: str, path: str, handler: Handler) -> Route:
    async def endpoint(request: Request) -> Response:
        fields = {**_form(await request.body()), **request.path_params}
        answer = await run_in_threadpool(handler, Ask(fields, request.cookies))
        return Response(answer.body, answer.status, answer.headers)

    return Route(path, endpoint, methods=[method])


def wsgi_app(demo: Demo) -> wsgi.AsyncQueryMiddleware:
    """Return the demo as a werkzeug app inside the middleware."""
    rules = [
        Rule(path.replace("{", "<").replace("}", ">"), endpoint=handler, methods=[method])
        for method, path, handler in demo.routes
    ]
    urls = Map(rules)

    @WerkzeugRequest.application
    def app(request: WerkzeugRequest) -> WerkzeugResponse:
        handler, arguments = urls.bind_to_environ(request.environ).match()
        fields = {**_form(request.get_data()), **arguments}
        answer = handler(Ask(fields, request.cookies))
        return WerkzeugResponse(answer.body, answer.status, dict(answer.headers))

    return wsgi.AsyncQueryMiddleware(app, demo.settings, canceller=demo.stop)


def _form(body: bytes) -> dict[str, str]:
    return dict(parse_qsl(body.decode("utf-8", "replace")))
