"""What OpenAI's requests look like: every field, and what happens to it.

Chat completions, responses, completions, embeddings and moderations, read off the request types of
the `openai` SDK 3.49, with the sampling fields that servers of open models take (vLLM 0.11). A
field that is not listed is unknown; tools that make the upstream call a third party with
credentials from the request (MCP servers) are refused. Token ids are refused where text belongs:
nobody can read them without the model's vocabulary.
"""

from typing import Final

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.gateway.shapes import (
    OutgoingRequest,
    Shape,
    blob,
    by_type,
    call_of,
    flag,
    from_tool,
    json_text,
    json_value,
    keyword,
    label,
    list_of,
    map_of,
    media,
    number,
    owner_text,
    record,
    schema,
    schema_text,
    sealed,
    spoken_by,
    tagged,
    text,
    tool_call,
    word,
)


def _bodies(fields: dict[str, Shape], asked: str) -> tuple[Shape, Shape]:
    """A body that names its model, and the same at Azure, where the path names it."""
    return record(fields, required=("model", asked)), record(fields, required=(asked,))


_BREAKPOINT: Final = record({"mode": keyword, "ttl": keyword})
_TYPE: Final[dict[str, Shape]] = {"type": keyword, "prompt_cache_breakpoint": _BREAKPOINT}

_TEXT_PART: Final = record({**_TYPE, "text": text}, required=("text",))
_OWNER_PART: Final = record({**_TYPE, "text": owner_text}, required=("text",))
_REFUSAL_PART: Final = record({"type": keyword, "refusal": text})
_CHAT_PARTS: Final[dict[str, Shape]] = {
    "text": _TEXT_PART,
    "refusal": _REFUSAL_PART,
    "image_url": media({**_TYPE, "image_url": record({"url": blob, "detail": keyword})}),
    "input_audio": media({**_TYPE, "input_audio": record({"data": blob, "format": keyword})}),
    "file": media(
        {**_TYPE, "file": record({"file_data": blob, "file_id": label, "filename": text})}
    ),
}
_CHAT_CONTENT: Final = by_type(string=text, array=list_of(tagged("type", _CHAT_PARTS)))
_OWNER_CONTENT: Final = by_type(
    string=owner_text, array=list_of(tagged("type", {**_CHAT_PARTS, "text": _OWNER_PART}))
)
_CALL: Final = call_of({})
_CHAT_CALL: Final = tagged(
    "type",
    {
        "function": record({"id": label, "type": keyword, "function": _CALL}),
        "custom": record(
            {"id": label, "type": keyword, "custom": record({"name": label, "input": text})}
        ),
    },
    default="function",
)
_SPOKEN: Final[dict[str, Shape]] = {"role": keyword, "content": _CHAT_CONTENT, "name": text}
_CHAT_MESSAGE: Final = tagged(
    "role",
    {
        "system": record(_SPOKEN),
        "developer": record(_SPOKEN),
        "user": record({**_SPOKEN, "content": _OWNER_CONTENT}),
        "assistant": spoken_by(
            "model",
            record(
                {
                    **_SPOKEN,
                    "refusal": text,
                    "reasoning": text,
                    "reasoning_content": text,
                    "annotations": json_value,
                    "audio": record({"id": label}),
                    "function_call": _CALL,
                    "tool_calls": list_of(tool_call(_CHAT_CALL, "id")),
                }
            ),
        ),
        "tool": from_tool(record({**_SPOKEN, "tool_call_id": label}), call="tool_call_id"),
        "function": from_tool(record({**_SPOKEN, "name": label}), name="name"),
    },
)

_FUNCTION: Final[dict[str, Shape]] = {
    "name": label,
    "description": text,
    "parameters": schema,
    "strict": flag,
}
_GRAMMAR: Final = record({"definition": text, "syntax": keyword})
_CHAT_TOOL: Final = tagged(
    "type",
    {
        "function": record({"type": keyword, "function": record(_FUNCTION)}),
        "custom": record(
            {
                "type": keyword,
                "custom": record(
                    {
                        "name": label,
                        "description": text,
                        "format": record({"type": keyword, "grammar": _GRAMMAR}),
                    }
                ),
            }
        ),
    },
)
_NAMED: Final = record({"name": label})
_ALLOWED: Final = list_of(
    record({"type": keyword, "name": label, "function": _NAMED, "custom": _NAMED})
)
_CHAT_CHOICE: Final = by_type(
    string=word("none", "auto", "required"),
    mapping=record(
        {
            "type": keyword,
            "function": _NAMED,
            "custom": _NAMED,
            "allowed_tools": record({"mode": keyword, "tools": _ALLOWED}),
        }
    ),
)
_FORMAT: Final[dict[str, Shape]] = {
    "type": keyword,
    "name": label,
    "description": text,
    "schema": schema,
    "strict": flag,
}

