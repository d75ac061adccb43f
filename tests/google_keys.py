"""Keys of a service account that exists nowhere."""

from functools import cache
from typing import Any

EMAIL = "tidegate@some-project.iam.gserviceaccount.com"


def build_key() -> dict[str, Any]:
    """A service account's key as Google gives it, with an RSA key of its own."""
    return {
        "type": "service_account",
        "project_id": "some-project",
        "private_key_id": "1",
        "private_key": _generate_private_key(),
        "client_email": EMAIL,
        "token_uri": "https://oauth2.googleapis.com/token",
    }


@cache
def _generate_private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
