"""Certificates of an authority of its own, in PEM; keys in PKCS#8, which is all that Java reads."""

from datetime import UTC, datetime
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Pair(NamedTuple):
    """A certificate with those that vouch for it, and its key."""

    certificate: str
    key: str


class Authority:
    """Whom some trust."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self.pem = self._ca.cert_pem.bytes().decode()

    def pair(self, *hosts: str, password: str = "", is_expired: bool = False) -> Pair:
        """For a server with those names, or a client."""
        until = datetime(2020, 1, 2, tzinfo=UTC) if is_expired else None
        made = self._ca.issue_cert(*hosts, common_name=hosts[0], not_after=until)
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        how = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        return Pair(chain.decode(), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode())
