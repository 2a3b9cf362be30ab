"""Tables fit the terminal, and nothing in them steers it."""

import pytest
from msgspec import inspect

from adapters.cli import drawn, fitting, tables
from adapters.registry import OPERATIONS

NODES = [
    {"id": "node_1", "name": "a", "gpus": 8, "pool": {"name": "train"}, "createdAt": 1764436216000},
    {"id": "node_22", "name": "rack one, upper half", "gpus": 16, "createdAt": None},
]


def test_a_table_shows_dotted_paths_instants_and_numbers():
    columns = ("id", "name", "gpus", "pool.name", "createdAt")
    assert tables.table(NODES, columns, None) == (
        "ID       NAME                  GPUS  POOL.NAME  CREATED AT\n"
        "node_1   a                        8  train      2025-11-29T17:10:16Z\n"
        "node_22  rack one, upper half    16  -          -"
    )


def test_a_table_is_cut_to_the_terminal_but_identifiers_are_not():
    assert tables.table(NODES, ("id", "name"), 20) == "ID       NAME\nnode_1   a\nnode_22  rack one, …"


def test_a_table_without_named_columns_shows_the_scalar_fields():
    assert tables.table([{"a": 1, "deep": {"b": 2}}, {"c": True}], (), None) == "A  C\n1  -\n-  yes"


def test_a_unit_stays_whole_in_a_heading():
    assert tables.table([], ("memoryGiB", "poolId", "sizeBytes"), None) == "MEMORY GIB  POOL ID  SIZE BYTES"


def test_an_empty_table_is_its_headings():
    assert tables.table([], ("id", "poolId"), None) == "ID  POOL ID"


def test_columns_may_be_named_as_in_python():
    assert tables.table([{"poolId": "pool_1"}], ("pool_id",), None) == "POOL ID\npool_1"


def test_wide_characters_take_two_columns():
    assert tables.table([{"name": "日本", "x": "a"}, {"name": "ab", "x": "b"}], ("name", "x"), None) == (
        "NAME  X\n日本  a\nab    b"
    )


def test_a_record_shows_nested_values_by_path():
    body = {
        "id": "res_1",
        "endsAt": 0,
        "labels": {},
        "allocations": [{"nodeId": "node_1", "atoms": ["a", "b"], "boundAt": 1}],
        "spot": False,
    }
    assert tables.record(body) == (
        "id                      res_1\n"
        "endsAt                  1970-01-01T00:00:00Z\n"
        "labels                  {}\n"
        "allocations[0].nodeId   node_1\n"
        "allocations[0].atoms    a, b\n"
        "allocations[0].boundAt  1970-01-01T00:00:00.001Z\n"
        "spot                    no"
    )


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("plain Zürich 日本", "plain Zürich 日本"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("two\nlines\ttabbed\r", "two\\x0alines\\x09tabbed\\x0d"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("abc\u202ecba\u2028", "abc\\u202ecba\\u2028"),
        ("\ud800\U000e0001", "\\ud800\\U000e0001"),
    ],
)
def test_what_a_terminal_obeys_is_escaped(sent, shown):
    assert tables.printable(sent) == shown


@pytest.mark.parametrize("place", ["cell", "key", "nested", "column", "problem"])
def test_no_way_in_for_escape_sequences(place):
    evil = "\x1b[31m"
    document = dict.fromkeys(("code", "detail", "requestId", evil), evil)
    shown = {
        "cell": lambda: tables.table([{"id": evil}], ("id",), None),
        "key": lambda: tables.record({evil: 1}),
        "nested": lambda: tables.table([{"id": {evil: [evil]}}], ("id",), None),
        "column": lambda: tables.table([{evil: 1}], (), None),
        "problem": lambda: tables.problem(document | {"errors": [{"field": evil, "message": evil}]}, 409),
    }[place]()
    assert "\x1b" not in shown


def test_an_instant_beyond_the_calendar_stays_a_number():
    assert tables.instant(10**30) == str(10**30)


