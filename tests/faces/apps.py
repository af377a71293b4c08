"""One app with the same routes, built in every framework.

A handler returns an `Out`, and each builder makes a response of its framework of it. Handlers
work without the middleware too (`/member`, `/raise/...` and the like excepted), so that an app can
be compared with itself, unwrapped.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

import pytest

from gaq_middleware import (
    AuthenticationError,
    ForbiddenError,
    JobNotFoundError,
    NotFoundError,
    NotJobOwnerError,
    Settings,
    StoreError,
    asgi,
    current,
    wsgi,
)
from tests.django_setup import configure_django

Mode = Literal["off", "debug", "test"]
"""Debug off, debug on, and the mode in which a framework's own test client runs."""
CHART = "/api/v1/chart/data"
CANCEL = "/jobs/{job_id}/cancel"
RAISED = {
    401: AuthenticationError,
    403: ForbiddenError,
    404: JobNotFoundError,
    503: StoreError,
}


def load(name: str) -> Any:
    """Import a framework, or skip the test; its own warnings at import are its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


# --- handlers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Out:
    """What a handler answers, in plain text; `parts` make a stream of it."""

    body: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()
    parts: Callable[[], Iterator[bytes]] | None = None

    async def aparts(self) -> AsyncIterator[bytes]:
        """Yield the parts, in the task that asks for them."""
        assert self.parts is not None
        for part in self.parts():
            yield part


class TeapotError(Exception):
    """An error of the app, for which it has an error handler."""


TEAPOT = Out("I am a teapot", 418, (("X-Own", "yes"),))


def login() -> Out:
    """Log user 7 in, and set two cookies of the app's own."""
    with contextlib.suppress(LookupError):
        current().login(7)
    return Out("hello", cookies=(("first", "1"), ("second", "2")))


def logout() -> Out:
    """Log out."""
    with contextlib.suppress(LookupError):
        current().logout()
    return Out("bye")


def chart() -> Out:
    """Submit a job."""
    return Out(json.dumps(current().jobs.submit(chart=5).as_dict()), 202)


async def achart() -> Out:
    """Submit a job, awaiting."""
    job = await current().ajobs.submit(chart=5)
    return Out(json.dumps(job.as_dict()), 202)


def cancel(job_id: str) -> Out:
    """Cancel a job."""
    return Out(current().jobs.cancel(job_id).status)


async def acancel(job_id: str) -> Out:
    """Cancel a job, awaiting."""
    return Out((await current().ajobs.cancel(job_id)).status)


def raises(error: Callable[[], Exception]) -> Callable[[], Out]:
    """Return a handler that raises."""

    def handler() -> Out:
        raise error()

    return handler


def says(out: Out) -> Callable[[], Out]:
    """Return a handler that answers always the same."""
    return lambda: out


def member() -> Out:
    """Tell the channel of who is asking."""
    return Out(current().channel_id)


def catch() -> Out:
    """Catch an error of ours, and answer."""
    try:
        raise NotJobOwnerError
    except NotJobOwnerError:
        return Out("caught")


def catch_then_fail() -> Out:
    """Catch an error of ours, and fail with another."""
    catch()
    raise ValueError("foreign")


def catch_then_succeed_then_fail() -> Out:
    """Catch an error of ours, go on with success, and fail with another."""
    catch()
    current().jobs.events()
    raise ValueError("foreign")


def stream() -> Out:
    """Tell the channel of who is asking, from inside a stream."""

    def parts() -> Iterator[bytes]:
        yield b""
        yield current().channel_id.encode()
        yield b" "
        yield current().channel_id.encode()

    return Out(parts=parts)


def failing_stream(*before: bytes, ask_first: bool = False) -> Callable[[], Out]:
    """Return a handler whose stream fails with an error of ours after some parts."""

    def parts() -> Iterator[bytes]:
        yield from before
        raise NotJobOwnerError

    def handler() -> Out:
        if ask_first:
            current().channel_id  # noqa: B018 - from here on the head is held
        return Out(parts=parts)

    return handler


