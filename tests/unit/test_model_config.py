"""Facts of models: read right from both kinds of files, and no hostile number gets through."""

import math

import numpy as np
import pytest
import tiny_models as tiny
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import FormatError
from headwater.model.config import ModelConfig
from headwater.model.load.gguf_config import config_from_gguf, with_rope_divisors
from headwater.model.load.hub_config import config_from_hub
from headwater.model.rope import RopeConfig

LLAMA = {
    "general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 128, "llama.embedding_length": 64,
    "llama.feed_forward_length": 96, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0, "llama.vocab_size": 100,
}
GEMMA = {
    "general.architecture": "gemma3", "gemma3.block_count": 18, "gemma3.context_length": 32768, "gemma3.embedding_length": 640,
    "gemma3.feed_forward_length": 2048, "gemma3.attention.head_count": 4, "gemma3.attention.head_count_kv": 1, "gemma3.attention.key_length": 256,
    "gemma3.attention.value_length": 256, "gemma3.attention.layer_norm_rms_epsilon": 1e-6, "gemma3.rope.freq_base": 1e6,
    "gemma3.attention.sliding_window": 512, "gemma3.vocab_size": 262144,
}


def from_gguf(**changes) -> ModelConfig:
    return config_from_gguf("m.gguf", LLAMA | {f"llama.{k.replace('__', '.')}": v for k, v in changes.items()}, {})


def test_a_llama_file_gives_its_shape_and_interleaved_rotation():
    c = from_gguf()
    assert (c.layers, c.dim, c.heads, c.kv_heads, c.head_dim, c.vocab, c.interleaved) == (2, 64, 4, 2, 16, 100, True)
    assert c.attn_scale == 0.25


def test_every_sixth_gemma_layer_sees_everything_with_the_wide_base():
    c = config_from_gguf("g.gguf", GEMMA, {})
    assert [i for i, w in enumerate(c.windows) if w == 0] == [5, 11, 17]
    assert (c.rope.theta, c.rope_local.theta, c.embed_scale, c.attn_scale) == (1e6, 1e4, math.sqrt(640), 1 / 16)


def test_window_layers_and_full_layers_are_two_cache_groups():
    c = config_from_gguf("g.gguf", GEMMA, {})
    full, window = c.kvspec().groups
    assert (full.kind, full.layers, window.kind, window.layers, window.window) == ("full", 3, "window", 15, 512)
    assert c.place(5) == (0, 0)
    assert c.place(6) == (1, 5)
    assert c.kvspec().bytes_per_token == 3 * 2 * 256 * 2


def test_gated_delta_layers_have_states_instead_of_a_cache():
    spec = config_from_hub("c", tiny.CONFIGS["hybrid"]).kvspec()
    assert [g.layers for g in spec.groups] == [1]
    assert [(s.name, s.layers, s.shape) for s in spec.states] == [("conv", 3, (192, 3)), ("delta", 3, (4, 32, 16))]
    assert not spec.can_cut


@pytest.mark.parametrize(("key", "value", "says"), [
    ("llama.block_count", 0, "llama.block_count"), ("llama.block_count", 1 << 40, "llama.block_count"), ("llama.block_count", "2", "whole number"),
    ("llama.block_count", True, "whole number"), ("llama.embedding_length", None, "missing"), ("llama.embedding_length", -64, "from 1"),
    ("llama.embedding_length", 66, "does not divide"), ("llama.attention.head_count", 0, "head_count"),
    ("llama.attention.head_count_kv", 3, "multiple"), ("llama.attention.head_count_kv", [2, 4], "differs between layers"),
    ("llama.attention.head_count_kv", [2], "1 items"), ("llama.attention.layer_norm_rms_epsilon", float("nan"), "finite"),
    ("llama.attention.layer_norm_rms_epsilon", -1.0, "epsilon"), ("llama.rope.freq_base", 0.0, "rope base"),
    ("llama.rope.freq_base", math.inf, "finite"), ("llama.rope.dimension_count", 3, "even"), ("llama.rope.dimension_count", 64, "head size"),
    ("llama.rope.scaling.type", "magic", "magic"), ("llama.rope.scaling.type", 7, "string"), ("llama.rope.scaling.factor", -2.0, "factor"),
    ("llama.context_length", 0, "context_length"), ("llama.attention.key_length", 1 << 20, "key_length"),
    ("llama.attention.value_length", 8, "two head sizes"), ("llama.feed_forward_length", 100, "multiples of 32"),
    ("llama.vocab_size", 1 << 62, "vocab_size"), ("general.architecture", "gptx", "supported: bert"), ("general.architecture", 5, "string"),
    ("llama.attention.sliding_window", [1, 2, 3], "3 items"),
])
def test_a_hostile_number_is_one_line_that_names_its_key(key, value, says):
    metadata = LLAMA | {key: value}
    with pytest.raises(FormatError) as e:
        config_from_gguf("m.gguf", metadata, {})
    assert says in str(e.value)
    assert "\n" not in str(e.value)


_KEYS = [*sorted(LLAMA), "llama.rope.scaling.factor", "llama.rope.scaling.type", "llama.attention.key_length"]


