"""A parameter that makes no sense is refused with one line that names room, parameter and bounds, before anything is loaded."""

import pytest

from headwater.core.errors import UserInputError
from headwater.core.registry import build
from headwater.engine.build import EngineSpec

WRONG = {
    "draft": ["ngram:shortest=0", "ngram:shortest=-1", "ngram:shortest=5,longest=4", "ngram:longest=65", "suffix:history=0", "suffix:history=-1",
              "suffix:history=1073741825", "suffix:tenants=0", "suffix:tenants=-1", "suffix:factor=-1", "suffix:offset=-1", "suffix:branches=-1",
              "selfdraft:budget=0", "selfdraft:interval=-1", "selfdraft:most=0", "model:length=0", "model:match=-1"],
    "sched": ["priority:ageing=-1", "priority:ageing=1e-320", "sjf:ageing=-0.5", "sjf:ageing=1e300", "fair:prompt_weight=1e308",
              "fcfs:rows=0", "fair:new_weight=-1"],
    "evict": ["lfu:half_life=0", "lfu:half_life=1e-320", "slru:protected=1.5"],
}


@pytest.mark.parametrize(("room", "spec"), [(room, spec) for room, specs in WRONG.items() for spec in specs])
def test_a_parameter_out_of_its_bounds_is_named_with_them(room, spec) -> None:
    name = spec.partition(":")[2].rpartition(",")[2].partition("=")[0]
    with pytest.raises(UserInputError, match=rf"^--{room}: {name}=.* would be right$"):
        build(room, spec)


@pytest.mark.parametrize("spec", ["os:path", "os:getcwd", "json:JSONDecoder", "..:x", ".x:y", ":x:y", "os:nothing", "no.such.module:x",
                                  "headwater.policies.sched.api:Budget"])
def test_what_is_no_resident_is_refused_in_one_line(spec) -> None:
    with pytest.raises(UserInputError, match=r"^--sched "):
        build("sched", spec)


@pytest.mark.parametrize("field", ["sched", "evict", "draft", "attend", "rope_scaling"])
def test_a_spec_is_text(field) -> None:
    with pytest.raises(UserInputError, match=f"--{field.replace('_', '-')}: must be text, got None"):
        EngineSpec(**{field: None})