# What both APIs share.
_COMMON: Final[dict[str, Shape]] = {
    "metadata": json_value,
    "model": label,
    "moderation": record(
        {
            "model": label,
            "policy": record(
                {"input": record({"mode": keyword}), "output": record({"mode": keyword})}
            ),
        }
    ),
    "parallel_tool_calls": flag,
    "prompt_cache_key": text,
    "prompt_cache_options": record(
        {"mode": keyword, "ttl": keyword, "prewarm": flag, "comparison_response_id": label}
    ),
    "prompt_cache_retention": keyword,
    "safety_identifier": text,
    "service_tier": keyword,
    "store": flag,
    "stream": flag,
    "stream_options": record({"include_obfuscation": flag, "include_usage": flag}),
    "temperature": number,
    "top_logprobs": number,
    "top_p": number,
    "user": text,
}

# What vLLM and servers like it take beside OpenAI's fields. Numbers and switches cannot hold a
# person's words; constraints on the answer and what a chat template is filled with can.
_WORDS: Final = list_of(text)
_TOKEN_IDS: Final = list_of(number)
_SCHEMA: Final = by_type(string=schema_text, mapping=schema)
_SAMPLING: Final[dict[str, Shape]] = {
    "add_special_tokens": flag,
    "allowed_token_ids": _TOKEN_IDS,
    "bad_words": _WORDS,
    "best_of": number,
    "cache_salt": text,
    "echo": flag,
    "guided_choice": _WORDS,
    "guided_decoding_backend": keyword,
    "guided_grammar": text,
    "guided_json": _SCHEMA,
    "guided_regex": text,
    "guided_whitespace_pattern": text,
    "ignore_eos": flag,
    "include_stop_str_in_output": flag,
    "length_penalty": number,
    "min_p": number,
    "min_tokens": number,
    "priority": number,
    "prompt_logprobs": number,
    "repetition_penalty": number,
    "request_id": label,
    "return_token_ids": flag,
    "return_tokens_as_token_ids": flag,
    "skip_special_tokens": flag,
    "spaces_between_special_tokens": flag,
    "stop_token_ids": _TOKEN_IDS,
    "structured_outputs": record(
        {
            "choice": _WORDS,
            "disable_any_whitespace": flag,
            "disable_fallback": flag,
            "grammar": text,
            "json": _SCHEMA,
            "json_object": flag,
            "regex": text,
            "whitespace_pattern": text,
        }
    ),
    "top_k": number,
    "truncate_prompt_tokens": number,
    "use_beam_search": flag,
    "vllm_xargs": json_value,
}

_CHAT: Final[dict[str, Shape]] = {
    **_COMMON,
    **_SAMPLING,
    "add_generation_prompt": flag,
    "chat_template": text,
    "chat_template_kwargs": json_value,
    "continue_final_message": flag,
    "documents": json_value,
    "include_reasoning": flag,
    "audio": record({"format": keyword, "voice": by_type(string=label)}),
    "frequency_penalty": number,
    "function_call": by_type(string=word("none", "auto"), mapping=_NAMED),
    "functions": list_of(record(_FUNCTION)),
    "logit_bias": map_of(label, number),
    "logprobs": flag,
    "max_completion_tokens": number,
    "max_tokens": number,
    "messages": list_of(_CHAT_MESSAGE),
    "modalities": list_of(word("text", "audio")),
    "n": number,
    "prediction": record({"type": keyword, "content": _CHAT_CONTENT}),
    "presence_penalty": number,
    "reasoning_effort": keyword,
    "response_format": record({"type": keyword, "json_schema": record(_FORMAT)}),
    "seed": number,
    "stop": by_type(string=text, array=list_of(text)),
    "tool_choice": _CHAT_CHOICE,
    "tools": list_of(_CHAT_TOOL),
    "verbosity": keyword,
    "web_search_options": record({"search_context_size": keyword, "user_location": json_value}),
}
CHAT, DEPLOYED_CHAT = _bodies(_CHAT, "messages")
"""Of `POST /v1/chat/completions`."""


def _readable(out: OutgoingRequest, value: object) -> object:
    """A text; token ids, which a program may send in its place, have a refusal of their own."""
    if isinstance(value, (int, float, list)) and not isinstance(value, bool):
        raise RequestRefusedError("token_ids_refused")
    return text(out, value)