def fail() -> None:
    """Fail with an error of ours."""
    raise NotJobOwnerError


def pool() -> Out:
    """Fail in a thread of a pool."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(copy_context().run, fail).result()
    return Out()


async def apool() -> Out:
    """Fail in a thread of the loop's pool."""
    await asyncio.to_thread(fail)
    return Out()


async def fail_with(error: type[Exception]) -> None:
    """Fail in a task."""
    await asyncio.sleep(0)
    raise error


async def gather() -> Out:
    """Fail in two tasks; the first error comes out, the second is the newest recorded."""
    await asyncio.gather(fail_with(NotFoundError), fail_with(ForbiddenError))
    return Out()


async def task_group() -> Out:
    """Fail in a group of tasks, which raises an ExceptionGroup."""
    group: Any = getattr(asyncio, "TaskGroup")  # noqa: B009 - Python 3.11 and newer
    async with group() as tasks:
        tasks.create_task(fail_with(ForbiddenError))
        tasks.create_task(fail_with(ForbiddenError))
    return Out()


HANDLERS: dict[str, Callable[..., Out]] = {
    "/login": login,
    "/logout": logout,
    CHART: chart,
    CANCEL: cancel,
    **{f"/raise/{status}": raises(error) for status, error in RAISED.items()},
    "/member": member,
    "/foreign": raises(lambda: ValueError("foreign")),
    **{
        f"/own/{status}": says(Out(f"own {status}", status, (("X-Own", "yes"),)))
        for status in (200, 401, 403, 404, 500, 503, 504)
    },
    "/teapot": raises(TeapotError),
    "/stream": stream,
    f"{CHART}/stream/fails": failing_stream(),
    "/stream/fails/asked": failing_stream(ask_first=True),
    "/stream/fails/late": failing_stream(b"first", ask_first=True),
    "/catch": catch,
    "/catch/fail": catch_then_fail,
    "/catch/succeed/fail": catch_then_succeed_then_fail,
    "/pool": pool,
}
ASYNC_HANDLERS: dict[str, Callable[..., Awaitable[Out]]] = {
    CHART: achart,
    CANCEL: acancel,
    "/pool": apool,
    "/gather": gather,
}
if sys.version_info >= (3, 11):
    ASYNC_HANDLERS["/group"] = task_group


def awaitable(handler: Callable[..., Out]) -> Callable[..., Awaitable[Out]]:
    """Return a plain handler as a coroutine function."""

    async def ahandler(**arguments: str) -> Out:
        return handler(**arguments)

    return ahandler


def async_handlers() -> dict[str, Callable[..., Awaitable[Out]]]:
    """Return all handlers as coroutine functions."""
    plain = {path: awaitable(handler) for path, handler in HANDLERS.items()}
    return {**plain, **ASYNC_HANDLERS}


def arguments_of(path: str, values: dict[str, str]) -> dict[str, str]:
    """Return what the handler of a path takes."""
    return {"job_id": values["job_id"]} if path == CANCEL else {}


def guard_asgi(app: Any, settings: Settings | None) -> Any:
    """Wrap an ASGI app from outside, if there are settings."""
    return app if settings is None else asgi.AsyncQueryMiddleware(app, settings)


def guard_wsgi(app: Any, settings: Settings | None) -> Any:
    """Wrap a WSGI app from outside, if there are settings."""
    return app if settings is None else wsgi.AsyncQueryMiddleware(app, settings)


# --- plain callables ----------------------------------------------------------------------------


def dispatch(path: str, handlers: dict[str, Any]) -> tuple[Any, dict[str, str]]:
    """Return the handler of a path and its arguments, as a framework would."""
    parts = path.split("/")
    if len(parts) == 4 and (parts[1], parts[3]) == ("jobs", "cancel"):
        return handlers[CANCEL], {"job_id": parts[2]}
    return handlers.get(path, says(Out("nothing here", 404))), {}


