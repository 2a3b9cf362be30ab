"""Operations on the command line: what is sent, and how the answer is shown."""

import json

import pytest
from canned import run, serving

from adapters.cli import client, leaving, operations, showing
from adapters.registry import OPERATIONS


@pytest.fixture
def server():
    with serving() as running:
        yield running


def test_a_list_is_a_table(server):
    server.says({"items": [{"id": "node_1", "name": "a\x1b[2J", "joinedAt": 0}], "nextCursor": "c2"})
    ran = run("nodes list --pool-id pool_1 --limit 1 --ready --states up --states down", server)
    assert ran.stdout == "ID      NAME      JOINED AT\nnode_1  a\\x1b[2J  1970-01-01T00:00:00Z\n"
    assert ran.stderr == "there is more: --all, or --cursor c2\n"
    assert server.asked[0].path == "/v1/nodes?limit=1&poolId=pool_1&states=up%2Cdown&ready=true"
    assert server.asked[0].headers["Authorization"] == "Bearer biam_key_secret"


def test_all_follows_the_cursor_to_the_end(server):
    server.says({"items": [{"id": "node_1"}], "nextCursor": "c&2"}).says({"items": [{"id": "node_2"}]})
    ran = run("nodes list --all --json", server)
    assert json.loads(ran.stdout) == {"items": [{"id": "node_1"}, {"id": "node_2"}]}
    first, second = (asked.path for asked in server.asked)
    assert (first, second) == ("/v1/nodes?limit=1000", "/v1/nodes?limit=1000&cursor=c%262")


def test_a_full_disk_is_not_the_servers_failure(server):
    server.says(b'{"a":1}\n', Content_Type="application/jsonl")
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(leaving.Unwritten, match="cannot write the answer: No"),
    ):
        client.Client(server.address, None).send("GET", "/v1/audit/export", sink=full)


def test_a_cursor_that_leads_nowhere_ends_the_walk(server):
    server.says({"items": [], "nextCursor": "c"})
    ran = run("nodes list --all", server)
    assert (ran.exit_code, len(server.asked)) == (3, 2)


@pytest.mark.parametrize(
    ("typed", "sent"), [("@12", "%4012"), ("1500", "1500"), ("1970-01-01T01:00:00.5+01:00", "500")]
)
def test_the_past_is_asked_for_by_position_or_instant(server, typed, sent):
    server.says({"items": []})
    assert run(["nodes", "list", "--as-of", typed], server).exit_code == 0
    assert server.asked[0].path == f"/v1/nodes?asOf={sent}"


def test_an_instant_without_offset_is_none(server):
    ran = run("nodes list --as-of 2026-01-01T00:00:00", server)
    assert (ran.exit_code, "names no offset" in ran.stderr, server.asked) == (2, True, [])


def test_all_pages_of_the_past_are_of_the_position_that_the_first_one_shows(server):
    server.says({"items": [{"id": "node_1"}], "nextCursor": "c2"}, X_Position="7").says({"items": []}, X_Position="7")
    assert run("nodes list --all --as-of 1500", server).exit_code == 0
    first, second = (asked.path for asked in server.asked)
    assert (first, second) == ("/v1/nodes?asOf=1500&limit=1000", "/v1/nodes?asOf=%407&limit=1000&cursor=c2")


def test_one_thing_is_key_and_value_lines(server):
    server.says({"id": "node_1", "pool": {"id": "pool_1"}, "createdAt": 0})
    assert run("nodes get node_1", server).stdout == (
        "id         node_1\npool.id    pool_1\ncreatedAt  1970-01-01T00:00:00Z\n"
    )


def test_json_is_in_ascii_for_a_terminal_obeys_more_than_json_escapes(server):
    server.says({"name": "\x9b2Jü"})
    assert run("nodes get node_1 --json", server).stdout == '{\n  "name": "\\u009b2J\\u00fc"\n}\n'


def test_a_command_sends_its_fields_its_version_and_its_key(server):
    server.says({"id": "node_1"})
    line = ["nodes", "cordon", "a/b?", "--reason", "fan is loud", "--mode", "slow"]
    more = ["--deadline-at", "1970-01-01T01:00:00.5+01:00", "--if-match", "7", "--idempotency-key", "k1"]
    assert run([*line, *more], server).exit_code == 0
    asked = server.asked[0]
    assert (asked.verb, asked.path) == ("POST", "/v1/nodes/a%2Fb%3F/cordon")
    assert asked.body == {"reason": "fan is loud", "mode": "slow", "deadlineAt": 500}
    assert (asked.headers["If-Match"], asked.headers["Idempotency-Key"]) == ('"7"', "k1")


def test_no_key_is_made_where_none_is_required(server):
    server.says({})
    run("nodes cordon node_1 --reason x", server)
    assert "Idempotency-Key" not in server.asked[0].headers


