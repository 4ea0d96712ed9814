"""Client certificates for tests, as a customer would give them to the hub."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Pair(NamedTuple):
    certificate: str
    key: str


class ClientAuthority:
    """Signs client certificates; `pem` is its own certificate."""

    def __init__(self, name: str = "partner authority") -> None:
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.pem = self._sign(self._name, self._key.public_key(), (-DAY, 400 * DAY), authority=True)

    def pair(
        self, name: str = "hub", *, valid: tuple[timedelta, timedelta] = (-DAY, 365 * DAY), rsa_bits: int = 0
    ) -> Pair:
        key = rsa.generate_private_key(65537, rsa_bits) if rsa_bits else ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        return Pair(self._sign(_named(name), key.public_key(), valid), text.decode())

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
        valid: tuple[timedelta, timedelta],
        authority: bool = False,
    ) -> str:
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + valid[0])
            .not_valid_after(now + valid[1])
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
