"""The server without a browser: who gets what, and what is refused."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from fed_cli.web.acting import Answer, Token
from fed_cli.web.pictures import Shown
from fed_core.errors import FedError

pytest.importorskip("uvicorn", reason="the extra dashboard is not installed")

from starlette.testclient import TestClient  # noqa: E402

from fed_cli.web.server import MOST_BODY, PAGE, Acting, Dashboard  # noqa: E402

PAUSE, SEQUENCE = "/spot1/pause_training", "/live/new_sequence"
PICTURE = Shown("/live: depth", "image/png", b"\x89PNG\r\n\x1a\n...")
RIGHT = {"authorization": "Bearer correct-horse"}


class FakeFeed:
    """One picture, and three services, of which the page can call two."""

    def version(self) -> object:
        return 1

    def tree(self) -> dict[str, Any]:
        return {"mode": "live"}

    def picture(self, digest: str) -> Shown | None:
        return PICTURE if digest == PICTURE.digest else None

    def services(self) -> Mapping[str, str]:
        return {PAUSE: "std_srvs/srv/SetBool", SEQUENCE: "std_srvs/srv/Trigger", "/spot1/odd": "std_srvs/srv/Empty"}

    def check(self) -> None:
        return None


class FakeCaller:
    """Remembers the calls; ``answer`` is what comes back."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, bool | None]] = []
        self.answer: Answer | FedError = Answer(True, "paused")

    def call(self, service: str, kind: str, value: bool | None) -> Answer:
        self.calls.append((service, kind, value))
        if isinstance(self.answer, FedError):
            raise self.answer
        return self.answer


def client_of(acting: Acting | None = None, *, local: bool = True) -> TestClient:
    return TestClient(Dashboard(FakeFeed(), acting, local=local).app, base_url="http://127.0.0.1:8300")


@pytest.fixture
def caller() -> FakeCaller:
    return FakeCaller()


@pytest.fixture
def client(caller: FakeCaller) -> TestClient:
    return client_of(Acting(Token("correct-horse"), caller))


def act(client: TestClient, body: Any, headers: Mapping[str, str] = RIGHT) -> tuple[int, dict[str, Any]]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post("/api/act", content=content, headers=dict(headers))
    return answer.status_code, answer.json()


def test_the_page_and_its_files_are_closed_to_everything_from_elsewhere(client: TestClient) -> None:
    names = ["", *(path.name for path in PAGE.iterdir())]
    assert {"page.js", "style.css", "icon.svg"} <= set(names)
    for name in names:
        answer = client.get(f"/{name}")
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert policy == "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert client.get("/page.js").headers["content-type"] == "text/javascript; charset=utf-8"


def test_files_load_nothing_from_elsewhere_and_hold_no_inline_code() -> None:
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
        assert "http:" not in text and "https:" not in text and "innerHTML" not in text, path.name
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    assert "<style" not in page and "style=" not in page and "onclick" not in page
    assert page.count("<script") == page.count('<script type="module" src=') == 1


@pytest.mark.parametrize("path", ["/nothing.html", "/../server.py", "/%2e%2e/server.py", "/page/index.html", "/.env"])
def test_there_are_no_other_files(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8300", "127.0.0.1.evil.example", "", "[2001:db8::1]:8300"]
)
def test_other_hosts_are_refused_on_the_loopback(host: str) -> None:
    answer = client_of().get("/", headers={"host": host})
    assert (answer.status_code, answer.text) == (421, "this dashboard answers on localhost only\n")
    assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("host", ["localhost:8300", "127.0.0.1", "127.1.2.3:80", "[::1]:8300", "LOCALHOST"])
def test_this_machine_by_any_of_its_names(host: str) -> None:
    assert client_of().get("/", headers={"host": host}).status_code == 200


def test_any_host_where_others_shall_look() -> None:
    assert client_of(local=False).get("/", headers={"host": "base-station:8300"}).status_code == 200


def test_pictures_have_the_name_of_their_bytes(client: TestClient) -> None:
    answer = client.get(f"/api/pictures/{PICTURE.digest}")
    assert (answer.content, answer.headers["content-type"]) == (PICTURE.data, "image/png")
    assert client.get("/api/pictures/0").status_code == 404


def test_the_token_acts(client: TestClient, caller: FakeCaller) -> None:
    assert act(client, {"service": PAUSE, "value": True}) == (200, {"ok": True, "text": "paused"})
    caller.answer = Answer(False, "not now")
    assert act(client, {"service": SEQUENCE}) == (200, {"ok": False, "text": "not now"})
    assert caller.calls == [(PAUSE, "std_srvs/srv/SetBool", True), (SEQUENCE, "std_srvs/srv/Trigger", None)]


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong-horse"}, {"authorization": "correct-horse"}])
def test_nobody_acts_without_it(client: TestClient, caller: FakeCaller, headers: dict[str, str]) -> None:
    refused = (401, {"ok": False, "text": "the token is wrong or missing"})
    assert act(client, {"service": PAUSE, "value": True}, headers) == refused
    assert act(client, b"x" * (MOST_BODY + 1), headers) == refused
    assert caller.calls == []


def test_nobody_acts_where_no_token_was_given() -> None:
    assert act(client_of(), {"service": PAUSE, "value": True})[0] == 401


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"service": "/spot1/rm", "value": True}, 404, "there is no such service in the fleet"),
        ({"service": "/spot1/odd"}, 404, "there is no such service in the fleet"),
        ({"service": ["/spot1/odd"]}, 404, "there is no such service in the fleet"),
        ({"service": PAUSE}, 400, f"{PAUSE} takes true or false"),
        ({"service": PAUSE, "value": 1}, 400, f"{PAUSE} takes true or false"),
        ({"service": SEQUENCE, "value": True}, 400, f"{SEQUENCE} takes no value"),
        ({"service": SEQUENCE, "value": 3}, 400, f"{SEQUENCE} takes no value"),
        (b"x" * (MOST_BODY + 1), 413, "a request has at most 4096 bytes"),
    ],
)
def test_odd_requests_are_refused(client: TestClient, caller: FakeCaller, body: Any, status: int, text: str) -> None:
    assert act(client, body) == (status, {"ok": False, "text": text})
    assert caller.calls == []


@pytest.mark.parametrize("body", [b"", b"nothing", b"[]", b"7", b"{}", b"[" * 4000, b"\xff\xfe"])
def test_what_is_no_request_is_refused(client: TestClient, body: bytes) -> None:
    status, told = act(client, body)
    assert status == 400 and told["text"].startswith("the request has to be JSON as {")


def test_a_call_that_fails_is_told(client: TestClient, caller: FakeCaller) -> None:
    caller.answer = FedError("the control process ended: no ROS here")
    assert act(client, {"service": SEQUENCE}) == (502, {"ok": False, "text": "the control process ended: no ROS here"})


def test_other_methods_are_refused(client: TestClient) -> None:
    assert client.get("/api/act").status_code == 405
    assert client.post("/").status_code == 405
