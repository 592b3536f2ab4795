"""attend/wave: the cache as a vector index: a few clusters are read, more are estimated, the rest is dropped."""

from dataclasses import dataclass

from headwater.core.registry import register, require
from headwater.kernels.select import WAVE, SelectSpec
from headwater.policies.attend.api import number, positions, share


@register("attend", "wave")
@dataclass(slots=True)
class Wave:
    """Steady zone (first `sinks`, at least `local` newest), retrieval zone (clusters read), estimation zone (clusters by centroid and mean value).

    Source: Chen et al., "RetroInfer: A Vector-Storage Approach for Scalable Long-Context LLM Inference" (2505.02922). Unlike there, keys are
    clustered in anchored segments of `segment` positions, each alone, down to the last round, so that an index depends on positions only;
    positions behind the last whole segment are read.

    retrieve, estimate: shares of clusters. centroid: positions per cluster. iterations: rounds of k-means.
    second: weight of the second-order term of an estimate (ours; 0 = as published, 1 = the cumulant expansion with a diagonal covariance).
    dense_layers: first layers that read everything.
    """

    retrieve: float = 0.018
    estimate: float = 0.232
    sinks: int = 4
    local: int = 64
    segment: int = 1024
    centroid: int = 16
    iterations: int = 10
    second: float = 0.0
    dense_layers: int = 0

    def selection(self) -> SelectSpec | None:
        segment = positions("segment", self.segment, 256, 4096, 256)
        clusters = segment / max(self.centroid, 1)
        require("attend", "centroid", self.centroid, 16 <= clusters <= 256 and clusters % 16 == 0 and self.centroid > 0,
                "segment / centroid of 16, 32, … 256")
        return SelectSpec(
            WAVE, positions("sinks", self.sinks, 0, segment // 2), positions("local", self.local, 1), segment, self.centroid,
            positions("iterations", self.iterations, 1, 100), positions("dense_layers", self.dense_layers), share("retrieve", self.retrieve),
            share("estimate", self.estimate), number("second", self.second),
        )
