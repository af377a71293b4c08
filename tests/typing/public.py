"""The public interface as type checkers see it; checked, never run."""

from __future__ import annotations

from typing_extensions import assert_type

from gaq_middleware import (
    AnonymousIdentity,
    AsyncJobRegistry,
    Event,
    GuestIdentity,
    Job,
    JobRegistry,
    Owner,
    RequestContext,
    Settings,
    UserIdentity,
    asgi,
    current,
    issue_token,
    wsgi,
)


def of_the_context() -> None:
    context = current()
    assert_type(context, RequestContext)
    assert_type(context.identity, UserIdentity | AnonymousIdentity | GuestIdentity | None)
    assert_type(context.channel_id, str)
    assert_type(context.user_id, str | None)
    assert_type(context.owner, Owner)
    assert_type(context.jobs.submit(chart=1), Job)
    assert_type(context.jobs.get("j"), Job)
    assert_type(context.jobs.cancel("j"), Job)
    assert_type(context.jobs.events(), list[Event])


async def of_the_awaitables() -> None:
    jobs = current().ajobs
    assert_type(await jobs.submit(job_id="j"), Job)
    assert_type(await jobs.events("0-1"), list[Event])


def of_the_registry(job: Job) -> None:
    registry = JobRegistry.from_env()
    assert_type(registry.start(job), bool)
    assert_type(registry.done("j", "/result"), bool)
    with registry.run(job.as_dict()) as run:
        run.done("/result")


async def of_the_async_registry(job: Job) -> None:
    registry = AsyncJobRegistry.from_env()
    assert_type(await registry.fail(job, "why"), bool)
    async with registry.run(job) as run:
        await run.done()


def of_the_rest() -> None:
    settings = Settings.from_env()
    assert_type(issue_token(settings, 7), str)

    async def app(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        await send({"type": "http.response.start", "status": 204})

    asgi.AsyncQueryMiddleware(app, settings, user_from=lambda scope: scope["user"])
    wsgi.AsyncQueryMiddleware(lambda environ, start: [b""], canceller=lambda job: job.job_id)
