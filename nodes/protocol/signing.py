"""Node keys (N11): Ed25519 over a purpose and the exact bytes sent.

The purpose stands in front of the bytes, so a signature given for one thing never counts for
another: a hello cannot be passed off as a report.
"""

import base64
import binascii
import hashlib
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PUBLIC_KEY_BYTES = 32


class Purpose(StrEnum):
    """What is being signed."""

    HELLO = "bcd-hello-v1"
    REPORT = "bcd-report-v1"


class KeyUnreadable(ValueError):
    """The bytes are not an Ed25519 key."""


class NodeKey:
    """A node's own private key. It never leaves the node."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_key = private.public_key().public_bytes_raw()
        self.kid = kid(self.public_key)

    @classmethod
    def generate(cls) -> "NodeKey":
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> "NodeKey":
        """The key in this PEM file. Raises: OSError, KeyUnreadable."""
        try:
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except ValueError as error:
            raise KeyUnreadable(f"{path} is not a private key: {error}") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyUnreadable(f"{path} is not an Ed25519 key")
        return cls(private)

    def pem(self) -> bytes:
        """The private key as PEM, unencrypted: the file's mode protects it."""
        return self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def sign(self, purpose: Purpose, text: str) -> str:
        """The signature of this text for this purpose, as base64."""
        return encode(self._private.sign(_signed_bytes(purpose, text.encode())))


def kid(public_key: bytes) -> str:
    """The name of a key, derived from it: the same key has the same name everywhere."""
    digest = hashlib.sha256(public_key).digest()[:20]
    return "key_" + base64.b32encode(digest).decode().rstrip("=").lower()


def verify(public_key: bytes, purpose: Purpose, data: bytes, signature: bytes) -> bool:
    """Whether the holder of this key signed these bytes for this purpose."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(
            signature, _signed_bytes(purpose, data)
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def public_key(text: str) -> bytes:
    """The raw public key of its base64. Raises: KeyUnreadable."""
    raw = decode(text)
    if raw is None or len(raw) != PUBLIC_KEY_BYTES:
        raise KeyUnreadable(f"an Ed25519 public key is {PUBLIC_KEY_BYTES} bytes of base64")
    return raw


def encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def decode(text: str) -> bytes | None:
    """The bytes of base64 text, or None where it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _signed_bytes(purpose: Purpose, data: bytes) -> bytes:
    return purpose.encode() + b"\n" + data