_TEXTS: Final = by_type(string=text, array=list_of(_readable))
"""One text or several. A prompt is put together by a program, so it teaches no value."""
_COMPLETIONS: Final[dict[str, Shape]] = {
    **_SAMPLING,
    "frequency_penalty": number,
    "logit_bias": map_of(label, number),
    "logprobs": number,
    "max_tokens": number,
    "model": label,
    "n": number,
    "presence_penalty": number,
    "prompt": _TEXTS,
    "response_format": record({"type": keyword, "json_schema": record(_FORMAT)}),
    "seed": number,
    "stop": by_type(string=text, array=_WORDS),
    "stream": flag,
    "stream_options": _COMMON["stream_options"],
    "suffix": text,
    "temperature": number,
    "top_p": number,
    "user": text,
}
COMPLETIONS, DEPLOYED_COMPLETIONS = _bodies(_COMPLETIONS, "prompt")
"""Of `POST /v1/completions`."""

_EMBEDDINGS: Final[dict[str, Shape]] = {
    "add_special_tokens": flag,
    "dimensions": number,
    "encoding_format": keyword,
    "input": _TEXTS,
    "input_type": keyword,
    "model": label,
    "priority": number,
    "truncate_prompt_tokens": number,
    "user": text,
}
EMBEDDINGS, DEPLOYED_EMBEDDINGS = _bodies(_EMBEDDINGS, "input")
"""Of `POST /v1/embeddings`."""

MODERATIONS: Final = record(
    {
        "input": by_type(
            string=text,
            array=list_of(
                by_type(
                    string=text,
                    mapping=tagged(
                        "type", {kind: _CHAT_PARTS[kind] for kind in ("text", "image_url")}
                    ),
                )
            ),
        ),
        "model": label,
    },
    required=("input",),
)
"""The body of `POST /v1/moderations`."""

_PARTS: Final[dict[str, Shape]] = {
    "input_text": _TEXT_PART,
    "output_text": record(
        {
            **_TYPE,
            "text": text,
            "annotations": json_value,
            "logprobs": json_value,
        }
    ),
    "summary_text": _TEXT_PART,
    "reasoning_text": _TEXT_PART,
    "text": _TEXT_PART,
    "refusal": _REFUSAL_PART,
    "input_image": media({**_TYPE, "detail": keyword, "file_id": label, "image_url": blob}),
    "input_file": media(
        {
            **_TYPE,
            "detail": keyword,
            "file_data": blob,
            "file_id": label,
            "file_url": blob,
            "filename": text,
        }
    ),
}
_INPUT_PARTS: Final = list_of(tagged("type", _PARTS))
_INPUT_CONTENT: Final = by_type(string=text, array=_INPUT_PARTS)
_OWNER_INPUT: Final = by_type(
    string=owner_text,
    array=list_of(tagged("type", {**_PARTS, "input_text": _OWNER_PART, "text": _OWNER_PART})),
)
_ITEM: Final[dict[str, Shape]] = {
    "id": label,
    "type": keyword,
    "status": keyword,
    "call_id": label,
    "name": label,
    "namespace": label,
    "async": flag,
    "caller": record({"type": keyword, "caller_id": label, "call_id": label}),
}
_SCREEN: Final = media({**_ITEM, "output": json_value, "acknowledged_safety_checks": json_value})

_MESSAGE: Final[dict[str, Shape]] = {
    "id": label,
    "type": keyword,
    "status": keyword,
    "role": keyword,
    "phase": keyword,
}
_ITEMS: Final[dict[str, Shape]] = {
    "message": tagged(
        "role",
        {
            "user": record({**_MESSAGE, "content": _OWNER_INPUT}),
            **dict.fromkeys(
                ("system", "developer"), record({**_MESSAGE, "content": _INPUT_CONTENT})
            ),
            "assistant": spoken_by("model", record({**_MESSAGE, "content": _INPUT_CONTENT})),
        },
    ),
    "function_call": tool_call(spoken_by("model", call_of(_ITEM)), "call_id"),
    "function_call_output": from_tool(
        record({**_ITEM, "output": by_type(string=json_text, array=_INPUT_PARTS)}), call="call_id"
    ),
    "custom_tool_call": tool_call(spoken_by("model", record({**_ITEM, "input": text})), "call_id"),
    "custom_tool_call_output": from_tool(
        record({**_ITEM, "output": _INPUT_CONTENT}), call="call_id"
    ),
    "reasoning": record(
        {**_ITEM, "summary": _INPUT_PARTS, "content": _INPUT_PARTS, "encrypted_content": sealed}
    ),
    "compaction": record({**_ITEM, "encrypted_content": sealed}),
    "compaction_trigger": record(_ITEM),
    "item_reference": record({"id": label, "type": keyword}, required=("id",)),
    "file_search_call": record({**_ITEM, "queries": list_of(text), "results": json_value}),
    "web_search_call": record({**_ITEM, "action": json_value}),
    "code_interpreter_call": record(
        {
            **_ITEM,
            "code": text,
            "container_id": label,
            "outputs": list_of(
                tagged(
                    "type",
                    {
                        "logs": record({"type": keyword, "logs": text}),
                        "image": media({"type": keyword, "url": blob}),
                    },
                )
            ),
        }
    ),
    "local_shell_call": record({**_ITEM, "action": json_value}),
    "local_shell_call_output": spoken_by("tool", record({**_ITEM, "output": json_text})),
    "shell_call": record({**_ITEM, "action": json_value, "environment": json_value}),
    "shell_call_output": spoken_by(
        "tool", record({**_ITEM, "output": json_value, "max_output_length": number})
    ),
    "apply_patch_call": record({**_ITEM, "operation": json_value}),
    "apply_patch_call_output": spoken_by("tool", record({**_ITEM, "output": text})),
    "tool_search_call": record({**_ITEM, "arguments": json_value, "execution": keyword}),
    "computer_call": record(
        {**_ITEM, "action": json_value, "actions": json_value, "pending_safety_checks": json_value}
    ),
    "computer_call_output": _SCREEN,
    "image_generation_call": media({**_ITEM, "result": blob, "revised_prompt": text}),
}

