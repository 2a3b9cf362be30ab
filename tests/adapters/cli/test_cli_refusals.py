"""What goes wrong is told on stderr, and sets the exit status: 1 refused, 2 wrong usage, 3 failed."""

import pytest
from canned import PROBLEM, run, serving


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.mark.parametrize(("status", "left"), [(409, 1), (404, 1), (429, 1), (500, 3), (503, 3)])
def test_a_problem_goes_to_stderr_and_sets_the_exit_status(server, status, left):
    server.says(PROBLEM, status=status)
    ran = run("nodes get node_1", server)
    assert (ran.exit_code, ran.stdout) == (left, "")
    assert ran.stderr == "CONFLICT: it is gone\n  id: no more\nrequest id: req_1\n"


def test_an_error_that_is_no_problem_document_is_still_told(server):
    server.says(b"<html>", status=502, Content_Type="text/html", X_Request_Id="req_9")
    ran = run("nodes get node_1", server)
    assert (ran.exit_code, ran.stderr) == (3, "HTTP_502: Bad Gateway\nrequest id: req_9\n")


def test_a_redirect_is_not_followed_for_the_token_would_go_along(server):
    server.says(None, status=302, Location="http://elsewhere.example/")
    ran = run("nodes get node_1", server)
    assert (ran.exit_code, len(server.asked)) == (3, 1)
    assert ran.stderr.startswith("the server points to http://elsewhere.example/;")


def test_a_lost_answer_tells_the_key_to_ask_again_with(server):
    server.says(PROBLEM, status=503)
    line = "reservations create --pool-id p --devices gpu=1 --duration-seconds 60"
    ran = run(line, server)
    key = server.asked[0].headers["Idempotency-Key"]
    assert ran.exit_code == 3
    assert ran.stderr.splitlines()[-1] == f"to ask again without doing it twice: --idempotency-key {key}"


def test_a_server_out_of_reach():
    ran = run("nodes get node_1")
    assert (ran.exit_code, ran.stderr) == (3, "cannot reach http://127.0.0.1:1: Connection refused\n")


def test_a_proxy_is_not_asked_for_this_machine(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.says({"id": "node_1"})
    assert run("nodes get node_1", server).exit_code == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nodes cordon node_1", "missing option '--reason'"),
        ("nodes get ..", "'..' is no id"),
        ("nodes get", "Missing argument 'ID'"),
        ("nodes cordon n --reason x --mode odd", "'odd' is not one of 'fast', 'slow'"),
        ("nodes cordon n --reason x --deadline-at 2026-01-01T00:00", "names no offset"),
        ("nodes list --limit 0", "1<=x<=1000"),
        ("reservations create --devices gpu", "neither class=count[,selector] nor JSON"),
        ("reservations create --devices gpu=many", "'many' is not a valid integer range"),
        ("reservations create --devices [1", "not JSON"),
        ("join-tokens revoke-all robot x", "'robot' is not one of"),
        ("nodes get n --server ftp://x", "--server is an address"),
        ("nodes get n --server http://me:pass@x", "--server holds a credential"),
        ("nodes frobnicate", "No such command 'frobnicate'"),
    ],
)
def test_wrong_usage_is_refused_before_anyone_is_asked(line, told):
    ran = run(line)
    assert ran.exit_code == 2
    assert told in " ".join(ran.stderr.split())


def test_a_token_is_never_printed():
    secret = "biam_key_do\nnot-show"
    for line in ("nodes get node_1", "nodes get --help", "nodes cordon"):
        ran = run(line, token=secret)
        assert "biam_key" not in ran.output
        assert "not-show" not in ran.output
