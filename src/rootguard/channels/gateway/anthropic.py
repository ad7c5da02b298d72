"""What Anthropic's messages look like: every field, and what happens to it.

Read off the request types of the `anthropic` SDK 2.8. A field, a block or a tool that is not listed
is refused.
"""

from typing import Final

from rootguard.channels.gateway.shapes import (
    Shape,
    blob,
    by_type,
    call_of,
    flag,
    from_tool,
    json_value,
    keyword,
    label,
    list_of,
    media,
    number,
    owner_text,
    record,
    schema,
    sealed,
    spoken_by,
    tagged,
    text,
    tool_call,
)

_CACHE: Final = record({"type": keyword, "ttl": keyword})
_BLOCK: Final[dict[str, Shape]] = {"type": keyword, "cache_control": _CACHE}
_CITATION: Final = record(
    {
        "type": keyword,
        "cited_text": text,
        "document_index": number,
        "document_title": text,
        "encrypted_index": sealed,
        "end_block_index": number,
        "end_char_index": number,
        "end_page_number": number,
        "file_id": label,
        "search_result_index": number,
        "source": text,
        "start_block_index": number,
        "start_char_index": number,
        "start_page_number": number,
        "title": text,
        "url": text,
    }
)
_TEXT_FIELDS: Final[dict[str, Shape]] = {**_BLOCK, "citations": list_of(_CITATION)}
_TEXT: Final = record({**_TEXT_FIELDS, "text": text}, required=("text",))
_OWNER_TEXT: Final = record({**_TEXT_FIELDS, "text": owner_text}, required=("text",))
_IMAGE: Final = media(
    {
        **_BLOCK,
        "source": record(
            {"type": keyword, "data": blob, "media_type": label, "url": blob, "file_id": label}
        ),
        "transformations": record({"oversized_image": keyword}),
    }
)
_DOCUMENT_FIELDS: Final[dict[str, Shape]] = {
    **_BLOCK,
    "citations": record({"enabled": flag}),
    "context": text,
    "title": text,
}
_PLAIN_SOURCE: Final[dict[str, Shape]] = {
    "text": record({"type": keyword, "media_type": label, "data": text}),
    "content": record(
        {
            "type": keyword,
            "content": by_type(
                string=text, array=list_of(tagged("type", {"text": _TEXT, "image": _IMAGE}))
            ),
        }
    ),
}
# Content that cannot be read here; without `--allow-media` it is refused.
_FILE: Final = media(
    {"type": keyword, "data": blob, "media_type": label, "url": blob, "file_id": label}
)
_DOCUMENT: Final = record(
    {
        **_DOCUMENT_FIELDS,
        "source": tagged("type", {**_PLAIN_SOURCE, "base64": _FILE, "url": _FILE, "file": _FILE}),
    },
    required=("source",),
)
_SEARCH_RESULT: Final = record(
    {
        **_BLOCK,
        "content": list_of(tagged("type", {"text": _TEXT})),
        "source": text,
        "title": text,
        "citations": record({"enabled": flag}),
    }
)
_REFERENCE: Final = record({**_BLOCK, "tool_name": label})
_CALLER: Final = record({"type": keyword, "tool_id": label})
_USE: Final = call_of(
    {**_BLOCK, "id": label, "caller": _CALLER, "toolset_name": label}, parsed=True
)
_RESULT: Final[dict[str, Shape]] = {
    **_BLOCK,
    "tool_use_id": label,
    "caller": _CALLER,
    "is_error": flag,
    "toolset_name": label,
}
_RAN: Final = record(
    {
        "type": keyword,
        "content": list_of(record({"type": keyword, "file_id": label})),
        "encrypted_stdout": sealed,
        "error_code": keyword,
        "return_code": number,
        "stderr": text,
        "stdout": text,
    }
)
_EDITED: Final = record(
    {
        "type": keyword,
        "content": text,
        "error_code": keyword,
        "error_message": text,
        "file_type": keyword,
        "is_file_update": flag,
        "lines": list_of(text),
        "new_lines": number,
        "new_start": number,
        "num_lines": number,
        "old_lines": number,
        "old_start": number,
        "start_line": number,
        "total_lines": number,
    }
)
_FAILED: Final = record({"type": keyword, "error_code": keyword, "error_message": text})
_HIT: Final = record(
    {"type": keyword, "encrypted_content": sealed, "title": text, "url": text, "page_age": text}
)