def head_of(out: Out) -> list[tuple[str, str]]:
    """Return the headers of an answer."""
    cookies = [("Set-Cookie", f"{name}={value}; Path=/") for name, value in out.cookies]
    return [("Content-Type", "text/plain"), *out.headers, *cookies]


def plain_wsgi(mode: Mode, settings: Settings | None) -> Any:
    """A WSGI callable without any framework."""

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        handler, values = dispatch(environ["PATH_INFO"], HANDLERS)
        try:
            out = handler(**values)
        except TeapotError:
            out = TEAPOT
        start_response(f"{out.status} {HTTPStatus(out.status).phrase}", head_of(out))
        return [out.body.encode()] if out.parts is None else out.parts()

    return guard_wsgi(app, settings)


def plain_asgi(mode: Mode, settings: Settings | None) -> Any:
    """An ASGI callable without any framework."""
    handlers = async_handlers()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        handler, values = dispatch(scope["path"], handlers)
        try:
            result = handler(**values)
            out = result if isinstance(result, Out) else await result
        except TeapotError:
            out = TEAPOT
        headers = [(k.lower().encode(), v.encode()) for k, v in head_of(out)]
        await send({"type": "http.response.start", "status": out.status, "headers": headers})
        if out.parts is not None:
            async for part in out.aparts():
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": out.body.encode()})

    return guard_asgi(app, settings)


# --- WSGI frameworks ----------------------------------------------------------------------------


def flask_app(mode: Mode, settings: Settings | None) -> Any:
    """Flask, wrapped as its documentation says."""
    flask = load("flask")
    app = flask.Flask("app")
    app.debug, app.testing = mode == "debug", mode == "test"

    def respond(out: Out) -> Any:
        response = flask.Response(
            out.body if out.parts is None else out.parts(), out.status, mimetype="text/plain"
        )
        response.headers.extend(out.headers)
        for name, value in out.cookies:
            response.set_cookie(name, value)
        return response

    def view(path: str) -> Callable[..., Any]:
        return lambda **values: respond(HANDLERS[path](**values))

    for path in HANDLERS:
        rule = path.replace("{", "<").replace("}", ">")
        app.add_url_rule(rule, path.replace(".", ""), view(path), methods=["GET", "POST"])
    app.register_error_handler(TeapotError, lambda error: respond(TEAPOT))
    app.wsgi_app = guard_wsgi(app.wsgi_app, settings)
    return app


def flask_in_asgi(mode: Mode, settings: Settings | None) -> Any:
    """Flask in asgiref's adapter, which runs it in a thread; our face is the ASGI one."""
    adapter = load("asgiref.wsgi").WsgiToAsgi(flask_app(mode, None))
    return guard_asgi(adapter, settings)


def bottle_app(mode: Mode, settings: Settings | None) -> Any:
    """Bottle; its debug mode is one switch for the process."""
    bottle = load("bottle")
    app = bottle.Bottle()
    app.catchall = mode != "test"

    def respond(out: Out) -> Any:
        body = out.body if out.parts is None else out.parts()
        headers = {"Content-Type": "text/plain", **dict(out.headers)}
        response = bottle.HTTPResponse(body, out.status, headers)
        for name, value in out.cookies:
            response.set_cookie(name, value)
        return response

    def view(path: str) -> Callable[..., Any]:
        def callback(**values: str) -> Any:
            try:
                return respond(HANDLERS[path](**values))
            except TeapotError:
                bottle.abort(418)

        return callback

    for path in HANDLERS:
        app.route(path.replace("{", "<").replace("}", ">"), ["GET", "POST"], view(path))
    app.error(418, lambda error: TEAPOT.body)

    def switched(environ: Any, start_response: Any) -> Any:
        bottle.debug(mode == "debug")
        try:
            return app(environ, start_response)
        finally:
            bottle.debug(False)

    return guard_wsgi(switched, settings)


