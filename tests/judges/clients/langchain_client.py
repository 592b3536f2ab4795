"""langchain-openai: chat, streams, tools, structured output, embeddings."""

import asyncio
import sys
from importlib.metadata import version

from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, ConfigDict, Field

URL, MODEL = sys.argv[1], sys.argv[2]
ASK = [SystemMessage("Be brief."), HumanMessage("Say hello.")]
chat = ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key="none", temperature=0, max_tokens=300, max_retries=0, stream_usage=True)


class Point(BaseModel):
    """A point."""

    model_config = ConfigDict(extra="forbid")
    x: int = Field(ge=0, le=9)
    on: bool


@tool
def pick(n: bool) -> str:
    """Pick."""
    return str(n)


print(f"langchain-openai {version('langchain-openai')}")
short = chat.bind(max_tokens=20)
whole = short.invoke(ASK)
assert whole.usage_metadata["output_tokens"] > 0
print("invoke with usage")
total: AIMessageChunk | None = None
for piece in short.stream(ASK):
    total = piece if total is None else total + piece
assert total is not None and total.content == whole.content and total.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]
print("stream accumulates to the whole")
assert asyncio.run(short.ainvoke(ASK)).content == whole.content and [m.content for m in short.batch([ASK] * 4)] == [whole.content] * 4
print("ainvoke and batch")
for method in ("json_schema", "function_calling"):
    assert isinstance(chat.with_structured_output(Point, method=method).invoke(ASK), Point)
print("with_structured_output: json_schema and function_calling")
called = chat.bind_tools([pick], tool_choice="any").invoke(ASK)
call = called.tool_calls[0]
assert call["name"] == "pick" and isinstance(call["args"]["n"], bool)
short.bind_tools([pick]).invoke([*ASK, called, *(ToolMessage("done", tool_call_id=c["id"]) for c in called.tool_calls)])
print("bind_tools: a demanded call, and its result sent back")
vectors = OpenAIEmbeddings(model=MODEL, base_url=f"{URL}/v1", api_key="none", check_embedding_ctx_length=False).embed_documents(["a", "b"])
assert len(vectors) == 2 and len(vectors[0]) == len(vectors[1])
print("embed_documents")
