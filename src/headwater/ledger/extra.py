"""Libraries of the extra `ledger`, loaded when first needed."""

from __future__ import annotations

import importlib
from typing import Any

from headwater.core.errors import UserInputError


def need(module: str, purpose: str) -> Any:
    """A module of the extra.

    Raises:
        UserInputError: it is not installed; says what needs it and how to get it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserInputError(f"{module.split('.', maxsplit=1)[0]} is missing ({purpose}); install it with: pip install 'headwater[ledger]'") from None
