"""Requests for estimates as lines of JSON: `advise estimate --jsonl`, one line in, one answer out."""

from __future__ import annotations

import msgspec

from advisor.decoding import Json, decode_json
from advisor.deployment import Estimate
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import MOST_BYTES, EstimateRequest, LoadSpec, RememberedNames, error_as_json
from advisor.files import MAX_DEPTH, nesting
from advisor.near import unknown_options
from advisor.planning.holding import answer_request
from advisor.session import Session


def estimate_or_fault(
    line: bytes, session: Session, remembered: RememberedNames, strict: bool = False
) -> Estimate | Json:
    """The estimate that a line asks for, or what is wrong with it; either becomes the line's answer in JSON."""
    try:
        return estimate_line(line, session, remembered, strict)
    except AdvisorError as e:
        return {"id": _id_of(line), "error": error_as_json(e)}


def estimate_line(
    line: bytes, session: Session, remembered: RememberedNames | None = None, strict: bool = False
) -> Estimate:
    """The estimate that a request in JSON asks for. Raises UnknownName, BadFile, BadInput; with `strict` BadInput for a
    setting that the engine does not have, too."""
    r = request(line)
    return answer_request(r, session, remembered, _plain_id(r.id, line), strict)


def request(line: bytes) -> EstimateRequest:
    """A request in JSON. Raises BadInput."""
    try:
        return decode_json(line, EstimateRequest)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as e:
        unknown = _unknown(line) if "unknown field" in str(e) else None  # msgspec's words
        raise unknown or BadInput(f"not a deployment: {e}") from None


def _unknown(line: bytes) -> BadInput | None:
    """The error for a request with fields that no request has; None for text that is wrong otherwise, too."""
    try:
        given = decode_json(line, Json)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    load = given.get("workload")
    for of, fields, kind in (
        ("estimate", given, EstimateRequest),
        ("the workload of estimate", load if isinstance(load, dict) else {}, LoadSpec),
    ):
        names = [k for k in fields if k not in kind.__struct_fields__]
        if names:
            return unknown_options(of, names, kind.__struct_fields__)
    return None


def _plain_id(value: object, line: bytes) -> object:
    """The request's id as it is given back; None where no JSON could carry it."""
    if isinstance(value, (list, dict)) and nesting(line) > MAX_DEPTH:
        return None
    return None if isinstance(value, int) and abs(value) > MOST_BYTES else value


def _id_of(line: bytes) -> object:
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return _plain_id(data.get("id"), line) if isinstance(data, dict) else None
