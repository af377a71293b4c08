"""Whether the store can be used: what the app would do with it is done, and leaves nothing behind.

What the server answers is put into words here; nobody's password is in them.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterator

from gaq_middleware.cli.findings import Finding
from gaq_middleware.core.commands import GetJob
from gaq_middleware.core.errors import SettingsError, StoreError
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.store_urls import shown_store_url
from gaq_middleware.registry import store_for

_SILENCE = logging.NullHandler()
_REHEARSAL = b"""
for _, words in ipairs({{'XADD', '*', 'data', ''}, {'HSET', 'a', ''}, {'ZADD', '0', 'a'},
                        {'SET', ''}}) do
  redis.call(words[1], KEYS[1], unpack(words, 2))
  redis.call('PEXPIRE', KEYS[1], 1000)
  redis.call('DEL', KEYS[1])
end
"""
_TROUBLES = {
    r"No master found|SENTINEL": "where no sentinel knows it. Correct the sentinels or the name.",
    r"TLS .*No such file": "with a certificate's path that does not exist here. Correct the path.",
    r"refused|No such file": "where nobody listens. Start Redis there, or correct the URL.",
    r"Permission denied": "a socket that this user may not open. Let it (Redis: unixsocketperm).",
    r"Error -|Name or service|nodename": "a host that cannot be found. Correct the host.",
    r"CERTIFICATE_VERIFY_FAILED": (
        "whose certificate is not trusted here, or is another host's. Add "
        "?ssl_ca_certs=/path/to/ca.pem, or correct the host."
    ),
    r"SSL|TLS .*Timeout conn": "without TLS. Write redis:// for rediss://, or correct the port.",
    r"Timeout": "which does not answer in time. Look for a firewall, or raise socket_timeout.",
    r"without any password": "which has no password. Take the password out of the URL.",
    r"required|NOAUTH": "which wants a password: redis://USER:PASSWORD@host, without a USER too.",
    r"AuthenticationError": (
        "which refuses the user or the password. Correct them; / ? # @ and : in them are written "
        "%2F %3F %23 %40 %3A."
    ),
    r"DB index|Database": "which has no such database. Correct the number; 0 is always there.",
    r"no permissions|can't run this command": (
        "which lets this user do too little. ACL SETUSER ... ~PREFIX* (of GAQ_STREAM_PREFIX) "
        "+eval +evalsha +@stream +@hash +@string +@sortedset +@keyspace +@connection."
    ),
    r"(?i)[`']eval": "which runs no Lua. Take EVAL and EVALSHA out of its rename-command.",
    r"older than Redis": "which is older than Redis 6.2. Update the server, or name a newer one.",
    r"READONLY|ReadOnly": "which is a replica. Name the master, or the sentinels that know it.",
    r"OOM|OutOfMemory": "whose memory is full. Raise its maxmemory, or take out what fills it.",
    r"MISCONF": "which cannot save, so takes no writes. Make room on the disk of the server.",
    r"Moved|CROSSSLOT|same slot|ClusterDown|slot not served": (
        "a node of a cluster, where our keys have no common place. Put a hash tag into "
        "GAQ_STREAM_PREFIX, as in {gaq}-async-events-, and name the node that has its slot."
    ),
    r"closed|reset by peer|InvalidResponse|Protocol error": (
        "which does not speak as Redis does. Write rediss:// for redis:// if the server wants "
        "TLS, or correct the port."
    ),
}
"""What an error says -> why the store cannot be used, and the mend; the first one counts."""


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what keeps the store from being used."""
    logger = logging.getLogger("gaq_middleware")
    logger.addHandler(_SILENCE)  # what the store logs is told here
    try:
        _use(settings)
    except SettingsError as error:
        yield from map(Finding.told, error.problems)
    except StoreError as error:
        yield _finding(settings, error.__cause__ or error)
    finally:
        logger.removeHandler(_SILENCE)


def _use(settings: Settings) -> None:
    """Look at a job, read a stream, rehearse all kinds of writing; errors say what fails."""
    store_for(settings).execute(GetJob(job_id=f"check-{uuid.uuid4()}", now=time.time()))
    if settings.store_url == "memory://":
        return
    from redis.exceptions import RedisError

    from gaq_middleware.registry.redis_connect import Connections, Target

    key = f"{settings.stream_prefix}check-{uuid.uuid4()}".encode()
    try:
        pool = Connections(Target(settings.store_url)).pool()
        pool.roundtrip((b"XREVRANGE", key, b"+", b"-", b"COUNT", b"1"))  # as streams are read
        pool.roundtrip((b"XREAD", b"BLOCK", b"1", b"STREAMS", key, b"0"))
        pool.roundtrip((b"EVAL", _REHEARSAL, b"1", key))
    except RedisError as error:
        raise StoreError from error


def _finding(settings: Settings, error: BaseException) -> Finding:
    tls = "TLS " if settings.store_url.startswith("rediss") else ""
    said = f"{tls}{type(error).__name__}: {error}"
    default = f"which fails: {said[:200]}. Look into the log of the server."
    found = next((text for pattern, text in _TROUBLES.items() if re.search(pattern, said)), default)
    return Finding("GAQ_STORE_URL", f"names {shown_store_url(settings.store_url)}, {found}")
