"""Operations of an OpenAPI document as tools, so that the same reader understands them.

Many MCP tools are bridged from such documents. An operation's parameters and the members of its
JSON body become the parameters of one tool, as bridges do it; `components` stay reachable, so that
references resolve. Nothing outside the document is fetched.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Final

from rootguard.errors import PolicyError
from rootguard.session.policy import read_file

MAX_BYTES: Final = 16 * 1024 * 1024
"""Of a document; the largest public ones have ten."""
_METHODS: Final = ("get", "put", "post", "delete", "patch")


def load_operations(path: str | os.PathLike[str]) -> list[dict[str, object]]:
    """The operations of a file; a mistake is reported with file and remedy."""
    file, raw = os.fspath(path), read_file(path, MAX_BYTES, "take a part of it")
    document = _parsed(file, raw)
    if not isinstance(document, Mapping) or not isinstance(document.get("paths"), Mapping):
        raise PolicyError(file, "paths", "there are none", "give an OpenAPI document")
    return list(operations(document))


def _parsed(file: str, raw: bytes) -> object:
    try:
        parsed: object = json.loads(raw)
    except (ValueError, RecursionError):
        raise PolicyError(file, "", "not JSON", "convert a YAML document to JSON first") from None
    return parsed


def operations(document: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Each operation as a tool: `name`, `description`, `inputSchema`."""
    for path, item in _mapping(document.get("paths")).items():
        shared = _mapping(item).get("parameters")
        for method in _METHODS:
            operation = _mapping(_mapping(item).get(method))
            if operation:
                yield _tool(document, f"{method.upper()} {path}", operation, shared)


def _tool(
    document: Mapping[str, object], called: str, operation: Mapping[str, object], shared: object
) -> dict[str, object]:
    properties: dict[str, object] = {}
    required: list[str] = []
    for entry in (*_listed(shared), *_listed(operation.get("parameters"))):
        parameter = _resolved(document, entry)
        name = parameter.get("name")
        if not isinstance(name, str) or parameter.get("in") in ("header", "cookie"):
            continue
        schema = dict(_mapping(parameter.get("schema")) or parameter)
        said = parameter.get("description")
        properties[name] = {**schema, **({"description": said} if said else {})}
        if parameter.get("required") is True:
            required.append(name)
    body = _body(document, operation)
    for name, node in _mapping(body.get("properties")).items():
        properties.setdefault(name, node)
    required += [str(name) for name in _listed(body.get("required"))]
    texts = [str(operation[key]) for key in ("summary", "description") if operation.get(key)]
    return {
        "name": str(operation.get("operationId") or called),
        "description": "\n".join(texts) or called,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "components": document.get("components", {}),
            "definitions": document.get("definitions", {}),
        },
    }


def _body(document: Mapping[str, object], operation: Mapping[str, object]) -> Mapping[str, object]:
    """The schema of an operation's JSON body, of version 3 or of version 2."""
    content = _mapping(_resolved(document, operation.get("requestBody")).get("content"))
    for kind, entry in content.items():
        if "json" in kind or "form" in kind:
            return _resolved(document, _mapping(entry).get("schema"))
    for entry in _listed(operation.get("parameters")):
        parameter = _resolved(document, entry)
        if parameter.get("in") == "body":
            return _resolved(document, parameter.get("schema"))
    return {}


def _resolved(document: Mapping[str, object], node: object) -> Mapping[str, object]:
    """What a node says, or what it refers to in the same document; once."""
    found = _mapping(node)
    reference = found.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return found
    target: object = document
    for part in reference[2:].split("/"):
        target = _mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
    return _mapping(target)


def _mapping(node: object) -> Mapping[str, object]:
    return node if isinstance(node, Mapping) else {}


def _listed(node: object) -> list[object]:
    return node if isinstance(node, list) else []
