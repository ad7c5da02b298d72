"""Somebody else's MCP server: an honest clinic with a tool for each of eight diagnoses.

Run it with `python examples/clinic_server.py --stdio` or `--http 127.0.0.1:8793`. It knows nothing
of RootGuard and computes with whatever numbers it is sent. It stores nothing.
"""

import argparse
import json
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

Figures = dict[str, float]
PATIENT = {"type": "string", "description": "Name of the patient, for the report."}


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """A tool: what it asks for, what it computes, and what the result is called."""

    description: str
    asks: dict[str, str]
    score: Callable[[Figures], float]
    classes: tuple[tuple[float, str], ...]
    """Upper limits and labels; the last label has no limit."""

    def label(self, score: float) -> str:
        """The class of a score."""
        if not math.isfinite(score):
            raise ValueError("no class")
        return next(label for limit, label in self.classes if score <= limit)


DIAGNOSES = {
    "fib4_score": Diagnosis(
        description="FIB-4 index of liver fibrosis.",
        asks={
            "age": "Age in years",
            "ast_u_l": "Aspartate aminotransferase (AST) in U/L",
            "alt_u_l": "Alanine aminotransferase (ALT) in U/L",
            "platelets": "Platelet count in 10^9/L",
        },
        score=lambda f: f["age"] * f["ast_u_l"] / (f["platelets"] * math.sqrt(f["alt_u_l"])),
        classes=((1.3, "low"), (2.67, "indeterminate"), (math.inf, "high")),
    ),
    "homa_ir": Diagnosis(
        description="Insulin resistance (HOMA-IR) from fasting values.",
        asks={
            "fasting_glucose": "Fasting plasma glucose in mg/dL",
            "fasting_insulin": "Fasting insulin in uU/mL",
        },
        score=lambda f: f["fasting_glucose"] * f["fasting_insulin"] / 405,
        classes=((1.0, "insulin sensitive"), (2.5, "normal"), (math.inf, "insulin resistant")),
    ),
    "nlr": Diagnosis(
        description="Neutrophil-to-lymphocyte ratio.",
        asks={
            "neutrophils": "Absolute neutrophil count in 10^9/L",
            "lymphocytes": "Absolute lymphocyte count in 10^9/L",
        },
        score=lambda f: f["neutrophils"] / f["lymphocytes"],
        classes=((3.0, "normal"), (math.inf, "inflammation or stress")),
    ),
    "tyg_index": Diagnosis(
        description="Triglyceride-glucose (TyG) index.",
        asks={
            "triglycerides_mg_dl": "Fasting triglycerides in mg/dL",
            "glucose_mg_dl": "Fasting glucose in mg/dL",
        },
        score=lambda f: math.log(f["triglycerides_mg_dl"] * f["glucose_mg_dl"] / 2),
        classes=((8.5, "normal"), (math.inf, "insulin resistant")),
    ),
    "atherogenic_index": Diagnosis(
        description="Atherogenic index of plasma (AIP).",
        asks={"triglycerides": "Triglycerides in mg/dL", "hdl": "HDL cholesterol in mg/dL"},
        score=lambda f: math.log10(f["triglycerides"] / f["hdl"]),
        classes=((0.11, "low"), (0.21, "intermediate"), (math.inf, "high")),
    ),
    "anemia_mchc": Diagnosis(
        description="Mean corpuscular hemoglobin concentration, to classify an anemia.",
        asks={"hemoglobin_g_dl": "Hemoglobin in g/dL", "hematocrit_percent": "Hematocrit in %"},
        score=lambda f: f["hemoglobin_g_dl"] / f["hematocrit_percent"] * 100,
        classes=((32.0, "hypochromic"), (36.0, "normochromic"), (math.inf, "hyperchromic")),
    ),
    "conicity_index": Diagnosis(
        description="Conicity index, a measure of central obesity.",
        asks={
            "weight_kg": "Body weight in kg",
            "height_cm": "Body height in cm",
            "waist_cm": "Waist circumference in cm",
        },
        score=lambda f: (
            f["waist_cm"] / 100 / (0.109 * math.sqrt(f["weight_kg"] / (f["height_cm"] / 100)))
        ),
        classes=((1.25, "normal"), (math.inf, "central obesity")),
    ),
    "pulse_pressure_index": Diagnosis(
        description="Pulse pressure index, a measure of vascular stiffness.",
        asks={
            "systolic": "Systolic blood pressure in mmHg",
            "diastolic": "Diastolic blood pressure in mmHg",
        },
        score=lambda f: (f["systolic"] - f["diastolic"]) / f["systolic"],
        classes=((0.6, "normal"), (math.inf, "high stiffness")),
    ),
}

RESULT = {
    "type": "object",
    "properties": {
        "report": {"type": "string"},
        "score": {"type": "number"},
        "class": {"type": "string"},
    },
    "required": ["report", "score", "class"],
}


def tool(name: str, diagnosis: Diagnosis) -> types.Tool:
    """The tool of a diagnosis, with a typed schema."""
    numbers = {ask: {"type": "number", "description": text} for ask, text in diagnosis.asks.items()}
    return types.Tool(
        name=name,
        description=diagnosis.description,
        input_schema={
            "type": "object",
            "properties": {**numbers, "patient": PATIENT},
            "required": list(numbers),
        },
        output_schema=RESULT,
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def diagnose(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """What a tool answers; numbers that make no sense are an error in the tool's words."""
    diagnosis = DIAGNOSES[name]
    try:
        figures = {ask: float(arguments[ask]) for ask in diagnosis.asks}
        score = diagnosis.score(figures)
        label = diagnosis.label(score)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        refusal = types.TextContent(type="text", text="these numbers cannot be used")
        return types.CallToolResult(content=[refusal], is_error=True)
    of = f" of {arguments['patient']}" if arguments.get("patient") else ""
    answer = {"report": f"{name}{of}: {score:.2f}, {label}", "score": score, "class": label}
    said = types.TextContent(type="text", text=json.dumps(answer))
    return types.CallToolResult(content=[said], structured_content=answer)


async def list_tools(_: object, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Every diagnosis."""
    return types.ListToolsResult(tools=[tool(*each) for each in DIAGNOSES.items()])


async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
    """One diagnosis."""
    if params.name not in DIAGNOSES:
        return types.CallToolResult(
            content=[types.TextContent(type="text", text="no such diagnosis")], is_error=True
        )
    return diagnose(params.name, params.arguments or {})


def build() -> Server[Any]:
    """The server, for any transport."""
    return Server("clinic", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def run_stdio(server: Server[Any]) -> None:
    """Serve on standard input and output."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description="An honest clinic, as an MCP server.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--stdio", action="store_true")
    where.add_argument("--http", metavar="HOST:PORT")
    chosen = parser.parse_args()
    if chosen.stdio:
        anyio.run(run_stdio, build())
    else:
        import uvicorn

        host, _, port = chosen.http.rpartition(":")
        listening = socket.create_server((host, int(port)))
        print(f"http://{host}:{listening.getsockname()[1]}/mcp", flush=True)
        app = build().streamable_http_app(stateless_http=True, json_response=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
