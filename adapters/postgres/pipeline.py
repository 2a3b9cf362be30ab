"""Several statements as one transaction in one round trip, on prepared statements of our own.

psycopg's pipeline makes a cursor for each statement; an append has a dozen, and they cost more than all that the server
did (docs/decisions/0008). Here the statements go straight into libpq's pipeline, each prepared once on its connection.
Up to the one Sync behind the last they are one implicit transaction, which the server commits there: so the first error
undoes all of it, the server skips what follows, and nothing is left to roll back.
"""

import re
import select
import struct
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
import psycopg.abc
from psycopg import errors, pq
from psycopg.adapt import Transformer

_BOOL, _BYTEA, _INT8, _TEXT, _INFERRED = 16, 17, 20, 25, 0
_ARRAY_OF: Final = {_BOOL: 1000, _BYTEA: 1001, _INT8: 1016, _TEXT: 1009}
_ELEMENT: Final = {bool: _BOOL, bytes: _BYTEA, int: _INT8, str: _TEXT}
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_AS_TEXT, _BINARY = 0, 1
_FAILED: Final = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)

Encoded = tuple[int, int, bytes | None]
"""A parameter's type, its format, its bytes."""

Row = tuple[Any, ...]

Step = tuple[str, list[Encoded]]

Plan = tuple[str, tuple[int, ...]]
"""A statement and the types of its parameters: what is prepared once."""

_prepared: WeakKeyDictionary[psycopg.Connection[Any], dict[Plan, bytes]] = WeakKeyDictionary()
_numbers = count()


def run(connection: psycopg.Connection[Any], statements: Sequence[tuple[str, Sequence[Any]]]) -> list[int]:
    """Run the statements as one transaction; return the first column, an int8, of what the last one returned."""
    last = _answers(connection, statements)[-1]
    return [_int8(last.get_value(n, 0)) for n in range(last.ntuples)] if last.nfields else []


def ask(connection: psycopg.Connection[Any], questions: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Row]]:
    """Ask several things in one round trip, each of what was committed when its turn came; the rows of each."""
    loaded = Transformer(connection)
    return [_rows(loaded, answer) for answer in _answers(connection, questions)]


def _answers(
    connection: psycopg.Connection[Any], statements: Sequence[tuple[str, Sequence[Any]]]
) -> list[pq.abc.PGresult]:
    """What each of the statements returned, all as one transaction.

    Parameters are str, int, bool, bytes, None, and lists of these. The connection must be in
    autocommit mode; inside a transaction of its own the statements become part of that. Raises the first error, typed;
    then nothing was written. On any other trouble the connection is closed, for it may be in the middle of something.
    """
    known = _prepared.setdefault(connection, {})
    encoded = [(sql, _encoded(params)) for sql, params in statements]
    try:
        return _run(connection, encoded, known)
    except errors.InvalidSqlStatementName:
        if not known or connection.info.transaction_status != pq.TransactionStatus.IDLE:
            raise
    known.clear()  # psycopg sends DEALLOCATE ALL after a rollback of its own, and that forgets ours too
    return _run(connection, encoded, known)


def _run(
    connection: psycopg.Connection[Any], statements: Sequence[Step], known: dict[Plan, bytes]
) -> list[pq.abc.PGresult]:
    conn = connection.pgconn
    try:
        conn.enter_pipeline_mode()
        sent = _send(conn, statements, known)
        conn.pipeline_sync()
        _flush(conn)
        failed, answers = _results(conn, sent, known)
        conn.exit_pipeline_mode()
    except BaseException:
        connection.close()
        raise
    if failed is not None:
        raise errors.error_from_result(failed, connection.info.encoding)
    return answers


def _send(conn: pq.abc.PGconn, statements: Sequence[Step], known: dict[Plan, bytes]) -> list[tuple[Plan, bytes] | None]:
    """Queue everything; return what each of the results to come belongs to: a plan newly prepared, or a statement."""
    sent: list[tuple[Plan, bytes] | None] = []
    fresh: dict[Plan, bytes] = {}
    for sql, encoded in statements:
        types = tuple([one[0] for one in encoded])
        plan = (sql, types)
        name = known.get(plan) or fresh.get(plan)
        if name is None:
            name = fresh[plan] = b"bc_%d" % next(_numbers)
            conn.send_prepare(name, _numbered(sql), types)
            sent.append((plan, name))
        conn.send_query_prepared(name, [one[2] for one in encoded], [one[1] for one in encoded], _BINARY)
        sent.append(None)
    return sent


def _flush(conn: pq.abc.PGconn) -> None:
    """Hand all to the kernel; what the server answers meanwhile is taken in, or both would wait for each other."""
    poll: select.poll | None = None
    while conn.flush():
        if poll is None:
            poll = select.poll()
            poll.register(conn.socket, select.POLLIN | select.POLLOUT)
        if any(event & ~select.POLLOUT for _, event in poll.poll()):
            conn.consume_input()