def falcon_wsgi(mode: Mode, settings: Settings | None) -> Any:
    """Falcon's WSGI app."""
    falcon = load("falcon")
    app = falcon.App()

    class Resource:
        def __init__(self, path: str) -> None:
            self.path = path

        def on_get(self, request: Any, response: Any, **values: str) -> None:
            falcon_respond(response, HANDLERS[self.path](**values), is_async=False)

        on_post = on_get

    for path in HANDLERS:
        app.add_route(path, Resource(path))
    app.add_error_handler(
        TeapotError, lambda request, response, *_: falcon_respond(response, TEAPOT, is_async=False)
    )
    return guard_wsgi(app, settings)


def falcon_asgi(mode: Mode, settings: Settings | None) -> Any:
    """Falcon's ASGI app."""
    falcon = load("falcon.asgi")
    app, handlers = falcon.App(), async_handlers()

    class Resource:
        def __init__(self, path: str) -> None:
            self.path = path

        async def on_get(self, request: Any, response: Any, **values: str) -> None:
            falcon_respond(response, await handlers[self.path](**values), is_async=True)

        on_post = on_get

    async def on_teapot(request: Any, response: Any, error: Any, values: Any) -> None:
        falcon_respond(response, TEAPOT, is_async=True)

    for path in handlers:
        app.add_route(path, Resource(path))
    app.add_error_handler(TeapotError, on_teapot)
    return guard_asgi(app, settings)


def falcon_respond(response: Any, out: Out, *, is_async: bool) -> None:
    """Fill a response of Falcon."""
    response.status, response.content_type = out.status, "text/plain"
    response.set_headers(list(out.headers))
    for name, value in out.cookies:
        response.set_cookie(name, value, secure=False)
    if out.parts is None:
        response.text = out.body
    else:
        response.stream = out.aparts() if is_async else out.parts()


def pyramid_app(mode: Mode, settings: Settings | None) -> Any:
    """Pyramid."""
    load("pyramid")
    config_module, response_module = load("pyramid.config"), load("pyramid.response")
    config = config_module.Configurator(settings={"pyramid.debug_all": mode == "debug"})

    def respond(out: Out) -> Any:
        body = {"body": out.body.encode()} if out.parts is None else {"app_iter": out.parts()}
        response = response_module.Response(status=out.status, content_type="text/plain", **body)
        response.headers.update(dict(out.headers))
        for name, value in out.cookies:
            response.set_cookie(name, value)
        return response

    def view(path: str) -> Callable[..., Any]:
        return lambda context, request: respond(HANDLERS[path](**request.matchdict))

    for path in HANDLERS:
        config.add_route(path, path)
        config.add_view(view(path), route_name=path)
    config.add_exception_view(lambda context, request: respond(TEAPOT), context=TeapotError)
    return guard_wsgi(config.make_wsgi_app(), settings)


# --- Django -------------------------------------------------------------------------------------


class DjangoTeapots:
    """A middleware of Django with nothing but an error handler."""

    async_capable = sync_capable = True

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response
        sync = load("asgiref.sync")
        if sync.iscoroutinefunction(get_response):
            sync.markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        return self._get_response(request)

    def process_exception(self, request: Any, exception: Exception) -> Any:
        """Answer the error of the app."""
        return django_respond(TEAPOT) if isinstance(exception, TeapotError) else None


def django_respond(out: Out, *, is_async: bool = False) -> Any:
    """Return a response of Django."""
    http = load("django.http")
    if out.parts is None:
        response = http.HttpResponse(out.body, "text/plain", out.status)
    else:
        parts = out.aparts() if is_async else out.parts()
        response = http.StreamingHttpResponse(parts, content_type="text/plain")
    for name, value in out.headers:
        response[name] = value
    for name, value in out.cookies:
        response.set_cookie(name, value)
    return response