_CALLERS: Final = list_of(keyword)
_RESPONSE_FUNCTION: Final = record(
    {
        **_FUNCTION,
        "type": keyword,
        "async": flag,
        "allowed_callers": _CALLERS,
        "defer_loading": flag,
        "output_schema": schema,
    }
)
_RESPONSE_CUSTOM: Final = record(
    {
        "type": keyword,
        "name": label,
        "description": text,
        "format": record({"type": keyword, "definition": text, "syntax": keyword}),
        "async": flag,
        "allowed_callers": _CALLERS,
        "defer_loading": flag,
    }
)
_SEARCH: Final = record(
    {
        "type": keyword,
        "external_web_access": flag,
        "filters": json_value,
        "search_content_types": list_of(keyword),
        "search_context_size": keyword,
        "user_location": json_value,
    }
)
_BARE: Final = record({"type": keyword, "allowed_callers": _CALLERS})
_TOOLS: Final[dict[str, Shape]] = {
    "function": _RESPONSE_FUNCTION,
    "custom": _RESPONSE_CUSTOM,
    "namespace": record(
        {
            "type": keyword,
            "name": label,
            "description": text,
            "tools": list_of(
                tagged("type", {"function": _RESPONSE_FUNCTION, "custom": _RESPONSE_CUSTOM})
            ),
        }
    ),
    "web_search": _SEARCH,
    "web_search_2025_08_26": _SEARCH,
    "web_search_preview": _SEARCH,
    "web_search_preview_2025_03_11": _SEARCH,
    "file_search": record(
        {
            "type": keyword,
            "vector_store_ids": list_of(label),
            "filters": json_value,
            "max_num_results": number,
            "ranking_options": json_value,
        }
    ),
    "code_interpreter": record(
        {
            "type": keyword,
            "allowed_callers": _CALLERS,
            "container": by_type(
                string=label, mapping=record({"type": keyword, "memory_limit": keyword})
            ),
        }
    ),
    "tool_search": record(
        {"type": keyword, "description": text, "execution": keyword, "parameters": schema}
    ),
    "apply_patch": _BARE,
    "computer": _BARE,
    "local_shell": _BARE,
    "programmatic_tool_calling": _BARE,
    "shell": _BARE,
}

RESPONSES: Final = record(
    {
        **_COMMON,
        "background": flag,
        "context_management": list_of(record({"type": keyword, "compact_threshold": number})),
        "conversation": by_type(string=label, mapping=record({"id": label})),
        "include": list_of(keyword),
        "input": by_type(
            string=owner_text, array=list_of(tagged("type", _ITEMS, default="message"))
        ),
        "instructions": by_type(string=text),
        "max_output_tokens": number,
        "max_tool_calls": number,
        "previous_response_id": label,
        "prompt": record(
            {
                "id": label,
                "version": label,
                "variables": map_of(label, by_type(string=text, mapping=tagged("type", _PARTS))),
            }
        ),
        "reasoning": record(
            {
                "context": keyword,
                "effort": keyword,
                "generate_summary": keyword,
                "mode": keyword,
                "summary": keyword,
            }
        ),
        "text": record({"format": record(_FORMAT), "verbosity": keyword}),
        "tool_choice": by_type(
            string=word("none", "auto", "required"),
            mapping=record({"type": keyword, "name": label, "mode": keyword, "tools": _ALLOWED}),
        ),
        "tools": list_of(tagged("type", _TOOLS)),
        "truncation": word("auto", "disabled"),
    },
    required=("model",),
)
"""The body of `POST /v1/responses`."""
