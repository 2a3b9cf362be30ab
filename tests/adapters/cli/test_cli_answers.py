"""What is no answer of a Better Compute: another program at the address, or another version."""

from typing import Any

import pytest
from canned import run, serving
from served import piped

from adapters.cli import top_reading, troubles

NONSENSE = [None, [], {}, "x", {"items": None}, {"items": [1]}, {"items": [{}]}]


@pytest.mark.parametrize("body", NONSENSE, ids=str)
@pytest.mark.parametrize("line", ["top --once", "reserve --pool h --devices gpu=1 --for 1h --yes"])
def test_an_answer_that_makes_no_sense_is_said_in_a_line(line: str, body: Any) -> None:
    with serving() as server:
        server.says(body, X_Position="nowhere")
        ran = piped(*line.split(), env={"BETTER_COMPUTE_SERVER": server.address, "BETTER_COMPUTE_TOKEN": "t"})
        assert (ran.returncode, ran.stderr.count("\n")) == (3, 1), ran.stderr
        assert "is this Better Compute" in ran.stderr


def test_a_list_and_a_thing_that_are_neither_are_said() -> None:
    for line in ("nodes list --all", "reservations get r --wait"):
        for body in (None, [], {}, "x"):
            with serving() as server:
                ran = run(line, server.says(body))
                assert (ran.exit_code, "is this Better Compute" in ran.output) == (3, True), (line, body, ran.output)


def test_top_takes_another_programs_404_for_no_refusal_of_ours() -> None:
    with serving() as server:
        server.says(b"<p>not here</p>", status=404, Content_Type="text/html")
        ran = piped("top", env={"BETTER_COMPUTE_SERVER": server.address, "BETTER_COMPUTE_TOKEN": "t"})
        assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "HTTP_404: Not Found\n")


def test_an_event_that_is_none_is_a_failure_of_the_server() -> None:
    feed = top_reading.Feed(lambda event: None)
    for data in (b"not json", b"[]", b"1"):
        with pytest.raises(troubles.Failed):
            feed.write(b"id: 1\ndata: " + data + b"\n\n")
