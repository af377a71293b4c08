"""Real proxies with TLS, and a client that finds them by name.

Each proxy listens on three ports of this host: https, a second https (another environment on the
same host), and plain http. The name of the host says in which way it passes requests on, and to
which server.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path

import httpx
import pytest

from tests.helpers import Answer
from tests.live.conftest import HYPERCORN, PATIENCE, Server, free_port

DOMAIN = "gaq.example"
LISTENERS = ("https", "second", "http")
PREFIX = "/pre"
Headers = Mapping[str, str] | Iterable[tuple[str, str]]


# --- what stands behind -------------------------------------------------------------------------


@dataclass(frozen=True)
class Backend:
    """A server behind proxies.

    Attributes:
        label: Its part of host names.
        server: How it is started.
        under: How it is started under `/pre`; None: it takes SCRIPT_NAME from the proxy.
        h2c: The proxies that speak HTTP/2 with it. (haproxy tells the end of a request apart, and
            hypercorn loses the connection when the answer was earlier.)
        hides_peer: Whether it puts a forwarded address in the place of the proxy's.
        adds_prefix: Whether it puts its root path in front of any path, so that the proxy strips.
    """

    label: str
    server: Server
    under: Server | None = None
    h2c: tuple[str, ...] = ()
    hides_peer: bool = False
    adds_prefix: bool = False

    def __str__(self) -> str:
        return self.label


ASGI_APP, WSGI_APP = "tests.live.proxied:asgi_app", "tests.live.proxied:wsgi_app"
UVICORN = (ASGI_APP, "--host=127.0.0.1", "--port={port}", "--log-level=warning")
GRANIAN = ("--interface=asgi", "--host=127.0.0.1", "--port={port}")
WAITRESS = ("--host=127.0.0.1", "--port={port}", "--no-clear-untrusted-proxy-headers")


def _asgi(name: str, module: str, *options: str, http2: bool = False) -> Server:
    return Server(f"{name}, behind proxies", "asgi", module, options, http2=http2)


BACKENDS = [
    Backend(
        "uvicorn",
        _asgi("uvicorn", "uvicorn", *UVICORN),
        _asgi("uvicorn under a root path", "uvicorn", *UVICORN, f"--root-path={PREFIX}"),
        hides_peer=True,
        adds_prefix=True,
    ),
    Backend(
        "uvicorn-no-proxy-headers",
        _asgi("uvicorn without proxy headers", "uvicorn", *UVICORN, "--no-proxy-headers"),
        _asgi(
            "uvicorn without proxy headers, under a root path",
            "uvicorn",
            *UVICORN,
            "--no-proxy-headers",
            f"--root-path={PREFIX}",
        ),
        adds_prefix=True,
    ),
    Backend(
        "hypercorn",
        _asgi("hypercorn", "hypercorn", *HYPERCORN, ASGI_APP, http2=True),
        _asgi(
            "hypercorn under a root path",
            "hypercorn",
            *HYPERCORN,
            f"--root-path={PREFIX}",
            ASGI_APP,
            http2=True,
        ),
        h2c=("caddy",),
    ),
    Backend(
        "granian",
        _asgi("granian", "granian", *GRANIAN, ASGI_APP, http2=True),
        _asgi(
            "granian under a root path",
            "granian",
            *GRANIAN,
            f"--url-path-prefix={PREFIX}",
            ASGI_APP,
            http2=True,
        ),
        h2c=("haproxy", "caddy"),
    ),
    Backend(
        "gunicorn",
        Server(
            "gunicorn with threads, behind proxies",
            "wsgi",
            "gunicorn",
            ("-k=gthread", "--threads=4", "--bind=127.0.0.1:{port}", WSGI_APP),
        ),
    ),
    Backend(  # by default it drops forwarded headers: no Secure, no public host
        "waitress",
        Server("waitress, behind proxies", "wsgi", "waitress", (*WAITRESS, WSGI_APP)),
        Server(
            "waitress under a root path, behind proxies",
            "wsgi",
            "waitress",
            (*WAITRESS, f"--url-prefix={PREFIX}", WSGI_APP),
        ),
    ),
]


# --- how a request is passed on -----------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """A way in which a proxy passes requests on.

    Attributes:
        label: Its part of host names.
        deployment: The settings behind it.
        listeners: Where it is offered.
        rewrites_host: Whether the server sees its own host, and the public one in
            X-Forwarded-Host.
        strips: Whether `/pre` is taken from the path and told in X-Forwarded-Prefix.
        is_under: Whether the server itself runs under `/pre`.
        user: Who X-Remote-User names; None: the header is deleted.
        holds_back: Whether nginx collects answers, whatever the app says of that.
    """

    label: str
    deployment: str
    listeners: tuple[str, ...] = ("https", "http")
    rewrites_host: bool = False
    strips: bool = False
    is_under: bool = False
    user: str | None = None
    holds_back: bool = False

    def __str__(self) -> str:
        return self.label


KEEPS_HOST = Way("keeps-host", "bare")
SECOND = Way("keeps-host", "second", listeners=("second",))
TRUSTED = Way("trusted", "trusting")
REWRITES_HOST = Way("rewrites-host", "trusting the host", rewrites_host=True)
STRIPS_PREFIX = Way("strips-prefix", "trusting the prefix", strips=True)
KEEPS_PREFIX = Way("keeps-prefix", "trusting", is_under=True)
NAMES_ADA = Way("names-ada", "trusting the user", user="ada")
NAMES_NOBODY = Way("names-nobody", "trusting the user")
HOLDS_BACK = Way("holds-back", "bare", listeners=("https",), holds_back=True)
WAYS = [
    KEEPS_HOST,
    SECOND,
    TRUSTED,
    REWRITES_HOST,
    STRIPS_PREFIX,
    KEEPS_PREFIX,
    NAMES_ADA,
    NAMES_NOBODY,
    HOLDS_BACK,
]


def host_of(way: Way, backend: Backend) -> str:
    """Return the public host."""
    return f"{way.label}--{backend}.{DOMAIN}"


@dataclass(frozen=True)
class Site:
    """A public host at one listener, and where its requests go."""

    way: Way
    backend: Backend
    listener: str
    port: int
    upstream: str

    @property
    def host(self) -> str:
        """The public host."""
        return host_of(self.way, self.backend)

    @property
    def scheme(self) -> str:
        """What clients speak."""
        return "http" if self.listener == "http" else "https"

    @property
    def strips(self) -> bool:
        """Whether the prefix is taken from the path; uvicorn puts its root path back."""
        return self.way.strips or (self.way.is_under and self.backend.adds_prefix)

    @property
    def headers(self) -> dict[str, str]:
        """The headers to overwrite; empty ones to delete."""
        set_ = {"X-Deployment": self.way.deployment, "X-Remote-User": self.way.user or ""}
        if self.way.strips:
            set_["X-Forwarded-Prefix"] = PREFIX
        if self.way.is_under and self.backend.under is None:
            set_["SCRIPT_NAME"] = PREFIX
        return set_


# --- three proxies ------------------------------------------------------------------------------


def nginx(folder: Path, certificate: Path, sites: list[Site]) -> str:
    """Write a configuration of nginx."""
    places = "".join(
        f"{what}_temp_path {folder}/{what};\n"
        for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    servers = "".join(_nginx_server(site) for site in sites)
    return f"""
        daemon off; master_process off; worker_processes 1;
        pid {folder}/pid; error_log stderr warn;
        events {{ worker_connections 256; }}
        http {{
            access_log off;
            server_names_hash_bucket_size 128;
            {places}
            ssl_certificate {certificate}; ssl_certificate_key {certificate};
            proxy_http_version 1.1;
            {servers}
        }}
    """


def _nginx_server(site: Site) -> str:
    headers = {
        "Host": "$proxy_host" if site.way.rewrites_host else "$http_host",
        "X-Forwarded-For": "$proxy_add_x_forwarded_for",
        "X-Forwarded-Proto": "$scheme",
        **({"X-Forwarded-Host": "$http_host"} if site.way.rewrites_host else {}),
        **site.headers,
    }
    lines = "".join(f'proxy_set_header {name} "{value}";\n' for name, value in headers.items())
    path, rest = (f"{PREFIX}/", "/") if site.strips else ("/", "")
    if site.way.holds_back:
        lines += "proxy_ignore_headers X-Accel-Buffering; gzip on; gzip_types *;\n"
    return f"""
        server {{
            listen 127.0.0.1:{site.port}{" ssl http2" if site.scheme == "https" else ""};
            server_name {site.host};
            {lines}
            location {path} {{ proxy_pass http://{site.upstream}{rest}; }}
        }}
    """


def haproxy(folder: Path, certificate: Path, sites: list[Site]) -> str:
    """Write a configuration of haproxy."""
    ports = {site.listener: site.port for site in sites}
    tls = f" ssl crt {certificate} alpn h2,http/1.1"
    fronts = "".join(
        f"""
frontend {listener}
    bind 127.0.0.1:{port}{"" if listener == "http" else tls}
    http-request set-header X-Forwarded-Proto {"http" if listener == "http" else "https"}
    use_backend %[req.hdr(host),field(1,:),lower].{listener}
"""
        for listener, port in ports.items()
    )
    return f"""
global
    maxconn 256
defaults
    mode http
    option forwardfor
    http-reuse never
    timeout connect 10s
    timeout client 60s
    timeout server 60s
{fronts}{"".join(map(_haproxy_backend, sites))}
"""


def _haproxy_backend(site: Site) -> str:
    rules = [
        f'http-request set-header {name} "{value}"' if value else f"http-request del-header {name}"
        for name, value in site.headers.items()
    ]
    if site.way.rewrites_host:
        rules.append("http-request set-header X-Forwarded-Host %[req.hdr(host)]")
        rules.append(f"http-request set-header Host {site.upstream}")
    if site.strips:
        rules.append(rf"http-request replace-path {PREFIX}(/.*) \1")
    rules.append(f"server s {site.upstream}{' proto h2' if 'haproxy' in site.backend.h2c else ''}")
    return f"backend {site.host}.{site.listener}\n" + "".join(f"    {rule}\n" for rule in rules)


def caddy(folder: Path, certificate: Path, sites: list[Site]) -> str:
    """Write a configuration of caddy; it sets the X-Forwarded headers by itself.

    A POST on a connection kept alive that the server closes at that moment would be a 502.
    """
    return "{\n admin off\n auto_https off\n servers {\n  protocols h1 h2\n }\n}\n" + "".join(
        _caddy_site(site, certificate) for site in sites
    )


def _caddy_site(site: Site, certificate: Path) -> str:
    lines = [
        f'header_up {name} "{value}"' if value else f"header_up -{name}"
        for name, value in site.headers.items()
    ]
    if site.way.rewrites_host:
        lines.append("header_up Host {upstream_hostport}")
    inside = "\n  ".join(lines)
    tls = f"tls {certificate} {certificate}" if site.scheme == "https" else ""
    versions = "h2c 2" if "caddy" in site.backend.h2c else "1.1"
    return f"""
{site.scheme}://{site.host}:{site.port} {{
 bind 127.0.0.1
 {tls}
 {f"uri strip_prefix {PREFIX}" if site.strips else ""}
 reverse_proxy {site.upstream} {{
  {inside}
  transport http {{
   versions {versions}
   keepalive off
  }}
 }}
}}
"""


@dataclass(frozen=True)
class Proxy:
    """A kind of proxy: how it is configured, and its options before the configuration file."""

    name: str
    configure: Callable[[Path, Path, list[Site]], str]
    options: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def require(self) -> str:
        """Return its program."""
        return program_of(self.name)


def program_of(name: str) -> str:
    """Return the path of a program; skip where it is not installed, and in CI fail."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    program = shutil.which(name, path=path)
    if program is None:
        missing = f"{name} not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return program


