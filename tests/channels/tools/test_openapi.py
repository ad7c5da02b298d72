"""Operations of an OpenAPI document are read as tools, by the same reader."""

import json
from pathlib import Path

import pytest

from rootguard.channels.tools import understand
from rootguard.channels.tools.openapi import load_operations
from rootguard.errors import PolicyError
from tests.support.schemas import IDENTIFIERS, ROOTS, TEMPLATES

DOCUMENT = {
    "openapi": "3.1.0",
    "paths": {
        "/patients/{mrn}/fib4": {
            "parameters": [{"name": "mrn", "in": "path", "required": True}],
            "post": {
                "operationId": "fib4",
                "summary": "FIB-4 of the patient",
                "parameters": [
                    {"$ref": "#/components/parameters/Age"},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                ],
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Labs"}}
                    }
                },
            },
        },
        "/health": {"get": {"summary": "Whether the service runs"}},
    },
    "components": {
        "parameters": {
            "Age": {
                "name": "age",
                "in": "query",
                "required": True,
                "description": "Age in years",
                "schema": {"type": "integer"},
            }
        },
        "schemas": {
            "Labs": {
                "type": "object",
                "required": ["ast"],
                "properties": {
                    "ast": {"type": "number", "description": "AST in U/L"},
                    "platelets": {"$ref": "#/components/schemas/Count"},
                },
            },
            "Count": {"type": "number", "description": "Platelet count in ×10³/µL"},
        },
    },
}


def saved(folder: Path, content: object) -> Path:
    file = folder / "api.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def test_parameters_and_body_are_the_parameters_of_one_tool(tmp_path: Path) -> None:
    fib4, health = load_operations(saved(tmp_path, DOCUMENT))
    assert (fib4["name"], health["name"]) == ("fib4", "GET /health")
    schema = fib4["inputSchema"]
    assert isinstance(schema, dict)
    assert list(schema["properties"]) == ["mrn", "age", "ast", "platelets"]
    assert schema["required"] == ["mrn", "age", "ast"]
    made = understand(
        "fib4", str(fib4["description"]), schema, ROOTS, TEMPLATES, identifiers=IDENTIFIERS
    )
    bound = {b.parameter[0]: (b.name, b.unit or b.own) for b in made.bindings}
    assert bound["age"] == ("age", "years")
    assert bound["ast"] == ("ast", "U/L")
    assert bound["platelets"] == ("plt", "10^9/L")


def test_version_two_documents_have_their_body_among_the_parameters(tmp_path: Path) -> None:
    body = {"in": "body", "name": "body", "schema": {"$ref": "#/definitions/Labs"}}
    document = {
        "swagger": "2.0",
        "paths": {"/x": {"post": {"parameters": [body]}}},
        "definitions": {"Labs": {"type": "object", "properties": {"ast": {"type": "number"}}}},
    }
    (found,) = load_operations(saved(tmp_path, document))
    schema = found["inputSchema"]
    assert isinstance(schema, dict)
    assert "ast" in schema["properties"]


@pytest.mark.parametrize("content", [[], {}, {"paths": []}, "x"])
def test_what_is_no_document_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(PolicyError, match="OpenAPI"):
        load_operations(saved(tmp_path, content))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="check the path"):
        load_operations(tmp_path / "none.json")
