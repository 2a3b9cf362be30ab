"""The policy language: who may do what, decided exactly as Better IAM 0.3 decides it (iam.md §1-§5).

`validate` turns a document into its compiled form once, `evaluate` decides on compiled documents in
microseconds, and `evaluate_documents` does both for untrusted input. Nothing here knows Better Compute.
"""

from domain.policy.document import Compiled, InvalidPolicy, validate
from domain.policy.evaluate import Decision, InvalidRequest, evaluate, evaluate_documents

__all__ = [
    "Compiled",
    "Decision",
    "InvalidPolicy",
    "InvalidRequest",
    "evaluate",
    "evaluate_documents",
    "validate",
]