def test_a_problem_names_code_fields_extras_and_request():
    document = {
        "type": "about:blank",
        "title": "Conflict",
        "status": 409,
        "code": "ILLEGAL_TRANSITION",
        "detail": "release is not possible in pending; legal now: cancel",
        "errors": [{"field": "id", "message": "is pending"}],
        "allowed": ["cancel"],
        "requestId": "req_1",
    }
    assert tables.problem(document, 409) == (
        "ILLEGAL_TRANSITION: release is not possible in pending; legal now: cancel\n"
        "  id: is pending\n"
        "  allowed = cancel\n"
        "request id: req_1"
    )


@pytest.mark.parametrize("detail", ["no pool 'x' is visible to you", "poolId: no pool 'x' is visible to you"])
def test_a_problem_says_its_sentence_once(detail):
    errors = [{"field": "poolId", "message": "no pool 'x' is visible to you"}]
    assert tables.problem({"code": "NOT_FOUND", "detail": detail, "errors": errors}, 404) == f"NOT_FOUND: {detail}"


def test_a_problem_without_a_code_is_named_by_its_status():
    assert tables.problem({"title": "Bad Gateway"}, 502) == "HTTP_502: Bad Gateway"


def test_every_field_that_is_declared_in_epoch_ms_is_typed_and_shown_as_an_instant():
    declared = {
        f"{operation.name}.{field.encode_name}"
        for operation in OPERATIONS.values()
        for field in inspect.type_info(operation.request).fields
        if "epoch ms" in str(field.type) and field.encode_name != "asOf" and "position" not in str(field.type)
    }
    assert {"nodes.drain.deadline", "commands.issue.notBefore"} <= declared
    assert {name for name in declared if not tables.is_instant(name)} == set()


def test_a_list_in_a_column_is_that_of_each():
    rows = [{"reasons": [{"reason": "Cordoned", "since": 1}, {"reason": "NotConnected", "since": 2}]}, {"reasons": []}]
    assert tables.table(rows, ("why=reasons.reason",), None) == "WHY\nCordoned, NotConnected\n-"


def test_what_no_row_has_is_no_column_and_what_is_null_is_one():
    rows = [{"id": "a", "limit": None}, {"id": "b", "limit": None}]
    assert tables.table(rows, ("id", "total", "limit"), None) == "ID  LIMIT\na   -\nb   -"


def test_reasons_are_told_with_the_instant_since_when_and_where_room_is_scarce_with_their_age():
    rows = [{"id": "a", "reasons": {"Cordoned": 1_000, "NotConnected": 60_000}}, {"id": "b", "reasons": {}}]
    whole, *_ = fitting.fit(rows, ("id", "reasons"), None)
    assert whole.split("\n")[1] == "a   Cordoned since 1970-01-01T00:00:01Z, NotConnected since 1970-01-01T00:01:00Z"
    narrow, *_ = fitting.fit(rows, ("id", "reasons"), 60, now=600)
    assert narrow.split("\n")[1:] == ["a   Cordoned 9m ago, NotConnected 9m ago", "b   -"]


def test_what_is_used_of_a_quota_is_told_in_words():
    of = [{"resource": "gpu", "used": 8, "limit": 64, "peak": 9}, {"resource": "vcpu", "used": 3, "limit": None}]
    assert tables.table([{"resources": of}], ("resources",), None) == "RESOURCES\ngpu 8 of 64, vcpu 3"


def test_a_flat_object_is_told_as_one_types_it():
    rows = [{"quota": {"gpu": 64, "vcpu": 8}, "gpus": {"class": "gpu", "count": 1, "selector": None}}]
    assert tables.table(rows, ("quota",), None) == "QUOTA\ngpu=64, vcpu=8"
    assert tables.table(rows, ("gpus",), None) == "GPUS\ngpu=1"


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "1"), (0.0465, "0.046"), (0.0001234, "0.0001"), (2.5, "2.5"), (0.0, "0")]
)
def test_a_fraction_is_told_in_three_places(value, shown):
    assert tables.cell("gpuHours", value) == shown