def _results(
    conn: pq.abc.PGconn, sent: Sequence[tuple[Plan, bytes] | None], known: dict[Plan, bytes]
) -> tuple[pq.abc.PGresult | None, list[pq.abc.PGresult]]:
    """The first failure, and every statement's answer. A plan counts as prepared when the server has said so."""
    next_ = _reader(conn)
    failed: pq.abc.PGresult | None = None
    answers: list[pq.abc.PGresult] = []
    for one in sent:
        while (result := next_()) is not None:
            if failed is None and result.status in _FAILED:
                failed = result
            elif one is not None and result.status == pq.ExecStatus.COMMAND_OK:
                known[one[0]] = one[1]
            last = result
        if one is None:
            answers.append(last)
    while (result := next_()) is None or result.status != pq.ExecStatus.PIPELINE_SYNC:
        if failed is None and result is not None and result.status in _FAILED:
            failed = result
    return failed, answers


def _reader(conn: pq.abc.PGconn) -> Callable[[], pq.abc.PGresult | None]:
    poll = select.poll()
    poll.register(conn.socket, select.POLLIN)

    def next_() -> pq.abc.PGresult | None:
        while conn.is_busy():
            poll.poll()
            conn.consume_input()
        return conn.get_result()

    return next_


def _int8(value: bytes | None) -> int:
    return int.from_bytes(value or b"", signed=True)


def _rows(loaded: psycopg.abc.Transformer, answer: pq.abc.PGresult) -> list[Row]:
    loaded.set_pgresult(answer)
    return loaded.load_rows(0, answer.ntuples, tuple)


@cache
def _numbered(sql: str) -> bytes:
    """psycopg's placeholders as the server's."""
    numbers = count(1)
    return re.sub("%(s|%)", lambda m: f"${next(numbers)}" if m[1] == "s" else "%", sql).encode()


def _encoded(params: Sequence[Any]) -> list[Encoded]:
    """Raises psycopg.DataError for what PostgreSQL has no place for, before anything is sent."""
    try:
        return [_ENCODERS[type(param)](param) for param in params]
    except (KeyError, struct.error, UnicodeEncodeError) as fault:
        raise psycopg.DataError(f"a parameter cannot be sent: {fault!r}") from fault


def _list(values: Sequence[Any]) -> Encoded:
    """Plain texts as an array literal, which is quickest to make; all else in the server's own array format."""
    if values and type(values[0]) is str:
        try:
            joined = '","'.join(values)
        except TypeError:  # a null among them
            return _array(values)
        if joined.count('"') == 2 * len(values) - 2 and "\\" not in joined and "\0" not in joined:
            return _ARRAY_OF[_TEXT], _AS_TEXT, b'{"%b"}' % joined.encode()
    return _array(values)


def _array(values: Sequence[Any]) -> Encoded:
    """One dimension, counted from 1; nulls are allowed."""
    of = next((_ELEMENT[type(value)] for value in values if value is not None), None)
    if of is None and values:
        return _ARRAY_OF[_TEXT], _BINARY, struct.pack(">iiiii", 1, True, _TEXT, len(values), 1) + _NULL * len(values)
    of = of or _TEXT
    if of in (_INT8, _BOOL):  # as Python writes them the server reads them
        return _ARRAY_OF[of], _AS_TEXT, b"{%b}" % str(list(values))[1:-1].replace("None", "NULL").encode()
    coded = values if of == _BYTEA else [value if value is None else value.encode() for value in values]
    cells = [_NULL if value is None else _LENGTH.pack(len(value)) + value for value in coded]
    head = struct.pack(">iiiii", 1, None in values, of, len(values), 1) if values else struct.pack(">iii", 0, 0, of)
    return _ARRAY_OF[of], _BINARY, head + b"".join(cells)


def _text(value: str) -> Encoded:
    """The server infers the type from where it stands; libpq would cut the value at a NUL in silence."""
    if "\x00" in value:
        raise psycopg.DataError("PostgreSQL text cannot contain NUL")
    return _INFERRED, _AS_TEXT, value.encode()


_ENCODERS: Final[dict[type, Callable[[Any], Encoded]]] = {
    str: _text,
    int: lambda value: (_INT8, _BINARY, struct.pack(">q", value)),
    bool: lambda value: (_BOOL, _BINARY, b"\x01" if value else b"\x00"),
    bytes: lambda value: (_BYTEA, _BINARY, value),
    type(None): lambda value: (_INFERRED, _AS_TEXT, None),
    list: _list,
    tuple: _list,
}
