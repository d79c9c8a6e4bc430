"""Signed tokens: the browser's owner can read them, and only the server can make them.

``token = text.signature`` with ``signature = HMAC-SHA256(key, purpose ‖ text)``, in URL-safe characters. The purpose
keeps a token of one kind from passing as another.
"""

from __future__ import annotations

import base64
import hmac

__all__ = ["same", "sign", "unsign"]

# A longer token cannot be ours, so it is not worth hashing.
LONGEST = 2_000


def sign(key: bytes, purpose: str, text: str) -> str:
    """Return a token that holds `text`."""
    packed = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return f"{packed}.{_signature(key, purpose, packed)}"


def unsign(key: bytes, purpose: str, token: str) -> str | None:
    """Return the text of a token; None if it was not signed with this key for this purpose."""
    packed, dot, signature = token.rpartition(".")
    if not dot or len(token) > LONGEST or not token.isascii():
        return None
    if not hmac.compare_digest(signature, _signature(key, purpose, packed)):
        return None
    return base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()


def same(a: str, b: str) -> bool:
    """Return whether two texts are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(a.encode(), b.encode())


def _signature(key: bytes, purpose: str, packed: str) -> str:
    digest = hmac.digest(key, f"{purpose}\0{packed}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
