"""Guard the async queries of any ASGI or WSGI app.

Wrap the app with `gaq_middleware.asgi.AsyncQueryMiddleware` or
`gaq_middleware.wsgi.AsyncQueryMiddleware`; inside it ask `gaq_middleware.current()`.
"""

from gaq_middleware.context import RequestContext, current
from gaq_middleware.core.errors import (
    AuthenticationError,
    BadRequestError,
    CrossOriginError,
    ForbiddenError,
    GaqError,
    JobNotFoundError,
    JobStateError,
    NotFoundError,
    NotJobOwnerError,
    RequestError,
    SettingsError,
    StoreError,
)
from gaq_middleware.core.identities import (
    AnonymousIdentity,
    GuestIdentity,
    Identity,
    UserIdentity,
)
from gaq_middleware.core.jobs import Event, Job, Owner
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry import AsyncJobRegistry, JobRegistry
from gaq_middleware.testing import issue_token

__version__ = "0.1.0"

__all__ = [
    "AnonymousIdentity",
    "AsyncJobRegistry",
    "AuthenticationError",
    "BadRequestError",
    "CrossOriginError",
    "Event",
    "ForbiddenError",
    "GaqError",
    "GuestIdentity",
    "Identity",
    "Job",
    "JobNotFoundError",
    "JobRegistry",
    "JobStateError",
    "NotFoundError",
    "NotJobOwnerError",
    "Owner",
    "RequestContext",
    "RequestError",
    "Settings",
    "SettingsError",
    "StoreError",
    "UserIdentity",
    "current",
    "issue_token",
]
