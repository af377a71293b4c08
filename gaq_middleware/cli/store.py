"""Whether the store can be used: it is reached, speaks, lets us in, writes, and runs scripts.

What the app would do is done: a look at a job, a reading of a stream, and a rehearsal of all kinds
of writing that leaves nothing behind. What the server answers is put into words here; nobody's
password is in them.
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
_TROUBLES: tuple[tuple[str, str, str], ...] = (
    (
        r"No master found|SENTINEL",
        "where no sentinel knows a master of that name",
        "Correct the sentinels, their port (26379), or the name after them, in GAQ_STORE_URL.",
    ),
    (
        r"TLS .*No such file",
        "with the path of a certificate that does not exist here",
        "Correct the path in the options of GAQ_STORE_URL.",
    ),
    (
        r"refused|No such file",
        "where nobody listens",
        "Start Redis there, or set GAQ_STORE_URL to where it is.",
    ),
    (
        r"Permission denied",
        "a socket that this user may not open",
        "Give this user the right to it (Redis: unixsocketperm).",
    ),
    (
        r"Error -|Name or service|nodename",
        "a host that cannot be found",
        "Correct the host in GAQ_STORE_URL.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED",
        "whose certificate is not trusted here, or is another host's",
        "Add ?ssl_ca_certs=/path/to/ca.pem to GAQ_STORE_URL, or correct the host.",
    ),
    (
        r"SSL|TLS .*Timeout connecting",
        "which seems to speak no TLS",
        "Write redis:// for rediss:// in GAQ_STORE_URL, or name the port with TLS.",
    ),
    (
        r"Timeout",
        "from where no answer comes in time",
        "Look for a firewall or a busy server, or raise socket_timeout in GAQ_STORE_URL.",
    ),
    (
        r"without any password",
        "which has no password, but the URL has one",
        "Take the password out of GAQ_STORE_URL.",
    ),
    (
        r"Authentication required|NOAUTH",
        "which wants a password, but the URL has none",
        "Write it as redis://:PASSWORD@host, or user and password as redis://USER:PASSWORD@host.",
    ),
    (
        r"AuthenticationError",
        "which refuses the user or the password",
        "Correct them in GAQ_STORE_URL; / ? # @ and : in them are written %2F %3F %23 %40 %3A.",
    ),
    (
        r"DB index|Invalid Database",
        "which has no database of that number",
        "Correct the number at the end of GAQ_STORE_URL; 0 is always there.",
    ),
    (
        r"(?i)'?eval(sha)?'",
        "which runs no Lua script for us",
        "Let it: ACL SETUSER ... +eval +evalsha, and no rename-command of them.",
    ),
    (
        r"one of the keys",
        "which does not let us use keys with the prefix of GAQ_STREAM_PREFIX",
        "Let it: ACL SETUSER ... ~PREFIX*.",
    ),
    (
        r"no permissions|can't run this command",
        "which forbids a command that is needed",
        "Let it: ACL SETUSER ... +@stream +@hash +@string +@sortedset +@keyspace +@connection.",
    ),
    (
        r"older than Redis",
        "which is older than Redis 6.2",
        "Update the server, or set GAQ_STORE_URL to a newer one.",
    ),
    (
        r"ReadOnly|READONLY",
        "which is a replica and takes no writes",
        "Set GAQ_STORE_URL to the master, or to the sentinels that know it.",
    ),
    (
        r"OutOfMemory|OOM",
        "whose memory is full",
        "Raise its maxmemory, or take what fills it elsewhere.",
    ),
    (
        r"MISCONF",
        "which takes no writes because it cannot save to its disk",
        "Make room on the disk of the server.",
    ),
    (
        r"Moved|CROSSSLOT|same slot|ClusterDown|slot not served",
        "a node of a cluster, where our keys have no common place",
        "Put a hash tag into GAQ_STREAM_PREFIX, as in {gaq}-async-events-, and name the node that "
        "has its slot.",
    ),
    (
        r"closed|reset by peer|InvalidResponse|Protocol error|ProtocolError",
        "which does not speak as Redis does",
        "Write rediss:// for redis:// in GAQ_STORE_URL if the server wants TLS, or correct the "
        "port.",
    ),
)
"""What an error says, in what way the store cannot be used, and the mend; the first row counts."""


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
    """Do what the app would do.

    Raises:
        SettingsError: The URL cannot be used on this machine.
        StoreError: The store cannot be used; the cause says why.
    """
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
    said = f"{type(error).__name__}: {error}"
    if settings.store_url.startswith("rediss"):
        said = f"TLS {said}"
    default = f"which fails: {said[:200]}", "Look into the log of the server."
    rows = ((reason, mend) for pattern, reason, mend in _TROUBLES if re.search(pattern, said))
    reason, mend = next(rows, default)
    return Finding("GAQ_STORE_URL", f"names {shown_store_url(settings.store_url)}, {reason}.", mend)