def django_settings(mode: Mode, views: dict[str, Callable[..., Any]]) -> Any:
    """Return a context in which Django has these views."""
    configure_django()
    utils, urls = load("django.test.utils"), load("django.urls")
    rules = tuple(
        urls.path(path[1:].replace("{", "<str:").replace("}", ">"), view)
        for path, view in views.items()
    )
    return utils.override_settings(
        DEBUG=mode == "debug",
        DEBUG_PROPAGATE_EXCEPTIONS=mode == "test",
        ROOT_URLCONF=rules,
        MIDDLEWARE=["tests.faces.apps.DjangoTeapots"],
    )


def django_wsgi(mode: Mode, settings: Settings | None) -> Any:
    """Django under WSGI."""
    load("django")

    def view(path: str) -> Callable[..., Any]:
        return lambda request, **values: django_respond(HANDLERS[path](**values))

    overridden = django_settings(mode, {path: view(path) for path in HANDLERS})
    with overridden:
        handler = load("django.core.handlers.wsgi").WSGIHandler()

    def app(environ: Any, start_response: Any) -> Any:
        with overridden:
            return handler(environ, start_response)

    return guard_wsgi(app, settings)


def django_asgi(mode: Mode, settings: Settings | None, *, is_async: bool = True) -> Any:
    """Django under ASGI, with async views or plain ones."""
    load("django")
    handlers = async_handlers()

    def plain_view(path: str) -> Callable[..., Any]:
        return lambda request, **values: django_respond(HANDLERS[path](**values), is_async=True)

    def async_view(path: str) -> Callable[..., Any]:
        async def view(request: Any, **values: str) -> Any:
            return django_respond(await handlers[path](**values), is_async=True)

        return view

    view, paths = (async_view, list(handlers)) if is_async else (plain_view, list(HANDLERS))
    overridden = django_settings(mode, {path: view(path) for path in paths})
    base = load("django.core.handlers.asgi").ASGIHandler
    opened: list[Any] = []

    async def read_body(self: Any, receive: Any) -> Any:
        opened.append(await base.read_body(self, receive))
        return opened[-1]

    with overridden:
        handler = type("Handler", (base,), {"read_body": read_body})()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with overridden:
            try:
                await handler(scope, receive, send)
            finally:  # Django leaves them open when an exception comes out
                while opened:
                    opened.pop().close()

    return guard_asgi(app, settings)


def django_asgi_plain_views(mode: Mode, settings: Settings | None) -> Any:
    """Django under ASGI with plain views, which run in a thread."""
    return django_asgi(mode, settings, is_async=False)


# --- Starlette and FastAPI ----------------------------------------------------------------------


def starlette_respond(out: Out, *, is_async: bool = True) -> Any:
    """Return a response of Starlette."""
    responses = load("starlette.responses")
    headers = dict(out.headers)
    if out.parts is None:
        response = responses.PlainTextResponse(out.body, out.status, headers)
    else:
        parts = out.aparts() if is_async else out.parts()
        response = responses.StreamingResponse(parts, out.status, headers, "text/plain")
    for name, value in out.cookies:
        response.set_cookie(name, value)
    return response


async def starlette_teapot(request: Any, error: Exception) -> Any:
    """Answer the error of the app."""
    return starlette_respond(TEAPOT)


def starlette_app(mode: Mode, *, is_async: bool = True, **options: Any) -> Any:
    """Starlette, unwrapped."""
    applications, routing = load("starlette.applications"), load("starlette.routing")
    handlers = async_handlers()

    def plain_endpoint(path: str) -> Callable[..., Any]:
        def endpoint(request: Any) -> Any:
            return starlette_respond(HANDLERS[path](**request.path_params), is_async=False)

        return endpoint

    def async_endpoint(path: str) -> Callable[..., Any]:
        async def endpoint(request: Any) -> Any:
            return starlette_respond(await handlers[path](**request.path_params))

        return endpoint

    make, paths = (async_endpoint, handlers) if is_async else (plain_endpoint, HANDLERS)
    routes = [routing.Route(path, make(path), methods=["GET", "POST"]) for path in paths]
    teapots = {TeapotError: starlette_teapot}
    return applications.Starlette(
        debug=mode == "debug", routes=routes, exception_handlers=teapots, **options
    )


