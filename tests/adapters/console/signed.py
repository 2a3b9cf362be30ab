"""A browser as far as HTTP goes: it keeps its cookie, and sends forms with what a page put into them."""

import re
from typing import Any

from litestar.testing import TestClient

import given


class Browser:
    """One who signed in. `part` asks as htmx does."""

    def __init__(self, app: TestClient[Any], token: str) -> None:
        self._app = app
        answer = self._send("POST", "/sign-in", {"token": token})
        assert answer.status_code == 303, answer.text
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.form = ""

    def get(self, path: str, *, part: bool = False, **headers: str) -> Any:
        answer = self._send("GET", path, None, part=part, **headers)
        if found := re.search(r'name="_form" value="(\w+)"', answer.text):
            self.form = found[1]
        return answer

    def page(self, path: str) -> str:
        """The text of a page that must be there."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def do(self, operation: str, *, part: bool = True, **fields: str) -> Any:
        """Send the form of an operation; `form` is what the last page put into it."""
        if not self.form:
            self.get("/")
        return self._send("POST", f"/do/{operation}", {"_form": self.form, **fields}, part=part)

    def _send(self, verb: str, path: str, form: dict[str, str] | None, *, part: bool = False, **more: str) -> Any:
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        headers |= {"cookie": self.cookie} if hasattr(self, "cookie") else {}
        headers |= {"hx-request": "true"} if part else {}
        self._app.cookies.clear()
        return self._app.request(verb, path, data=form, headers=headers, follow_redirects=False)


def signed(plane: given.Plane, client: given.Client) -> Browser:
    return Browser(plane.app, client.headers["authorization"].removeprefix("Bearer "))
