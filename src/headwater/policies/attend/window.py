"""attend/window: the first few positions and the newest ones."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.kernels.select import WINDOW, SelectSpec
from headwater.policies.attend.api import positions


@register("attend", "window")
@dataclass(slots=True)
class Window:
    """Read the first `sinks` positions and the newest `window` ones; what lies between is forgotten (without moving positions).

    Source: Xiao et al., "Efficient Streaming Language Models with Attention Sinks" (2309.17453).
    """

    sinks: int = 4
    window: int = 1024

    def selection(self) -> SelectSpec | None:
        return SelectSpec(WINDOW, positions("sinks", self.sinks), positions("window", self.window, 1))
