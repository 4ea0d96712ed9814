"""A certificate authority for tests: valid certificates, and invalid ones with one mistake each."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Authority:
    """Signs certificates; `file` contains its own certificate."""

    def __init__(self, folder: Path, name: str = "tests' authority", valid: tuple[timedelta, timedelta] = (-DAY, DAY)):
        self._folder = folder
        self._made = 0
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _sign(name, self._key, name, self._key, (), valid, authority=True)
        self._name = name
        self.file = folder / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def certificate(
        self, *names: str, valid: tuple[timedelta, timedelta] = (-DAY, DAY), self_signed: bool = False
    ) -> Path:
        """A file with a server's key and certificate, valid from now + valid[0] until now + valid[1]."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, issuer_key = ("server", key) if self_signed else (self._name, self._key)
        certificate = _sign("server", key, issuer, issuer_key, names or LOOPBACK, valid)
        self._made += 1
        path = self._folder / f"server-{self._made}.pem"
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return path


def _sign(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    names: tuple[str, ...],
    valid: tuple[timedelta, timedelta],
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_distinguished(name))
        .issuer_name(_distinguished(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + valid[0])
        .not_valid_after(now + valid[1])
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_alternative(text) for text in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _distinguished(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
