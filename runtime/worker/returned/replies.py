"""A handler's result as the response that somebody waits for, by nuclio_sdk's forms."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import nuclio_sdk

from headrace.runtime.wire.records import Headers
from headrace.runtime.wire.reply import Reply, encode_reply
from headrace.runtime.worker.api.user_traceback import describe_failure
from headrace.runtime.worker.results import NO_RESPONSE, HandlerReturnedError, RecordOutcome, plain

_TEXT, _JSON = "text/plain", "application/json"
_STATUSES = range(200, 600)  # what is below goes before an answer, and isn't one


def reply_of(result: Any) -> Reply:
    """The response: text, bytes, JSON of a dict or list, `(status, body)`, or a Response; None is empty.

    Any other body is its `str`, or JSON behind a status. Raises HandlerReturnedError for a status that no
    answer has in HTTP, and for headers that are no mapping, TypeError for what JSON can't say.
    """
    if isinstance(result, nuclio_sdk.Response):
        content_type = _name(result.content_type)
        return _reply(result.status_code, result.body, content_type, _headers(result.headers))
    if isinstance(result, tuple) and len(result) == 2:
        status, body = result
        is_plain = body is None or isinstance(body, str | bytes | bytearray)
        return _reply(status, body if is_plain else json.dumps(body), _TEXT if is_plain else _JSON)
    return _reply(200, result, _TEXT)


def answer(seq: int, result: Any) -> bytes:
    """The REPLY to record `seq`. Raises as `reply_of`."""
    return encode_reply(seq, reply_of(result))


def answers(
    seqs: Sequence[int], outcomes: Sequence[RecordOutcome]
) -> tuple[list[bytes], list[RecordOutcome]]:
    """REPLYs to those of a batch that have a response, and all outcomes: what can't be sent has failed."""
    frames, answered = [], list(outcomes)
    for i, (seq, outcome) in enumerate(zip(seqs, outcomes, strict=True)):
        if outcome.response is not NO_RESPONSE:
            try:
                frames.append(answer(seq, outcome.response))
            except Exception as error:
                answered[i] = RecordOutcome(describe_failure(error))
    return frames, answered


def _reply(status: Any, body: Any, content_type: str, headers: Headers = ()) -> Reply:
    if not isinstance(status, int) or status not in _STATUSES:
        raise HandlerReturnedError(f"the handler's response has {status!r} for a status")
    if isinstance(body, dict | list):
        return Reply(int(status), _JSON, headers, json.dumps(body).encode())
    return Reply(int(status), content_type, headers, plain(body))


def _headers(headers: Any) -> Headers:
    """A list of values is a header for each."""
    if not headers:
        return ()
    if not isinstance(headers, Mapping):
        said = f"the handler's response has {headers!r:.200} for headers: expected a dict"
        raise HandlerReturnedError(said)
    return tuple((_name(name), plain(value)) for name, said in headers.items() for value in _values(said))


def _name(name: Any) -> str:
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else str(name)


def _values(said: Any) -> Sequence[Any]:
    return said if isinstance(said, list | tuple) else (said,)
