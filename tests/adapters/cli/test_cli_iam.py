"""`better-compute iam`: decisions and the access file, through the real command."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from adapters.cli import main

ROOT = Path(__file__).parents[3]
VECTORS = ROOT / "tests/domain/iam-vectors.jsonl"
COMMAND = [sys.executable, "-m", "adapters.cli.main", "iam"]


def evaluate(data: bytes, *options: str) -> Result:
    return CliRunner().invoke(main.Root(), ["iam", "evaluate", *options], input=data)


def answers(ran: Result) -> list[Any]:
    return [json.loads(line) for line in ran.stdout_bytes.split(b"\n")[:-1]]


def test_every_line_of_the_contract_is_answered_as_it_expects() -> None:
    data = VECTORS.read_bytes()
    ran = subprocess.run([*COMMAND, "evaluate"], input=data, capture_output=True, cwd=ROOT, timeout=120, check=True)
    expected = [json.loads(line)["expect"] for line in data.split(b"\n") if line]
    assert [json.loads(line) for line in ran.stdout.split(b"\n")[:-1]] == expected
    assert (len(expected), ran.stderr) == (550, b"")


def test_an_answer_comes_before_the_next_question() -> None:
    process = subprocess.Popen([*COMMAND, "evaluate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(3):
        process.stdin.write(b'{"action":"a","resource":"r","grants":[]}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["reason"] == "no-grant"
    process.stdin.close()
    assert process.wait(30) == 0


BAD = {
    b"": "it is not JSON: Expecting value at character 1",
    b'{"action": ': "it is not JSON: Expecting value at character 12",
    b"[]": "it is not an object",
    b"null": "it is not an object",
    b'{"action": NaN}': "NaN is no number of JSON",
    b'{"a": "\xff"}': "byte 8 of the line is not UTF-8",
    b'{"a": "\xed\xa0\x80"}': "byte 8 of the line is not UTF-8",
    b"[" * 100_000: "it is nested too deeply",
    b'{"a":' * 100_000: "it is nested too deeply",
}


def test_a_line_that_is_no_question_is_answered_in_its_place() -> None:
    good = b'{"action":"a","resource":"r","grants":[]}'
    ran = evaluate(b"".join(line + b"\n" + good + b"\r\n" for line in BAD))
    found = answers(ran)
    assert found[::2] == [{"error": "MALFORMED", "message": message} for message in BAD.values()]
    assert {answer["reason"] for answer in found[1::2]} == {"no-grant"}
    assert (ran.exit_code, ran.stderr) == (1, "")


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    ran = evaluate(b" " * (16 * 1024 * 1024 + 5) + b'{}\n{"action":"a","resource":"r","grants":[]}')
    assert [answer.get("error") for answer in answers(ran)] == ["MALFORMED", None]


def test_huge_numbers_and_lone_surrogates_survive() -> None:
    grant = (
        b'{"version":1,"statements":[{"sid":"\\ud800\\u2028","effect":"allow","actions":["*"],"resources":["*"],'
        b'"conditions":{"NumericLessThan":{"k":1}}}]}'
    )
    line = b'{"action":"a","resource":"r\\udfff","grants":[%s],"context":{"k":%s}}\n'
    ran = evaluate(line % (grant, b"0") + line % (grant, b"-" + b"9" * 5000) + line % (grant, b"1e400"))
    assert [answer["matched"] for answer in answers(ran)] == [["grant:0:\ud800\u2028"], [], []]
    assert b"\\ud800\\u2028" in ran.stdout_bytes


def test_what_is_wrong_is_told_on_request() -> None:
    line = b'{"action":"a","resource":"r","grants":[{"version":2}]}\n'
    assert answers(evaluate(line)) == [{"error": "INVALID_POLICY"}]
    said = {"error": "INVALID_POLICY", "message": "version: must be the number 1"}
    assert answers(evaluate(line, "--explain")) == [said]
