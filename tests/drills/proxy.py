"""A TCP proxy whose network can fail."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time


class Proxy:
    """Forwards connections to a server, and fails on demand."""

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.connections: set[socket.socket] = set()
        self.seconds, self.is_frozen, self.is_cut = 0.0, False, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def restore(self) -> None:
        self.seconds, self.is_frozen, self.is_cut = 0.0, False, False

    def delay(self) -> None:
        """Forwards everything 50 ms later."""
        self.seconds = 0.05

    def cut(self) -> None:
        """Closes every connection, also new ones."""
        self.is_cut = True
        self.close(list(self.connections))

    def freeze(self) -> None:
        """Forwards nothing, and keeps every connection open, as a network does that loses all packets."""
        self.is_frozen = True

    def reset(self) -> None:
        """Resets every connection, in the middle of whatever it sends."""
        for connection in list(self.connections):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close(list(self.connections))

    def close(self, connections: list[socket.socket]) -> None:
        for connection in connections:
            self.connections.discard(connection)
            connection.close()

    def accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection(self.upstream)
            self.connections |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self.forward, args=(source, target), daemon=True).start()

    def forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while True:
                ready, _, _ = select.select([source], [], [], 0.05)
                if self.is_frozen or not ready:
                    time.sleep(0.005)
                    continue
                data = source.recv(1 << 16)
                if not data:
                    break
                time.sleep(self.seconds)
                target.sendall(data)
        except (OSError, ValueError):
            # A fault has closed one of the two.
            pass
        self.close([source, target])
