"""A plane that gives out images and seeds, and does wrong where a test says so."""

import base64
import http.server
import json
import threading
from hashlib import sha256


class Depot:
    """`cut` ends every answer after so many bytes; `asked` is every (path, token, range) in order."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.sha256 = sha256(content).hexdigest()
        self.sent: bytes | None = None
        self.cut: int | None = None
        self.ranges = True
        self.status = 200
        self.seed: object = {
            "name": "web",
            "instanceId": "inst_1",
            "sshKeys": ["ssh-ed25519 AAAA a@b"],
            "userData": base64.b64encode(b"#cloud-config\n").decode(),
        }
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        depot = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                depot.asked.append((self.path, self.headers["authorization"], self.headers["range"]))
                if depot.status != 200:
                    self._say(depot.status, json.dumps({"detail": "because"}).encode())
                elif self.path.endswith("/seed"):
                    self._say(200, json.dumps(depot.seed).encode())
                else:
                    self._image(depot.content if depot.sent is None else depot.sent)

            def _image(self, content: bytes) -> None:
                start = int(self.headers["range"].split("=")[1].rstrip("-")) if self.headers["range"] else 0
                if start and start >= len(content):
                    self._say(416, b"")
                elif start and depot.ranges:
                    span = f"bytes {start}-{len(content) - 1}/{len(content)}"
                    self._say(206, content[start:], ("content-range", span))
                else:
                    self._say(200, content)

            def _say(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
                self.send_response(status)
                for name, value in (*headers, ("content-length", str(len(body)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body if depot.cut is None or status not in (200, 206) else body[: depot.cut])

            def log_message(self, *_: object) -> None:
                pass

        return Handler
