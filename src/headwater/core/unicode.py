"""JSON can spell what no encoding can carry: a surrogate without its other half."""

from __future__ import annotations

from headwater.core.errors import UserInputError


def encodable(text: str, field: str) -> None:
    """Raises UserInputError naming `field` where `text` holds a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise UserInputError(f"{field}: holds a lone surrogate (U+{ord(text[e.start]):04X}), which is no text", field=field) from None