def starlette_outside(mode: Mode, settings: Settings | None) -> Any:
    """Starlette, wrapped from outside."""
    return guard_asgi(starlette_app(mode), settings)


def starlette_plain_endpoints(mode: Mode, settings: Settings | None) -> Any:
    """Starlette with plain endpoints, which run in a thread, and plain streams."""
    return guard_asgi(starlette_app(mode, is_async=False), settings)


def starlette_added(mode: Mode, settings: Settings | None) -> Any:
    """Starlette with the middleware in its own list, inside its handler of server errors."""
    app = starlette_app(mode)
    if settings is not None:
        app.add_middleware(asgi.AsyncQueryMiddleware, settings=settings)
    return app


def starlette_mount(mode: Mode, settings: Settings | None) -> Any:
    """Starlette in a Mount of a wrapped one."""
    applications, routing = load("starlette.applications"), load("starlette.routing")
    mounted = routing.Mount("/sub", app=starlette_app(mode))
    return guard_asgi(applications.Starlette(debug=mode == "debug", routes=[mounted]), settings)


def starlette_wrapped_mount(mode: Mode, settings: Settings | None) -> Any:
    """A wrapped Starlette in a Mount of one that is not."""
    applications, routing = load("starlette.applications"), load("starlette.routing")
    mounted = routing.Mount("/sub", app=guard_asgi(starlette_app(mode), settings))
    return applications.Starlette(debug=mode == "debug", routes=[mounted])


