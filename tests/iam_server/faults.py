"""What goes wrong between two services: each is what one call meets."""

import json
import socket
from threading import Event
from typing import Any

from iam_server.http import Fault, Handler


def error(status: int, code: str, **more: Any) -> Fault:
    """The agreed form of an error."""

    def fault(handler: Handler) -> bool:
        headers = {"retry-after": str(-(-more["retryAfterMs"] // 1000))} if "retryAfterMs" in more else {}
        handler.say(status, {"error": {"code": code, "message": "no", **more}}, headers)
        return True

    return fault


def answer(status: int, body: bytes, media_type: str = "application/json", **headers: str) -> Fault:
    """Any bytes at all."""

    def fault(handler: Handler) -> bool:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.plain(status, body, media_type, named)
        return True

    return fault


def data(body: Any) -> Fault:
    return answer(200, json.dumps({"data": body}).encode())


def hang_up(handler: Handler) -> bool:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)
    return True


def silent(until: Event) -> Fault:
    """Nobody can tell whether it did what it was asked."""

    def fault(handler: Handler) -> bool:
        until.wait(10)
        return hang_up(handler)

    return fault


def dripping(until: Event) -> Fault:
    """An answer that comes a byte at a time, and never to its end."""

    def fault(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "100000")
        handler.end_headers()
        try:
            while not until.wait(0.02):
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            pass
        handler.close_connection = True
        return True

    return fault
