"""Names of works, systems and products in mixed Chinese and English prose, and the clauses they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from headwater.ledger.parse.ids import find_ids, find_links

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])@?[A-Za-z][A-Za-z0-9²³]*(?:[-.][A-Za-z0-9]+)*(?:\s\d{1,2}\.\d{1,2}(?![\d%×.A-Za-z]|\s*(?:ms|GB|x\b|倍|亿|"
    r"[%×])))?",
    re.ASCII,
)
_CATEGORY = re.compile(r"(?:cs|stat|math|eess|econ|physics|q-bio|q-fin)\.[A-Z]{2}")
_PATH = re.compile(r"(?:[\w.@-]+/)+[\w.@-]+|\b[\w-]+\.(?:md|txt|json|jsonl|py|xml)\b", re.ASCII)
# words that are written with capitals but name no work; venues, vendors and hardware are dealt with by the fact tables
_COMMON_WORDS = """
a an and are as at by for from has have in is it its no not of on only or our that the their this to via vs was we were with
than then when while both all also new more most ai api apache abstract accuracy adjacent affiliation agent agents agentic
algorithm amd analysis app apple arm arxiv attention author authors baseline batch benchmark benchmarks big blog boundary
brief cache card cards chain claim claims class cloud cloud-native code cold combination commit compression conference context
contradictions corpus cpu credibility cs csdn cst ctx cuda data database dataset date day days dec decode decoding dense
deployment disaggregation distributed draft e1 edge embedding engine era error evaluation eviction evidence ffn file files
flops flow fp16 fp8 bf16 int8 int4 fp4 gb gpu gpus github gguf graph greedy growth gt hbm hbm2e hbm3 hbm3e head high http
https hybrid id ids image index inference increment input instance internet io json jan feb mar apr may jun jul aug sep sept
oct nov january february march april june july august september october november december kernel kernels key knowledge kv
large latency learning ledger level library linear list llm llms local long-context long low main mb media medium memory mit
model models moe monday most multimodal native net net-new new-line nlp node normal note notes nova novel numbers nvlink
online open open-source operator optimal optimization overview owner paper paper_card papers parallel pcie pd pdf pending
performance pipeline placement points posts precision prefill pretraining preview priority production project prompt proxy
quality query queue radar rag ram ranking rdma read reading reasoning relation release repo repository report request requests
research result results review risk round rss runtime scheduling score search section see serving session shell single size
slo slos software source sources sparse spec speculative speed sql state status storage store stream streaming suggested
summary survey system systems table task tasks team test text time title tldr token tokens tool tools top topic total tpu
training transformer trace traces trend ttft tpot itl update url use user users v value vector verdict version video vllm-like
web weekly weights window window-based workload zero increments status sunday tuesday wednesday thursday friday saturday one
two three four five six seven eight nine ten what why how which who where here there these those however although because
since but if so mlsys icml iclr neurips nips acl emnlp naacl aaai ijcai cvpr iccv eccv kdd sigir vldb pvldb sigmod osdi nsdi
sosp eurosys asplos isca hpca sigcomm colm icassp icpp ispass micro interspeech cikm wsdm icde usenix ieee acm cncf it's we've
don't i'm key-value p50 p90 p95 p99 qps rps tps gqa mha mla mqa api's kv-cache prefill-decode utc gmt cet pst est am pm ok na
n/a tbd todo faq etc eg ie fig eq appendix figure sec
"""
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Name:
    """A name at text[start:end]; key is its comparable form."""

    text: str
    start: int
    end: int

    @property
    def key(self) -> str:
        return name_key(self.text)


def name_key(text: str) -> str:
    """Case, spaces, hyphens and a leading article dropped: `The Silent X` and `silent-x` are one name."""
    flat = re.sub(r"^(?:the|a)\s+", "", text.strip(), flags=re.IGNORECASE)
    return re.sub(r"[\s\-_.]+", "", flat).casefold()


def is_distinctive(word: str) -> bool:
    """A word that can only be a name: inner capitals, letters with digits, or an acronym of three letters or more."""
    if word.casefold() in _COMMON:
        return False
    body = word.lstrip("@")
    if len(body) > 64:
        return False  # no name; and the patterns below would crawl over it
    if _CATEGORY.fullmatch(body) or re.fullmatch(r"[A-Z]\d{1,2}", body):
        return False
    return bool(
        re.search(r"[a-z].*[A-Z]|[A-Z].*[A-Z].*[a-z]|[A-Z].*[a-z].*[A-Z]", body)
        or body.endswith(".cpp")
        or (re.search(r"\d", body) and re.search(r"[A-Za-z]{2}", body))
        or re.fullmatch(r"[A-Z][A-Z0-9-]{2,}", body)
    )


def names_in(text: str) -> list[Name]:
    """Names in text order; neighbouring capitalised words make one name (`Silent Hyperparameter`), slashes and commas separate.

    Links, paths and identifiers are no names. Words of the trade (GPU, Prefill, benchmark) are left out.
    """
    return list(_names(text))


@lru_cache(maxsize=8192)  # the same line is asked for by many rules
def _names(text: str) -> tuple[Name, ...]:
    taken = [(m.start, m.end) for m in find_links(text)] + [(m.start, m.end) for m in find_ids(text)]
    taken += [m.span() for m in _PATH.finditer(text) if _is_path(m[0])]
    out: list[Name] = []
    for m in _TOKEN.finditer(text):
        if any(m.start() < e and m.end() > s for s, e in taken):
            continue
        word = m[0]
        head = word.split()[0]
        if not (is_distinctive(word) or is_distinctive(head) or _capitalised(head)):
            continue
        plain = not is_distinctive(head) and not is_distinctive(word)
        if plain and head.casefold() in _COMMON:
            continue
        if out and text[out[-1].end : m.start()] == " " and (plain or _capitalised(out[-1].text.split()[-1])):
            out[-1] = Name(text[out[-1].start : m.end()], out[-1].start, m.end())
        else:
            out.append(Name(word, m.start(), m.end()))
    return tuple(out)


def _capitalised(word: str) -> bool:
    return bool(re.fullmatch(r"[A-Z][a-z]{2,}(?:-[A-Za-z]+)*", word))


def _is_path(text: str) -> bool:
    """`inbox/jay/x.md` is a path; `TokenA/TokenB` is a list of two names."""
    parts = text.split("/")
    return bool(re.search(r"\.(?:md|txt|json|jsonl|py|xml|html|pdf)$", text)) or (
        len(parts) > 1 and all(p == p.lower() for p in parts)
    )


_SENTENCE = re.compile(r"[。；;！？!?]|(?<=[a-z0-9)\]%\"'’”])\.\s+(?=[A-Z\"“(])|(?<=\s)-\s(?=\S)|\n")
_CLAUSE = re.compile(r"[。；;！？!?，,]|(?<=[a-z0-9)\]%])\.\s+(?=[A-Z])|(?<=\s)-\s(?=\S)|——|\s—\s|\n")


def _split(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for m in pattern.finditer(text):
        if m.start() > at:
            yield at, text[at : m.start()]
        at = m.end()
    if at < len(text):
        yield at, text[at:]


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """(offset, sentence); `；` and flattened ` - ` bullets end one too."""
    return _split(_SENTENCE, text)


def clauses(text: str) -> Iterator[tuple[int, str]]:
    """(offset, clause): sentences cut at commas and dashes as well."""
    return _split(_CLAUSE, text)
