"""A server at the address of a v3io web API that is another one: doubted, soon, in one line."""

import pytest
from strangers import Answer, closing, saying, silent, stranger

from headrace.runtime.v3io import client
from headrace.runtime.v3io.addresses import V3ioAccess
from headrace.runtime.v3io.client import V3ioAwayError, V3ioClient


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (silent, "no answer within 0.05 s"),
        (closing, "Server disconnected"),
        (saying(b"SSH-2.0-OpenSSH_9.2p1\r\n"), "400"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), "makes no sense: <html>"),
    ],
)
async def test_who_is_no_web_api_is_doubted(
    answer: Answer, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_SECONDS", 0.05)
    async with stranger(answer) as address, V3ioClient(V3ioAccess(f"http://{address}")) as calls:
        with pytest.raises(V3ioAwayError) as away:
            await calls.read("DescribeStream", "/c/s", None, lambda answer: answer["Count"])
        assert says in str(away.value)
        assert str(away.value).endswith("; is that the address of a v3io web API?")
        assert "\n" not in str(away.value)
