"""The real application answers generated requests as its own OpenAPI document says."""

from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection, positive_data_acceptance

from adapters.registry import OPERATIONS
from given import Plane
from wellformed import things

BOUNDS = settings(
    max_examples=6, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
UNSURE = [negative_data_rejection, positive_data_acceptance, ignored_auth]
"""Ids made at random are of nothing, so that a well-formed request is refused too; who may what has its own test."""


def test_generated_requests_are_answered_as_documented(plane: Plane) -> None:
    things(plane)
    config = schemathesis.Config.from_dict({"generation": {"allow-x00": False}})
    document = plane.app.get("/schema/openapi.json").json()
    api: Any = schemathesis.openapi.from_dict(document, config=config)
    for declared in OPERATIONS.values():
        for mode in GenerationMode:
            _try(plane, api[declared.path][declared.verb], mode)


def _try(plane: Plane, operation: Any, mode: GenerationMode) -> None:
    @BOUNDS
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        (case.query or {}).pop("waitFor", None)  # a position of another day is a 503, after two seconds
        made = case.as_transport_kwargs(base_url="http://testserver", headers=plane.root.headers)
        sent = requests.Request(**{name: value for name, value in made.items() if name != "timeout"}).prepare()
        headers = {_bytes(name): _bytes(value) for name, value in sent.headers.items()}
        answer = plane.app.request(str(sent.method), str(sent.url), content=sent.body, headers=headers)
        case.validate_response(answer, excluded_checks=UNSURE)

    run()


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1", "replace")
