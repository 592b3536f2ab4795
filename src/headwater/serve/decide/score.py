"""POST /v1/score (label logits after given ids), and /v1/rerank: a yes/no question per passage."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from headwater.core.errors import ContextLengthError, UserInputError
from headwater.decisions import formulas
from headwater.decisions.annotations import yes_no
from headwater.decisions.decider import ReadItem, Work
from headwater.decisions.types import DecisionRequest
from headwater.serve.context import new_id, server_of
from headwater.serve.decide.run import decide_many, read
from headwater.serve.errors import json_response
from headwater.serve.jsonbody import JsonRoute
from headwater.serve.offloop import off_loop, size_of
from headwater.serve.schema.common import Int, Wire
from headwater.serve.sse import unless_client_leaves

router = APIRouter(route_class=JsonRoute)
MAX_DOCUMENTS = 1000
RELEVANT = "The passage in the state answers or is relevant to this query: "


class ScoreRequest(Wire):
    """SGLang's form: query (shared), items, label_token_ids; vLLM's pairs (text_1, text_2) become a relevance question per pair."""

    model: str | None = None
    query: str | list[int] | None = None
    items: str | list[str] | list[list[int]] | None = None
    label_token_ids: list[int] | None = None
    apply_softmax: bool = False
    item_first: bool = False
    text_1: str | list[str] | None = None
    text_2: str | list[str] | None = None


class RerankDocument(Wire):
    text: str


class RerankRequest(Wire):
    model: str | None = None
    query: str
    documents: list[str | RerankDocument] = Field(min_length=1)
    top_n: Int | None = None
    return_documents: bool = False
    instruction: str | None = None


async def relevance(server: Any, queries: list[str], passages: list[str], instruction: str = "") -> tuple[list[float], int, int]:
    """P(relevant) of each (query, passage) pair -> (float64 per pair, logical tokens, computed tokens). The passage is the cached state."""
    lead = f"{instruction.strip()} {RELEVANT}" if instruction.strip() else RELEVANT
    requests = [
        DecisionRequest(p, [yes_no("relevant", lead + q, None, None, f"documents[{i}]")])
        for i, (q, p) in enumerate(zip(queries, passages, strict=True))
    ]
    results = await decide_many(server, requests)
    scores = [float(r.answers[0].value or 0.0) for r in results]
    return scores, sum(r.usage.logical for r in results), sum(r.usage.computed for r in results)


@router.post("/v1/rerank", response_model=None)
@router.post("/rerank", response_model=None)
@router.post("/v2/rerank", response_model=None)
async def rerank(request: Request, body: RerankRequest) -> Response:
    """Passages in order of their probability of being relevant; ties keep the order given."""
    server = server_of(request)
    model, headers = server.check_model(body.model), server.headers(request, body)
    server.admit()
    if len(body.documents) > MAX_DOCUMENTS:
        raise UserInputError(f"documents: {len(body.documents):,} documents, at most {MAX_DOCUMENTS:,} are allowed", field="documents")
    if body.top_n is not None and body.top_n < 1:
        raise UserInputError(f"top_n: must be at least 1, got {body.top_n}", field="top_n")
    texts = [d if isinstance(d, str) else d.text for d in body.documents]
    work = relevance(server, [body.query] * len(texts), texts, body.instruction or "")
    scores, logical, computed = await unless_client_leaves(request, work)
    order = sorted(range(len(texts)), key=lambda i: (-scores[i], i))[: body.top_n]
    results = [
        {"index": i, "relevance_score": scores[i], **({"document": {"text": texts[i]}} if body.return_documents else {})} for i in order
    ]
    usage = {"prompt_tokens": logical, "total_tokens": logical, "x_prompt_tokens_computed": computed}
    return json_response({"id": new_id("rerank"), "model": model, "results": results, "usage": usage}, headers=headers)


@router.post("/v1/score", response_model=None)
@router.post("/score", response_model=None)
async def score(request: Request, body: ScoreRequest) -> Response:
    """Label probabilities after query + item (SGLang's form), or relevance of text pairs (vLLM's)."""
    server = server_of(request)
    model, headers = server.check_model(body.model), server.headers(request, body)
    server.admit()
    if body.text_1 is not None or body.text_2 is not None:
        return json_response(await unless_client_leaves(request, _pairs(server, model, body)), headers=headers)
    return json_response(await unless_client_leaves(request, _labels(server, model, body, size_of(request))), headers=headers)


async def _pairs(server: Any, model: str, body: ScoreRequest) -> dict[str, Any]:
    left = [body.text_1] if isinstance(body.text_1, str) else body.text_1
    right = [body.text_2] if isinstance(body.text_2, str) else body.text_2
    if not left or not right:
        raise UserInputError("text_1, text_2: both must be given", field="text_2" if left else "text_1")
    if len(left) == 1:
        left = left * len(right)
    if len(left) != len(right):
        raise UserInputError(f"text_1: {len(left)} texts, text_2 has {len(right)}; they must be as many, or text_1 one", field="text_1")
    scores, logical, computed = await relevance(server, left, right)
    data = [{"index": i, "object": "score", "score": s} for i, s in enumerate(scores)]
    usage = {"prompt_tokens": logical, "total_tokens": logical, "x_prompt_tokens_computed": computed}
    return {"id": new_id("score"), "object": "list", "model": model, "data": data, "usage": usage}


async def _labels(server: Any, model: str, body: ScoreRequest, size: int) -> dict[str, Any]:
    front = server.front
    if body.query is None or not body.items or not body.label_token_ids:
        missing = next(n for n in ("query", "items", "label_token_ids") if not getattr(body, n))
        raise UserInputError(f"{missing}: is missing", field=missing)
    labels = body.label_token_ids
    vocabulary, context = front.model_info.vocabulary, front.model_info.context
    for t in labels:
        if not 0 <= t < vocabulary:
            raise UserInputError(f"label_token_ids: token id {t} is outside the vocabulary of {vocabulary:,}", field="label_token_ids")
    if len(set(labels)) != len(labels):
        raise UserInputError("label_token_ids: an id is there twice", field="label_token_ids")
    items: list[Any] = [body.items] if isinstance(body.items, str) else list(body.items)
    as_ids = await off_loop(size, _all_ids, front, body.query, items, body.item_first)
    for i, ids in enumerate(as_ids):
        if not 0 < len(ids) <= context:
            raise ContextLengthError(f"items[{i}]: query and item are {len(ids):,} tokens, the context holds 1 to {context:,}", field=f"items[{i}]")
    shortest = min(len(x) for x in as_ids)
    same = (np.stack([x[:shortest] for x in as_ids]) == as_ids[0][:shortest]).all(axis=0)
    shared = min(shortest - 1, shortest if same.all() else int(same.argmin())) if len(as_ids) > 1 else 0
    order = np.argsort(labels, kind="stable")
    wanted = np.array(labels, np.int32)[order]
    work = Work(DecisionRequest("", [yes_no("score", "", None, None, "items")]), as_ids[0][:shared])
    work.items = [ReadItem(ids, wanted, True, -1, shared) for ids in as_ids]
    values = await read(front, work)
    scores = []
    for v in values:
        logits = np.empty(len(labels))
        logits[order] = v.logits
        assert v.lse is not None
        p = formulas.softmax(logits) if body.apply_softmax else np.exp(logits - v.lse)
        scores.append([float(x) for x in p])
    total = sum(len(x) for x in as_ids)
    usage = {"prompt_tokens": total, "total_tokens": total, "x_prompt_tokens_computed": sum(v.computed for v in values)}
    return {"object": "scoring", "model": model, "scores": scores, "usage": usage}


def _all_ids(front: Any, query: str | list[int], items: list[Any], item_first: bool) -> list[np.ndarray]:
    return [_ids(front, query, x, item_first, f"items[{i}]") for i, x in enumerate(items)]


def _ids(front: Any, query: str | list[int], item: str | list[int], item_first: bool, where: str) -> np.ndarray:
    """int32 ids of query and item in their order. Raises UserInputError naming `where`."""
    vocabulary = front.model_info.vocabulary
    if isinstance(query, str) != isinstance(item, str):
        raise UserInputError("items: query and items must both be text or both token ids", field="items")
    first, second = (item, query) if item_first else (query, item)
    if isinstance(first, str):
        return np.array(front.tokenize(first + str(second)), np.int32)
    ids = [*first, *second]
    if any(not 0 <= int(t) < vocabulary for t in ids):
        raise UserInputError(f"{where}: a token id is outside the vocabulary of {vocabulary:,}", field=where)
    return np.array(ids, np.int32)