_BLOCKS: Final[dict[str, Shape]] = {
    "text": _TEXT,
    "image": _IMAGE,
    "document": _DOCUMENT,
    "search_result": _SEARCH_RESULT,
    "thinking": record({"type": keyword, "thinking": text, "signature": sealed}),
    "redacted_thinking": record({"type": keyword, "data": sealed}),
    "tool_use": tool_call(_USE, "id"),
    "server_tool_use": _USE,
    "tool_result": from_tool(
        record(
            {
                **_RESULT,
                "content": by_type(
                    string=text,
                    array=list_of(
                        tagged(
                            "type",
                            {
                                "text": _TEXT,
                                "image": _IMAGE,
                                "document": _DOCUMENT,
                                "search_result": _SEARCH_RESULT,
                                "tool_reference": _REFERENCE,
                            },
                        )
                    ),
                ),
            }
        ),
        call="tool_use_id",
    ),
    "web_search_tool_result": record(
        {**_RESULT, "content": by_type(array=list_of(_HIT), mapping=_FAILED)}
    ),
    "web_fetch_tool_result": record(
        {
            **_RESULT,
            "content": tagged(
                "type",
                {
                    "web_fetch_tool_result_error": _FAILED,
                    "web_fetch_result": record(
                        {"type": keyword, "content": _DOCUMENT, "url": text, "retrieved_at": text}
                    ),
                },
            ),
        }
    ),
    "code_execution_tool_result": record({**_RESULT, "content": _RAN}),
    "bash_code_execution_tool_result": record({**_RESULT, "content": _RAN}),
    "text_editor_code_execution_tool_result": record({**_RESULT, "content": _EDITED}),
    "tool_search_tool_result": record(
        {
            **_RESULT,
            "content": record(
                {
                    "type": keyword,
                    "error_code": keyword,
                    "error_message": text,
                    "tool_references": list_of(_REFERENCE),
                }
            ),
        }
    ),
    "container_upload": media({**_BLOCK, "file_id": label}),
}

_TOOL: Final[dict[str, Shape]] = {
    **_BLOCK,
    "name": label,
    "allowed_callers": list_of(keyword),
    "defer_loading": flag,
    "strict": flag,
}
_OWN_TOOL: Final = record(
    {
        **_TOOL,
        "description": text,
        "eager_input_streaming": flag,
        "input_examples": json_value,
        "input_schema": schema,
    }
)
_SERVER_TOOL: Final = record(
    {
        **_TOOL,
        "allowed_domains": list_of(text),
        "blocked_domains": list_of(text),
        "citations": record({"enabled": flag}),
        "input_examples": json_value,
        "max_characters": number,
        "max_content_tokens": number,
        "max_uses": number,
        "response_inclusion": keyword,
        "use_cache": flag,
        "user_location": json_value,
    }
)
# Read off the SDK anthropic 2.8. A later version of a tool may take fields that nobody has looked
# at here, so it is refused until it is added.
_SERVER_TOOLS: Final = (
    "bash_20250124",
    "code_execution_20250522",
    "code_execution_20250825",
    "code_execution_20260120",
    "code_execution_20260521",
    "memory_20250818",
    "text_editor_20250124",
    "text_editor_20250429",
    "text_editor_20250728",
    "tool_search_tool_bm25",
    "tool_search_tool_bm25_20251119",
    "tool_search_tool_regex",
    "tool_search_tool_regex_20251119",
    "web_fetch_20250910",
    "web_fetch_20260209",
    "web_fetch_20260309",
    "web_fetch_20260318",
    "web_search_20250305",
    "web_search_20260209",
    "web_search_20260318",
)

_CONTENT: Final = by_type(string=text, array=list_of(tagged("type", _BLOCKS)))
# Of what a user's message holds, the texts are the owner's; a document may be anybody's.
_OWNER_CONTENT: Final = by_type(
    string=owner_text, array=list_of(tagged("type", {**_BLOCKS, "text": _OWNER_TEXT}))
)
_PLAIN: Final = by_type(string=text, array=list_of(tagged("type", {"text": _TEXT})))

_COUNTED: Final[dict[str, Shape]] = {
    "cache_control": _CACHE,
    "messages": list_of(
        tagged(
            "role",
            {
                role: record({"role": keyword, "content": content}, required=("content",))
                for role, content in (
                    ("user", _OWNER_CONTENT),
                    ("assistant", spoken_by("model", _CONTENT)),
                    ("system", _CONTENT),
                )
            },
        )
    ),
    "model": label,
    "output_config": record(
        {"effort": keyword, "format": record({"type": keyword, "schema": schema})}
    ),
    "speed": keyword,
    "system": _PLAIN,
    "thinking": record({"type": keyword, "budget_tokens": number, "display": keyword}),
    "tool_choice": record({"type": keyword, "name": label, "disable_parallel_tool_use": flag}),
    "tools": list_of(
        tagged(
            "type",
            {"custom": _OWN_TOOL, **dict.fromkeys(_SERVER_TOOLS, _SERVER_TOOL)},
            default="custom",
        )
    ),
}
COUNT_TOKENS: Final = record(_COUNTED, required=("model", "messages"))
"""The body of `POST /v1/messages/count_tokens`: a message's, so that what is sent is counted."""

MESSAGES: Final = record(
    {
        **_COUNTED,
        "container": by_type(string=label, mapping=record({"id": label})),
        "diagnostics": record({"previous_message_id": label}),
        "inference_geo": label,
        "max_tokens": number,
        "metadata": record({"user_id": text}),
        "service_tier": keyword,
        "stop_sequences": list_of(text),
        "stream": flag,
        "temperature": number,
        "top_k": number,
        "top_p": number,
    },
    required=("model", "messages"),
)
"""The body of `POST /v1/messages`."""
