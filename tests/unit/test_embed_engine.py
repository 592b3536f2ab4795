"""Models that look both ways: whole prompts, no shared prefixes, no generation; the same vectors alone and in any batch."""

import numpy as np
import pytest
import tiny_models
from plain_forward import forward

from headwater.core.errors import UserInputError
from headwater.core.params import SamplingParams
from headwater.core.request import ReadSpec
from headwater.engine.build import EngineSpec, _engine, load_text
from headwater.engine.expand import GenerateRequest
from headwater.engine.offline import Offline
from headwater.kernels import native
from headwater.model.load.loader import Model, load_model
from headwater.worker.model_forward import ModelForward


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load_model(tiny_models.write_folder("bert", tmp_path_factory.mktemp("bert")))


@pytest.fixture
def offline(model: Model) -> Offline:
    spec = EngineSpec("echo")
    text = load_text(spec)
    text.generates = False
    runs = ModelForward(
        model.program, model.kvspec, (40,) * len(model.kvspec.groups), 0, context=model.config.context, identity=model.identity, step_tokens=512,
        vocabulary=model.config.vocab,
    )
    return Offline(_engine(spec, runs, text), text)


def hidden(offline: Offline, prompts: list[np.ndarray]) -> list[np.ndarray]:
    wants = [GenerateRequest(p, reads=ReadSpec(hidden="all"), read_only=True) for p in prompts]
    return [a.choices[0].reads.hidden for a in offline.run(wants)]  # type: ignore[misc]


def test_hidden_rows_are_those_of_the_plain_forward(model: Model, offline: Offline) -> None:
    ids = tiny_models.tokens(3, 20)
    tolerance = 2e-2 if native.available() else 1e-3                # float weights; keys and values pass through the float16 cache
    np.testing.assert_allclose(hidden(offline, [ids])[0], forward(model.program, ids), atol=tolerance)


def test_vectors_do_not_depend_on_the_batch_nor_on_texts_that_begin_alike(offline: Offline) -> None:
    prompts = [tiny_models.tokens(5, 60)[:n] for n in (60, 17, 33, 48, 60, 1)]
    together = hidden(offline, prompts)
    for p, h in zip(prompts, together, strict=True):
        assert np.array_equal(hidden(offline, [p])[0], h)
    assert not np.allclose(together[0][:17], together[1])           # later words change earlier rows: nothing may be shared


def test_many_texts_wait_until_they_fit_whole(offline: Offline) -> None:
    prompts = [tiny_models.tokens(seed, 50) for seed in range(30)]
    together = hidden(offline, prompts)
    assert all(len(h) == 50 for h in together)
    assert np.array_equal(together[29], hidden(offline, [prompts[29]])[0])


def test_generating_and_scoring_are_refused_in_one_line(offline: Offline) -> None:
    for want in (
        GenerateRequest([1, 2], SamplingParams(max_tokens=2)),
        GenerateRequest([1, 2], read_only=True, reads=ReadSpec(labels=np.array([1]))),
    ):
        with pytest.raises(UserInputError, match="embeds texts"):
            offline.run([want])
