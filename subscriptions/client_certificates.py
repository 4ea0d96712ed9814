"""Client certificates, with which the hub identifies itself to an endpoint: checks of new ones, and what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from django.utils.translation import gettext as _

from webhookhub.egress.messages import ClientCertificate

CERTIFICATE, PRIVATE_KEY = "certificate", "private_key"
MAX_CERTIFICATE_LENGTH = 32_768
MAX_KEY_LENGTH = 16_384
MIN_RSA_BITS = 2048
# How long before its expiry a certificate is reported.
WARN_BEFORE = timedelta(days=30)

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey


class UnacceptableCertificate(ValueError):
    """`field` is the certificate or the private key; the message says what would be right."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class CertificateFacts(NamedTuple):
    """What may be shown of a certificate."""

    subject: str
    issuer: str
    expires_at: datetime
    # SHA-256, as openssl x509 -fingerprint writes it.
    fingerprint: str

    def expires_soon(self, now: datetime) -> bool:
        return self.expires_at - now < WARN_BEFORE


def check(certificate: str, private_key: str, now: datetime) -> ClientCertificate:
    """The pair in its stored form, or UnacceptableCertificate."""
    chain = _chain(certificate)
    key = _key(private_key)
    if _public_bytes(chain[0].public_key()) != _public_bytes(key.public_key()):
        raise UnacceptableCertificate(
            PRIVATE_KEY, _("The private key does not belong to the certificate (the first one, if there are several).")
        )
    leaf = chain[0]
    if leaf.not_valid_after_utc <= now:
        raise UnacceptableCertificate(
            CERTIFICATE,
            _("The certificate has expired on %(date)s.") % {"date": f"{leaf.not_valid_after_utc:%Y-%m-%d}"},
        )
    if leaf.not_valid_before_utc > now:
        raise UnacceptableCertificate(
            CERTIFICATE,
            _("The certificate is not valid before %(date)s.") % {"date": f"{leaf.not_valid_before_utc:%Y-%m-%d}"},
        )
    # Written again: texts between the certificates, such as other keys, are not stored.
    return ClientCertificate(
        b"".join(item.public_bytes(serialization.Encoding.PEM) for item in chain),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def facts(pair: ClientCertificate) -> CertificateFacts:
    leaf = x509.load_pem_x509_certificate(pair.chain)
    return CertificateFacts(
        leaf.subject.rfc4514_string(),
        leaf.issuer.rfc4514_string(),
        leaf.not_valid_after_utc,
        leaf.fingerprint(hashes.SHA256()).hex(":").upper(),
    )


def _chain(text: str) -> Sequence[x509.Certificate]:
    if len(text) > MAX_CERTIFICATE_LENGTH:
        raise UnacceptableCertificate(
            CERTIFICATE, _("The certificate has more than %(limit)s characters.") % {"limit": MAX_CERTIFICATE_LENGTH}
        )
    try:
        chain = x509.load_pem_x509_certificates(text.encode())
        chain[0].public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise UnacceptableCertificate(
            CERTIFICATE,
            _(
                "The certificate cannot be read: give it in PEM form (-----BEGIN CERTIFICATE-----), followed by those "
                "of its issuers."
            ),
        ) from None
    return chain


def _key(text: str) -> PrivateKey:
    if len(text) > MAX_KEY_LENGTH:
        raise UnacceptableCertificate(
            PRIVATE_KEY, _("The private key has more than %(limit)s characters.") % {"limit": MAX_KEY_LENGTH}
        )
    try:
        key = serialization.load_pem_private_key(text.encode(), password=None)
    except TypeError:
        raise UnacceptableCertificate(
            PRIVATE_KEY, _("The private key is encrypted: give it without a password; the hub encrypts it itself.")
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnacceptableCertificate(
            PRIVATE_KEY, _("The private key cannot be read: give it in PEM form (-----BEGIN PRIVATE KEY-----).")
        ) from None
    if not isinstance(key, PrivateKey) or (isinstance(key, rsa.RSAPrivateKey) and key.key_size < MIN_RSA_BITS):
        raise UnacceptableCertificate(
            PRIVATE_KEY,
            _("The private key must be RSA with %(bits)s bits or more, ECDSA, Ed25519 or Ed448.")
            % {"bits": MIN_RSA_BITS},
        )
    return key


def _public_bytes(key: object) -> bytes:
    encoded: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded
