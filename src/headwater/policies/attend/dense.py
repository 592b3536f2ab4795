"""attend/dense: everything is read."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.kernels.select import SelectSpec


@register("attend", "dense")
@dataclass(slots=True)
class Dense:
    """Every query reads every position that it may see: exact."""

    def selection(self) -> SelectSpec | None:
        """None: nothing is selected."""
        return None
