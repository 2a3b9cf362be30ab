"""Evidence that somebody spoilt: whoever checks it is told what is wrong, and nothing breaks (api.md §6)."""

import pytest

from exports import busy, covered, exported
from given import Plane

SPOILT = {
    "an event that is no JSON": "UPDATE stored_events SET state = 'x' WHERE notification_id = {at}",
    "an event nested without end": "UPDATE stored_events SET state = convert_to('{{\"id\":' || repeat('[', 100000), 'UTF8') WHERE notification_id = {at}",
    "a name nobody knows": "UPDATE stored_events SET topic = 'admission.unknown.1' WHERE notification_id = {at}",
    "an event removed": "DELETE FROM stored_events WHERE notification_id = {at}",
    "a leaf's tile removed": "DELETE FROM audit_tiles WHERE level = 0",
    "a tile cut short": "UPDATE audit_tiles SET hashes = substr(hashes, 1, 33) WHERE level = 0",
    "positions cut short": "UPDATE audit_tiles SET positions = '{{}}' WHERE level = 0",
    "chains removed": "DELETE FROM audit_chain",
    "progress removed": "DELETE FROM audit_progress",
    "progress ahead": "UPDATE audit_progress SET size = size + 1000",
    "progress behind": "UPDATE audit_progress SET size = 1",
    "progress at nothing": "UPDATE audit_progress SET size = 0",
    "checkpoints spoilt": "UPDATE audit_checkpoints SET note = 'x'",
}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_spoilt_is_told(plane: Plane, what: str) -> None:
    busy(plane)
    covered(plane)
    plane.wired.evidence.stop()
    (at,) = plane.rows("SELECT position FROM audit_chain WHERE tenant_id = 'acme' AND sequence = 2")[0]
    with plane.wired.reads.connection() as connection:
        connection.execute(SPOILT[what].format(at=at).encode())
    for client, query in ((plane.acme, ""), (plane.auditor, "?scope=fleet")):
        answer = client.get(f"/v1/audit/verify{query}")
        print(what, query, answer.status_code, answer.text[:700])
        answer = client.get(f"/v1/audit/checkpoint?since=1")
        print(what, query, answer.status_code, answer.text[:300])
        try:
            answer = client.get(f"/v1/audit/export{query}")
            print(what, query, answer.status_code, answer.text[:100])
        except Exception as e: print('EXPORT', type(e), str(e)[:200])
    import subprocess, sys
    from adapters.postgres import evidence_check
    from adapters import audit_key
    import psycopg, traceback
    told = []
    with plane.wired.reads.connection() as c:
        dsn = c.info.dsn
    with psycopg.connect(dsn, autocommit=True) as c:
        try:
            evidence_check.Verifier(c, told.append, [], audit_key.verify).run()
        except Exception as e: traceback.print_exc(limit=-2)
    print('DB VERIFY', len(told), told[:5])
