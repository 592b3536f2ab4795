"""attend/dualchunk: a context longer than the trained one, cut into chunks that are seen from positions which were trained."""

from dataclasses import dataclass

from headwater.core.registry import register, require
from headwater.kernels.select import DUAL_CHUNK, SelectSpec
from headwater.policies.attend.api import positions


@register("attend", "dualchunk")
@dataclass(slots=True)
class DualChunk:
    """Queries see their own chunk, and of the chunk before it what lies within `trained` positions, as they are; every other chunk from position
    `trained` - 1 counted from that chunk's start, so that no offset reaches `trained`. Up to there it is dense, bit for bit.

    Source: An et al., "Training-Free Long-Context Scaling of Large Language Models" (2402.17463). It holds for prompts too: all keys and values
    carry the policy's name. Goes with `--rope-scaling none:factor=4`, which lets the context grow.

    chunk: positions of a chunk, a multiple of 256. trained: positions that the model was made for.
    """

    trained: int = 8192
    chunk: int = 6144

    def selection(self) -> SelectSpec | None:
        trained, chunk = positions("trained", self.trained, 257), positions("chunk", self.chunk, 256, 1 << 15, 256)
        require("attend", "chunk", chunk, chunk < trained, f"less than trained={trained}")
        return SelectSpec(DUAL_CHUNK, 0, 1, chunk, trained=trained)