@given(st.dictionaries(st.sampled_from(_KEYS), st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=5), st.booleans(), st.lists(st.integers(-5, 300), max_size=3), st.none(),
    st.sampled_from(["yarn", "linear", "llama3", "longrope"]),
), min_size=1, max_size=4))
def test_any_metadata_gives_a_config_or_a_format_error(changes):
    try:
        c = config_from_gguf("m.gguf", LLAMA | changes, {})
        assert np.isfinite(c.rope.inv_freq()).all()
    except FormatError as e:
        assert len(str(e)) < 400


_VALUES = st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=5), st.booleans(), st.lists(st.integers(0, 9), max_size=3), st.none(),
    st.dictionaries(st.sampled_from(["rope_type", "factor", "rope_theta", "original_max_position_embeddings", "full_attention"]), st.one_of(
        st.floats(), st.sampled_from(["yarn", "llama3", "longrope", "linear", "dynamic"]), st.integers(-3, 64)), max_size=4),
)


@given(st.sampled_from(sorted(tiny.CONFIGS)), st.data())
def test_any_config_json_gives_a_config_or_a_format_error(name, data):
    base = tiny.CONFIGS[name]
    changes = data.draw(st.dictionaries(st.sampled_from([*sorted(base), "rope_scaling", "rope_parameters"]), _VALUES, min_size=1, max_size=3))
    try:
        c = config_from_hub("m/config.json", base | changes)
        for rope in filter(None, (c.rope, c.rope_local)):
            assert np.isfinite(rope.inv_freq()).all()
            assert math.isfinite(rope.mscale())
    except FormatError as e:
        assert len(str(e)) < 400
        assert "\n" not in str(e)


def test_names_from_a_file_cannot_break_the_line_of_an_error():
    with pytest.raises(FormatError, match=r"model_type 'a\\nb' is not supported"):
        config_from_hub("m/config.json", tiny.CONFIGS["llama"] | {"model_type": "a\nb"})


@pytest.mark.parametrize("value", [0, -4, 0.0])
def test_a_scale_that_has_no_root_is_refused_by_name(value):
    with pytest.raises(FormatError, match="query_pre_attn_scalar"):
        config_from_hub("m/config.json", tiny.CONFIGS["gemma3"] | {"query_pre_attn_scalar": value})


def test_quantised_safetensors_are_refused_and_say_why():
    with pytest.raises(FormatError, match="quantization_config"):
        config_from_hub("c", tiny.CONFIGS["llama"] | {"quantization_config": {"bits": 4}})


def test_a_kind_of_rope_that_depends_on_the_length_is_refused():
    with pytest.raises(FormatError, match="dynamic"):
        config_from_hub("c", tiny.CONFIGS["llama"] | {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})


def test_divisors_of_a_file_divide_the_frequencies():
    c = with_rope_divisors(from_gguf(), np.array([1, 2, 4, 8, 1, 1, 1, 1], np.float32))
    plain = from_gguf().rope.inv_freq()
    np.testing.assert_allclose(c.rope.inv_freq()[:4] * [1, 2, 4, 8], plain[:4], rtol=1e-6)


def test_a_wrong_number_of_divisors_is_refused():
    with pytest.raises(FormatError, match="8 are needed"):
        with_rope_divisors(from_gguf(), np.ones(3, np.float32))


def test_llama3_keeps_short_waves_and_stretches_long_ones():
    """Values of the published rule for base 500000, 64 dims, factor 8, original context 8192 at both ends."""
    rope = RopeConfig(500000.0, 64, scaling="llama3", factor=8.0, original_context=8192)
    plain = RopeConfig(500000.0, 64).inv_freq()
    scaled = rope.inv_freq()
    assert scaled[0] == plain[0]
    np.testing.assert_allclose(scaled[-1], plain[-1] / 8, rtol=1e-6)
    assert (np.diff(scaled) < 0).all()


def test_a_gguf_attention_factor_multiplies_what_yarn_prescribes():
    c = from_gguf(rope__scaling__type="yarn", rope__scaling__factor=4.0, rope__scaling__original_context_length=32, rope__scaling__attn_factor=0.5)
    assert c.rope.mscale() == pytest.approx(0.5 * (0.1 * math.log(4.0) + 1.0))


def test_a_gemma_with_a_vision_tower_gets_what_its_file_leaves_out():
    """The published 4B file names only these."""
    c = config_from_hub("c", {"model_type": "gemma3", "vision_config": {}, "text_config": {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
    }})
    assert (c.heads, c.kv_heads, c.head_dim, c.vocab, c.context, c.tied) == (8, 4, 256, 262208, 131072, True)
    assert (c.windows[:6], c.rope.scaling, c.rope.factor, c.rope_local.scaling) == ((1024,) * 5 + (0,), "linear", 8.0, "none")


@pytest.mark.parametrize("refused", [
    lambda: config_from_gguf("m.gguf", LLAMA | {"llama.expert_count": 8}, {}),
    lambda: config_from_hub("c", tiny.CONFIGS["llama"] | {"num_local_experts": 8}),
])
def test_mixtures_of_experts_are_refused_by_name(refused):
    with pytest.raises(FormatError, match="mixture-of-experts"):
        refused()
