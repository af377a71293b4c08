"""The demo on uvicorn; a module of its own, because only it needs uvicorn."""

from __future__ import annotations

import socket

import uvicorn

from gaq_middleware.asgi import AsyncQueryMiddleware


class _Server(uvicorn.Server):
    """Does not wait for streams that are open, which would be ended as errors."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close every connection, then the server; whoever streams sees its reader leave."""
        for connection in list(self.server_state.connections):
            connection.transport.close()
        await super().shutdown(sockets)


def run(app: AsyncQueryMiddleware, listener: socket.socket) -> None:
    """Serve an app until the process is interrupted.

    Args:
        app: The demo.
        listener: The bound socket.
    """
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none")
    _Server(config).run(sockets=[listener])
