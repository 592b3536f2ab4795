"""attend/stream: sinks and a window with positions counted inside the cache: runs forever, remembers the window."""

from dataclasses import dataclass

from headwater.core.registry import register
from headwater.kernels.select import STREAM, SelectSpec
from headwater.policies.attend.api import positions


@register("attend", "stream")
@dataclass(slots=True)
class Stream:
    """Read the first `sinks` positions, as if they came right before the window, and the newest `window` ones; prompts too.

    Source: Xiao et al., "Efficient Streaming Language Models with Attention Sinks" (2309.17453), with its positions inside the cache: no offset
    exceeds sinks + window, however long the text. All keys and values carry the policy's name. Goes with `--rope-scaling none:factor=4`.
    """

    sinks: int = 4
    window: int = 2048

    def selection(self) -> SelectSpec | None:
        return SelectSpec(STREAM, positions("sinks", self.sinks, 0, 4096), positions("window", self.window, 1))
