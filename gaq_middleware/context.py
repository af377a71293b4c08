"""What the app sees of a request: who is asking, their jobs, log in and log out."""

from __future__ import annotations

from typing import TypeVar

from gaq_middleware.core.errors import Refusal, current_recorder
from gaq_middleware.core.identities import Identity, UserIdentity
from gaq_middleware.core.jobs import Owner
from gaq_middleware.core.tokens import IssuedToken
from gaq_middleware.engine import NOT_A_USER_ID, Engine, as_user_id
from gaq_middleware.registry import AsyncOwnerJobs, OwnerJobs
from gaq_middleware.state import RequestState

Operations = TypeVar("Operations", OwnerJobs, AsyncOwnerJobs)


class RequestContext:
    """The context of one request; get it with `gaq_middleware.current()`.

    Members that need a valid identity (`channel_id`, `user_id`, `owner`, and the operations of
    `jobs` and `ajobs`) raise `AuthenticationError` without one, on every path.
    """

    def __init__(self, state: RequestState) -> None:
        self._state = state

    @property
    def identity(self) -> Identity | None:
        """Who is asking, None when nobody is believed; never raises."""
        wish = self._state.wish
        if wish is None:
            return self._state.find().identity
        if isinstance(wish, IssuedToken) and wish.subject is not None:
            return UserIdentity(wish.channel, wish.subject)
        return None

    @property
    def owner(self) -> Owner:
        """The owner of the jobs that this request submits.

        Raises:
            AuthenticationError: Nobody valid is asking; `error_code` tells why.
        """
        return self._owner()

    @property
    def channel_id(self) -> str:
        """The channel of whoever is asking.

        Raises:
            AuthenticationError: As for `owner`.
        """
        return self.owner.channel_id

    @property
    def user_id(self) -> str | None:
        """The user id as text; None for guests and anonymous visitors.

        Raises:
            AuthenticationError: As for `owner`.
        """
        return self.owner.user_id

    @property
    def jobs(self) -> OwnerJobs:
        """Submit, get and cancel this owner's jobs and read their events, by plain calls."""
        return self._operations(OwnerJobs)

    @property
    def ajobs(self) -> AsyncOwnerJobs:
        """The same operations as `jobs`, as awaitables."""
        return self._operations(AsyncOwnerJobs)

    def login(self, user_id: str | int) -> None:
        """Issue the cookie of a user on this response, if it ends below 400; never a guest's.

        Args:
            user_id: The app's id of the user; 0 is an id.

        Raises:
            ValueError: It is no text, whole number or UUID, or is empty, or has control characters.
            RuntimeError: The head of the response has left.
        """
        text = as_user_id(user_id)
        if text is None:
            raise ValueError(NOT_A_USER_ID.format(user_id))
        engine, finding = self._changeable("login").engine, self._state.find()
        if engine.settings.issue != "off" and finding.via != "guest":
            self._state.wish = engine.issuer.login_token(text, finding.claims, engine.clock())

    def logout(self) -> None:
        """Delete the cookie on this response, if it ends below 400.

        A copy of the token stays valid until its `exp`: there is no revocation.

        Raises:
            RuntimeError: The head of the response has left.
        """
        state = self._changeable("logout")
        if state.engine.settings.issue != "off":
            state.wish = "logout"

    def record(self, refusal: Refusal) -> None:
        """Remember an error that was made while this request was handled."""
        if not self._state.is_closed:
            self._state.recorded.append(refusal)

    def guards_same_cookie(self, engine: Engine) -> bool:
        """Whether another middleware further in would guard the same cookie again."""
        is_over = self._state.is_closed  # left behind in an environ that a server uses again
        return (
            not is_over and engine.settings.cookie_name == self._state.engine.settings.cookie_name
        )

    def _changeable(self, what: str) -> RequestState:
        if self._state.is_head_out:
            raise RuntimeError(
                f"{what}() came too late: the head of the response has left. Call it before the "
                "first part of the body."
            )
        return self._state

    def _owner(self) -> Owner:
        state, identity = self._state, self.identity
        state.may_raise = True
        if identity is None:
            refusal = state.find().refusal if state.wish is None else None
            raise (refusal or Refusal.of("token_missing", "You have logged out.")).error()
        return Owner(identity.channel_id, identity.user_id)

    def _operations(self, kind: type[Operations]) -> Operations:
        engine, state = self._state.engine, self._state
        return kind(
            engine.store,
            self._owner,
            engine.settings,
            engine.canceller,
            state.forgetter(),
            clock=engine.clock,
        )


def current() -> RequestContext:
    """Return the context of the request being handled, in any framework, thread pool or task.

    Raises:
        LookupError: No wrapped request is being handled here.
    """
    context = current_recorder.get()
    if not isinstance(context, RequestContext):
        raise LookupError(  # noqa: TRY004 - nothing is of a wrong type, there is nothing
            "gaq_middleware.current() was called outside a request that AsyncQueryMiddleware "
            "wraps. Wrap the app, or in a thread of your own run the function through "
            "contextvars.copy_context()."
        )
    return context
