"""KV bytes per token of DeepSeek-V4.1-Flash, computed from its stated layout by the same account that plans our own caches."""

from __future__ import annotations

from typing import Any

EXPERIMENT = {
    "title": "KV bytes per token of DeepSeek-V4.1-Flash and of the families it is compared with, from their shapes",
    "family": "exactness",
    "timeout": 60.0,
    "needs": [],
    "setting": {"model": "DeepSeek-V4.1-Flash"},
}


def run(setting: dict[str, str]) -> dict[str, Any]:
    """One outcome; see experiments/README.md. An account of a stated layout, not a measurement of the authors' system."""
    del setting
    from headwater import __version__
    from headwater.core.kvfamilies import FAMILIES

    known = [f for f in FAMILIES if f.known is not None]
    wrong = [f for f in known if f.spec.bytes_per_token != f.known]
    by_name = {f.name: f.spec.bytes_per_token for f in FAMILIES}
    ours = by_name["DeepSeek-V4.1-Flash"]
    return {
        "metric": "kv_bytes_per_token",
        "value": float(ours),
        "interval": [float(ours), float(ours)],
        "n": len(known),
        "setting": {"model": "DeepSeek-V4.1-Flash"},
        "exactness": {
            "compared": len(known), "violations": len(wrong),
            "counter_example": "; ".join(f"{f.name}: {f.spec.bytes_per_token} instead of {f.known}" for f in wrong),
        },
        "companions": {
            "baseline_name": "published figures and public configurations", "baseline_version": __version__,
            "baseline_flags": "windows, drafters and padding left out, as in the report", "baseline_generation": "reports of 2024 to 2026",
            "quality_cost": 0.0,
            "ablation": {
                "DeepSeek-67B over it": round(by_name["DeepSeek-67B (V1)"] / ours, 1),
                "V4-Flash over it": round(by_name["DeepSeek-V4-Flash"] / ours, 2),
                "V4-Flash over V3.2": round(by_name["DeepSeek-V4-Flash"] / by_name["DeepSeek-V3.2"], 4),
            },
        },
        "note": "computed from the layout that the report states; no weights were run; V4-Flash has no figure of its own to compare with",
    }