def starlette_base(mode: Mode, settings: Settings | None) -> Any:
    """Starlette with a BaseHTTPMiddleware inside, which runs the app in another task."""
    middleware, base = load("starlette.middleware"), load("starlette.middleware.base")

    async def passing(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    inside = middleware.Middleware(base.BaseHTTPMiddleware, dispatch=passing)
    return guard_asgi(starlette_app(mode, middleware=[inside]), settings)


def fastapi_app(make: Callable[[Any, Any, str], Any], paths: Iterable[str]) -> Callable[..., Any]:
    """Return a builder of FastAPI apps; `make` makes the endpoint of a path."""

    def build(mode: Mode, settings: Settings | None) -> Any:
        fastapi = load("fastapi")
        app = fastapi.FastAPI(debug=mode == "debug", openapi_url=None)
        app.add_exception_handler(TeapotError, starlette_teapot)
        for path in paths:
            endpoint = make(fastapi, async_handlers(), path)
            app.add_api_route(path, endpoint, methods=["GET", "POST"], response_model=None)
        return guard_asgi(app, settings)

    return build


def fastapi_async_endpoint(fastapi: Any, handlers: Any, path: str) -> Any:
    """An `async def` endpoint."""

    async def endpoint(job_id: str = "") -> Any:
        return starlette_respond(await handlers[path](**arguments_of(path, {"job_id": job_id})))

    return endpoint


def fastapi_plain_endpoint(fastapi: Any, handlers: Any, path: str) -> Any:
    """A `def` endpoint, which runs in a thread."""

    def endpoint(job_id: str = "") -> Any:
        out = HANDLERS[path](**arguments_of(path, {"job_id": job_id}))
        return starlette_respond(out, is_async=False)

    return endpoint


def fastapi_dependent_endpoint(fastapi: Any, handlers: Any, path: str) -> Any:
    """An endpoint whose work is done, and fails, in a dependency."""

    async def dependency(job_id: str = "") -> Any:
        return await handlers[path](**arguments_of(path, {"job_id": job_id}))

    result = fastapi.Depends(dependency)

    async def endpoint(out: Any = result) -> Any:
        return starlette_respond(out)

    return endpoint


# --- Litestar and Quart -------------------------------------------------------------------------


def litestar_app(mode: Mode, settings: Settings | None, *, is_async: bool = True) -> Any:
    """Litestar, wrapped from outside: its own middlewares run for existing routes only."""
    litestar, responses = load("litestar"), load("litestar.response")
    handlers = async_handlers()

    def respond(out: Out) -> Any:
        more = {
            "status_code": out.status,
            "media_type": "text/plain",
            "headers": dict(out.headers),
            "cookies": [litestar.datastructures.Cookie(key=k, value=v) for k, v in out.cookies],
        }
        if out.parts is None:
            return litestar.Response(out.body, **more)
        return responses.Stream(out.aparts() if is_async else out.parts(), **more)

    def plain_endpoint(path: str) -> Any:
        return lambda request: respond(HANDLERS[path](**request.path_params))

    def async_endpoint(path: str) -> Any:
        async def endpoint(request: Any) -> Any:
            return respond(await handlers[path](**request.path_params))

        return endpoint

    def route(path: str) -> Any:
        endpoint = async_endpoint(path) if is_async else plain_endpoint(path)
        endpoint.__annotations__ = {"request": litestar.Request, "return": litestar.Response}
        threaded = {} if is_async else {"sync_to_thread": True}
        rule = path.replace("{job_id}", "{job_id:str}")
        return litestar.route(rule, http_method=["GET", "POST"], **threaded)(endpoint)

    app = litestar.Litestar(
        [route(path) for path in (handlers if is_async else HANDLERS)],
        debug=mode == "debug",
        exception_handlers={TeapotError: lambda request, error: respond(TEAPOT)},
        openapi_config=None,
        logging_config=None,
    )
    return guard_asgi(app, settings)


def litestar_plain_endpoints(mode: Mode, settings: Settings | None) -> Any:
    """Litestar with plain endpoints, which run in a thread."""
    return litestar_app(mode, settings, is_async=False)


def quart_app(mode: Mode, settings: Settings | None, *, is_async: bool = True) -> Any:
    """Quart, wrapped as its documentation says."""
    quart = load("quart")
    app, handlers = quart.Quart("app"), async_handlers()
    app.debug, app.testing = mode == "debug", mode == "test"

    def respond(out: Out) -> Any:
        body = out.body if out.parts is None else out.aparts()
        response = quart.Response(body, out.status, mimetype="text/plain")
        response.headers.extend(out.headers)
        for name, value in out.cookies:
            response.set_cookie(name, value)
        return response

    def plain_view(path: str) -> Callable[..., Any]:
        return lambda **values: respond(HANDLERS[path](**values))

    def async_view(path: str) -> Callable[..., Any]:
        async def view(**values: str) -> Any:
            return respond(await handlers[path](**values))

        return view

    async def on_teapot(error: Exception) -> Any:
        return respond(TEAPOT)

    view, paths = (async_view, list(handlers)) if is_async else (plain_view, list(HANDLERS))
    for path in paths:
        rule = path.replace("{", "<").replace("}", ">")
        app.add_url_rule(rule, path, view(path), methods=["GET", "POST"])
    app.register_error_handler(TeapotError, on_teapot)
    app.asgi_app = guard_asgi(app.asgi_app, settings)
    return app


def quart_plain_views(mode: Mode, settings: Settings | None) -> Any:
    """Quart with plain views, which run in a thread."""
    return quart_app(mode, settings, is_async=False)


# --- the table ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A way to write an app.

    Attributes:
        name: What the tests call it.
        face: Which middleware wraps it.
        build: Builds it for a mode; without settings it stays unwrapped.
        modes: The modes that differ.
        prefix: What its paths begin with.
        is_async: Whether its handlers are coroutine functions.
        tells_foreign: Whether a foreign error in a handler is still known when its 500 leaves
            (it is raised too, or named in exc_info), in all modes or when debugging.
    """

    name: str
    face: Literal["asgi", "wsgi"]
    build: Callable[[Mode, Settings | None], Any]
    modes: tuple[Mode, ...] = ("off", "debug")
    prefix: str = ""
    is_async: bool = False
    tells_foreign: tuple[Mode, ...] = ()

    def __str__(self) -> str:
        return self.name


ALL: tuple[Mode, ...] = ("off", "debug", "test")
SWITCHED: tuple[Mode, ...] = ("debug", "test")


def quart_tells() -> tuple[Mode, ...]:
    """Return the modes in which Quart lets foreign errors out: releases before 0.22 do in some."""
    try:
        release = tuple(map(int, importlib.metadata.version("quart").split(".")[:2]))
    except importlib.metadata.PackageNotFoundError:
        return ()
    return SWITCHED if release < (0, 22) else ()


ONE: tuple[Mode, ...] = ("off",)
BOTH: tuple[Mode, ...] = ("off", "debug")
TEST: tuple[Mode, ...] = ("test",)

KINDS = [
    Kind("a plain WSGI app", "wsgi", plain_wsgi, ONE, tells_foreign=ONE),
    Kind("Flask", "wsgi", flask_app, ALL, tells_foreign=SWITCHED),
    Kind("Bottle", "wsgi", bottle_app, ALL, tells_foreign=ALL),
    Kind("Falcon under WSGI", "wsgi", falcon_wsgi, ONE),
    Kind("Pyramid", "wsgi", pyramid_app, BOTH, tells_foreign=BOTH),
    Kind("Django under WSGI", "wsgi", django_wsgi, ALL, tells_foreign=TEST),
    Kind("a plain ASGI app", "asgi", plain_asgi, ONE, is_async=True, tells_foreign=ONE),
    Kind("Falcon under ASGI", "asgi", falcon_asgi, ONE, is_async=True),
    Kind("Django under ASGI", "asgi", django_asgi, ALL, is_async=True, tells_foreign=TEST),
    Kind(
        "Django under ASGI with plain views",
        "asgi",
        django_asgi_plain_views,
        ALL,
        tells_foreign=TEST,
    ),
    Kind("Starlette", "asgi", starlette_outside, BOTH, is_async=True, tells_foreign=BOTH),
    Kind(
        "Starlette with plain endpoints",
        "asgi",
        starlette_plain_endpoints,
        BOTH,
        tells_foreign=BOTH,
    ),
    Kind(
        "Starlette with the middleware added",
        "asgi",
        starlette_added,
        BOTH,
        is_async=True,
        tells_foreign=BOTH,
    ),
    Kind(
        "Starlette in a Mount",
        "asgi",
        starlette_mount,
        BOTH,
        prefix="/sub",
        is_async=True,
        tells_foreign=BOTH,
    ),
    Kind(
        "a wrapped Starlette in a Mount",
        "asgi",
        starlette_wrapped_mount,
        BOTH,
        prefix="/sub",
        is_async=True,
        tells_foreign=BOTH,
    ),
    Kind(
        "Starlette with a BaseHTTPMiddleware",
        "asgi",
        starlette_base,
        BOTH,
        is_async=True,
        tells_foreign=BOTH,
    ),
    Kind(
        "FastAPI",
        "asgi",
        fastapi_app(fastapi_async_endpoint, async_handlers()),
        BOTH,
        is_async=True,
        tells_foreign=BOTH,
    ),
    Kind(
        "FastAPI with plain endpoints",
        "asgi",
        fastapi_app(fastapi_plain_endpoint, HANDLERS),
        BOTH,
        tells_foreign=BOTH,
    ),
    Kind(
        "FastAPI with dependencies",
        "asgi",
        fastapi_app(fastapi_dependent_endpoint, async_handlers()),
        BOTH,
        is_async=True,
        tells_foreign=BOTH,
    ),
    Kind("Litestar", "asgi", litestar_app, BOTH, is_async=True),
    Kind("Litestar with plain endpoints", "asgi", litestar_plain_endpoints, BOTH),
    Kind("Flask under ASGI", "asgi", flask_in_asgi, ALL, tells_foreign=SWITCHED),
    Kind("Quart", "asgi", quart_app, ALL, is_async=True, tells_foreign=quart_tells()),
    Kind("Quart with plain views", "asgi", quart_plain_views, ALL, tells_foreign=quart_tells()),
]