def test_numbers_are_on_the_right_also_where_some_are_missing():
    assert tables.table([{"n": 5}, {"n": None}, {"n": 100}], ("n",), None) == "  N\n  5\n  -\n100"


WIDE = [
    {
        "id": "rsv_" + "1" * 52,
        "state": "active",
        "stateReason": None,
        "nodeId": "node_01abcdefghijklmnop",
        "endsAt": 3_600_000,
        "text": "x" * 40,
    }
]
COLUMNS = ("id", "state", "stateReason", "nodeId", "endsAt", "text")


def test_what_fits_is_left_as_it_is():
    assert fitting.fit(WIDE, COLUMNS, None) == (tables.table(WIDE, COLUMNS, None), ())
    assert fitting.fit(WIDE, COLUMNS, 300).text == tables.table(WIDE, COLUMNS, None)


def test_headings_are_stacked_and_columns_without_content_go_first():
    text, left_out = fitting.fit(WIDE, COLUMNS, 140, now=0)
    assert left_out == ()
    heads, names, row = text.split("\n")
    assert "REASON" not in heads
    assert (heads.split(), names.split()[:3]) == (["NODE", "ENDS"], ["ID", "STATE", "ID"])
    assert "in 60m" in row


def test_ids_of_other_things_keep_their_end():
    text, _ = fitting.fit(WIDE, COLUMNS, 110, now=0)
    assert "node_…" in text
    assert "lmnop" in text
    assert WIDE[0]["id"] in text


def test_at_last_columns_go_from_the_right_and_are_named():
    text, left_out = fitting.fit(WIDE, COLUMNS, 80, now=0)
    assert left_out == ("ENDS AT", "TEXT")
    assert WIDE[0]["id"] in text
    assert max(map(len, text.split("\n"))) <= 80


def test_the_first_column_stays_whole_however_narrow_the_terminal_is():
    assert fitting.fit(WIDE, COLUMNS, 10, now=0).text == f"ID\n{WIDE[0]['id']}"


def test_every_column_is_in_the_answer():
    absent = set()
    for operation in OPERATIONS.values():
        for column in operation.columns:
            shape = inspect.type_info(operation.response)
            for step in tables.path(column).split("."):
                shape = _below(shape, step)
                if shape is None:
                    absent.add(f"{operation.name}.{column}")
                    break
    assert absent == set()


def _below(shape, step):
    """The type of a field, of a page's items or of a list's."""
    while not isinstance(shape, inspect.StructType):
        if isinstance(shape, inspect.UnionType):
            shape = next(one for one in shape.types if not isinstance(one, inspect.NoneType))
        elif isinstance(shape, inspect.CollectionType | inspect.VarTupleType):
            shape = shape.item_type
        else:
            return None
    known = {field.encode_name: field.type for field in shape.fields}
    return _below(known["items"], step) if step not in known and "items" in known else known.get(step)


def test_a_text_of_any_length_is_cut_in_one_go():
    """Letter by letter from its end, a mebibyte would take minutes."""
    assert tables.cut("x" * 2**20, 10) == "x" * 9 + "…"
    assert tables.cut("ü" * 2**20, 10) == "ü" * 9 + "…"
    assert drawn.text(drawn.clip(drawn.line("ü" * 2**20), 10, drawn.UNICODE)) == "ü" * 9 + "…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("e" + "\u0301" * 40, "e" + "\u0301" * 4 + "\\u0301" * 36), ("\u202eabc", "\\u202eabc"), ("e\u0301", "e\u0301")],
)
def test_a_text_neither_turns_around_nor_paints_over_its_neighbours(text, shown):
    assert tables.printable(text) == shown


def test_marks_without_a_width_take_none():
    assert tables.columns_of("a\ufe0f\u20e3\u0b3fb") == 2
