"""attend/blasst: chunks that cannot matter are left out inside the soft-max loop, in prompts too."""

from dataclasses import dataclass

from headwater.core.registry import register, require
from headwater.kernels.select import BLASST, SelectSpec
from headwater.policies.attend.api import positions


@register("attend", "blasst")
@dataclass(slots=True)
class Blasst:
    """Leave out a chunk of 256 positions whose largest weight is below `threshold` of the largest so far: no weights, no values; scores stay.

    Source: "BLASST: Dynamic Blocked Attention Sparsity via Softmax Thresholding" (2512.12087). Chunks are walked in position order, so what
    is left out is a function of the query and the keys before it. It holds for prompts and generated tokens alike: all keys and values carry
    the policy's name and are shared only under it.

    dense_layers: first layers that read everything.
    """

    threshold: float = 0.01
    dense_layers: int = 0

    def selection(self) -> SelectSpec | None:
        require("attend", "threshold", self.threshold, 0 < self.threshold < 1, "a number above 0 and below 1")
        return SelectSpec(BLASST, 0, 1, dense_layers=positions("dense_layers", self.dense_layers), threshold=self.threshold)
