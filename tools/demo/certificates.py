"""Creates a private certificate authority and a server certificate for loopback."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SERVER = "server.pem"


def write(folder: Path, names: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")) -> tuple[Path, Path]:
    """Writes both certificates into `folder`. Returns the authority's file and the server's, which contains its key."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("WebhookHub demo authority", authority_key, None, None, ())
    key = ec.generate_private_key(ec.SECP256R1())
    server = _certificate("localhost", key, authority, authority_key, names)
    authority_file, server_file = folder / "authority.pem", folder / SERVER
    authority_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    server_file.touch(mode=0o600)
    server_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + server.public_bytes(serialization.Encoding.PEM)
    )
    return authority_file, server_file


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey | None,
    alternative_names: tuple[str, ...],
) -> x509.Certificate:
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer_key or key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if issuer is None:
        builder = builder.add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    if alternative_names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(text) for text in alternative_names]), critical=False
        )
    return builder.sign(signer, hashes.SHA256())


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