PROXIES = [
    Proxy("nginx", nginx, ("-e", "stderr", "-p", "{folder}", "-c")),
    Proxy("haproxy", haproxy, ("-db", "-f")),
    Proxy("caddy", caddy, ("run", "--adapter", "caddyfile", "--config")),
]


@dataclass
class RunningProxy:
    """A proxy that runs."""

    proxy: Proxy
    sites: list[Site]
    ports: dict[str, int]
    log: Path
    process: subprocess.Popen[bytes] = field(repr=False)

    @classmethod
    def start(
        cls, proxy: Proxy, folder: Path, certificate: Path, upstreams: Mapping[str, int]
    ) -> RunningProxy:
        """Start a proxy.

        Args:
            proxy: Which.
            folder: Where it keeps its files.
            certificate: The certificate, and its key.
            upstreams: The ports of the servers that run, by their names.
        """
        ports = {listener: free_port() for listener in LISTENERS}
        sites = list(_sites(ports, upstreams))
        configuration, log = folder / "configuration", folder / "log"
        configuration.write_text(proxy.configure(folder, certificate, sites))
        options = [option.format(folder=folder) for option in proxy.options]
        homes = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), str(folder))
        with log.open("wb") as output:
            process = subprocess.Popen(
                [proxy.require(), *options, str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": os.environ.get("PATH", ""), **homes},
                cwd=folder,
                start_new_session=True,
            )
        return cls(proxy, sites, ports, log, process)

    def wait(self) -> None:
        """Wait until it listens on all of its ports."""
        until = time.monotonic() + PATIENCE
        for port in self.ports.values():
            while True:
                self.check()
                assert time.monotonic() < until, f"{self.proxy} is slow:\n{self.log.read_text()}"
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
                    break
                time.sleep(0.02)

    def check(self) -> None:
        """Fail when it has ended, and tell what it said."""
        assert self.process.poll() is None, f"{self.proxy} ended:\n{self.log.read_text()}"

    def end(self) -> None:
        """See to it that it ends."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(5)


def _sites(ports: Mapping[str, int], upstreams: Mapping[str, int]) -> Iterable[Site]:
    for backend in BACKENDS:
        for way in WAYS:
            server = (backend.under if way.is_under else None) or backend.server
            if server.name in upstreams:
                for listener in way.listeners:
                    upstream = f"127.0.0.1:{upstreams[server.name]}"
                    yield Site(way, backend, listener, ports[listener], upstream)


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a certificate with its key for all hosts, and what trusts its authority alone."""
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    new = [program_of("openssl"), *options.split()]
    authority = ["-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"]
    signs = ["-addext", "keyUsage=critical,keyCertSign"]
    site = ["-subj", f"/CN={DOMAIN}", "-keyout", "site.key", "-out", "site.pem"]
    names = ["-addext", f"subjectAltName=DNS:*.{DOMAIN}"]
    leaf = [*names, "-addext", "basicConstraints=critical,CA:FALSE"]
    for arguments in (authority + signs, [*site, "-CA", "ca.pem", "-CAkey", "ca.key", *leaf]):
        made = subprocess.run([*new, *arguments], cwd=folder, capture_output=True, check=False)
        assert made.returncode == 0, made.stderr.decode()
    both = folder / "both.pem"
    both.write_bytes((folder / "site.pem").read_bytes() + (folder / "site.key").read_bytes())
    return both, ssl.create_default_context(cafile=folder / "ca.pem")


# --- clients ------------------------------------------------------------------------------------


class _Here(httpx.BaseTransport):
    """Finds every host at 127.0.0.1."""

    def __init__(self, transport: httpx.BaseTransport) -> None:
        self._transport = transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        here = httpx.Request(
            request.method,
            request.url.copy_with(host="127.0.0.1"),
            headers=request.headers,  # the Host among them
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        return self._transport.handle_request(here)

    def close(self) -> None:
        self._transport.close()


class Visitor:
    """A client with a jar, as browsers have one: the ports of a host share it.

    Args:
        origin: Whom it visits.
        verify: What trusts their certificate.
        http2: Whether HTTP/2 is spoken; in clear text with nothing before it.
        source: The address it comes from.
        headers: Sent with every request.
        jar: The jar of another visitor, to share.
    """

    def __init__(
        self,
        origin: str,
        verify: ssl.SSLContext,
        *,
        http2: bool = False,
        source: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
        jar: CookieJar | None = None,
    ) -> None:
        self.origin = origin
        self._version = "HTTP/2" if http2 else "HTTP/1.1"
        transport = httpx.HTTPTransport(
            verify=verify, http1=not http2, http2=http2, local_address=source
        )
        self._client = httpx.Client(
            transport=_Here(transport),
            base_url=origin,
            headers=headers,
            cookies=jar,
            timeout=PATIENCE,
            trust_env=False,
        )

    def __call__(self, method: str, target: str, headers: Headers | None = None) -> Answer:
        """Send a request."""
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())
        seen = self._client.request(method, target, headers=pairs)
        assert seen.http_version == self._version
        names = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in seen.headers.raw]
        return Answer(seen.status_code, names, seen.content)

    def stream(self, target: str) -> contextlib.AbstractContextManager[httpx.Response]:
        """Send a request whose answer is read part by part."""
        return self._client.stream("GET", target, headers={"Accept": "text/event-stream"})

    @property
    def jar(self) -> CookieJar:
        """The jar."""
        return self._client.cookies.jar

    def holds(self, name: str) -> bool:
        """Say whether the jar has a cookie."""
        return any(cookie.name == name for cookie in self.jar)

    def close(self) -> None:
        """Leave."""
        self._client.close()