def test_a_required_key_is_made_anew_each_time(server):
    server.says({"id": "res_1"}, status=201)
    for _ in range(2):
        run("reservations create --pool-id p --devices gpu=1 --duration-seconds 60", server)
    first, second = (asked.headers["Idempotency-Key"] for asked in server.asked)
    assert first != second


@pytest.mark.parametrize(
    ("devices", "sent"),
    [
        (["gpu=8"], [{"class": "gpu", "count": 8}]),
        (["gpu=8,has(a, b)"], [{"class": "gpu", "count": 8, "selector": "has(a, b)"}]),
        (["gpu=2", "nic=1"], [{"class": "gpu", "count": 2}, {"class": "nic", "count": 1}]),
        (['[{"class":"a","count":1}]', "b=2"], [{"class": "a", "count": 1}, {"class": "b", "count": 2}]),
        (['{"class":"gpu","count":1}'], [{"class": "gpu", "count": 1}]),
    ],
)
def test_devices_have_a_short_form(server, devices, sent):
    server.says({})
    given = [word for line in devices for word in ("--devices", line)]
    run(["reservations", "create", "--pool-id", "p", "--duration-seconds", "60", *given], server)
    assert server.asked[0].body["devices"] == sent


def test_dicts_flags_nested_values_and_names_that_are_taken(server):
    server.says({})
    line = "reservations create --pool-id p --devices gpu=1 --duration-seconds 60"
    dicts = ["--labels", "a=b=c", "--labels", "d=", "--scalars", "cpu=4", "--scalars", '{"memoryMiB":1}']
    more = ["--topology", '{"pack":"rack"}', "--no-spot", "--body-token", "t"]
    ran = run([*line.split(), *dicts, *more], server)
    assert ran.exit_code == 0, ran.stderr
    body = server.asked[0].body
    assert (body["labels"], body["scalars"]) == ({"a": "b=c", "d": ""}, {"cpu": 4, "memoryMiB": 1})
    assert (body["topology"], body["spot"], body["token"]) == ({"pack": "rack"}, False, "t")


def test_options_stand_over_the_body_that_is_read(server):
    server.says({})
    whole = json.dumps({"reason": "read", "mode": "slow"})
    run("nodes cordon node_1 --json-body - --reason given", server, input=whole)
    assert server.asked[0].body == {"reason": "given", "mode": "slow"}


def test_names_are_typed_in_kebab_case_or_as_declared(server):
    server.says(None, status=204)
    for group in ("join-tokens", "joinTokens"):
        ran = run([group, "revoke-all", "tenant", "ten_1"], server)
        assert (ran.exit_code, ran.stdout) == (0, "done\n")
    assert server.asked[1].path == "/v1/x/tenant/ten_1"


def test_a_delete_without_fields_has_no_body(server):
    server.says({})
    run("nodes retire node_1", server)
    assert (server.asked[0].verb, server.asked[0].body) == ("DELETE", None)


def test_what_is_not_json_is_passed_on_as_it_is(server):
    server.says(b'{"a":1}\n{"b":2}\n', Content_Type="application/jsonl")
    assert run("audit export", server).stdout == '{"a":1}\n{"b":2}\n'


def test_a_stream_on_a_terminal_is_escaped_but_keeps_its_lines(capsys):
    screen = showing.Screen()
    for piece in ("data: ü".encode()[:-1], "ü".encode()[-1:] + b"\x1b[2J\n\n", b"data: 2\n"):
        screen.write(piece)
        screen.flush()
    assert capsys.readouterr().out == "data: ü\\x1b[2J\n\ndata: 2\n"


def test_the_help_of_an_operation_tells_where_it_goes_and_what_each_field_means():
    shown = " ".join(run("nodes cordon --help").stdout.split())
    for line in (
        "Usage: better-compute nodes cordon [OPTIONS] ID",
        "Do nodes.cordon. POST /v1/nodes/{id}/cordon, decided as compute:nodes:cordon",
        "--reason TEXT why, for others [required]",
        "--mode [fast|slow] [default: fast]",
        "--deadline-at INSTANT",
        "--json-body FILENAME the request as a JSON object, - for standard input",
        "--if-match INTEGER only if it still has this version",
        "--idempotency-key TEXT a retry with the same key acts only once; none if left out",
        "--token TEXT access token [env var: BETTER_COMPUTE_TOKEN]",
    ):
        assert line in shown


def test_no_option_of_a_command_means_two_things() -> None:
    """A field of a request that is spelt as an option of the command line itself would take its place."""
    for operation in OPERATIONS.values():
        spelt = [name for param in operations.command(operation, OPERATIONS).params for name in param.opts]
        assert len(spelt) == len(set(spelt)), (operation.name, sorted(spelt))
