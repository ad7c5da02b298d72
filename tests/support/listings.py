"""A server's list of tools without a server: in place of the SDK's client."""

from types import TracebackType
from typing import Self

import anyio
import mcp_types as types

NUMBER = {"type": "number"}
WORD = {"type": "string"}


def tool(name: str, description: str, /, **properties: object) -> types.Tool:
    schema = {"type": "object", "properties": properties}
    return types.Tool(name=name, description=description, input_schema=schema)


class Listing:
    """In place of the SDK's client: gives its pages, or fails."""

    pages: tuple[list[types.Tool], ...] = ([],)
    fails: Exception | None = None
    hangs = False
    asked: list[str | None]
    server: object

    def __call__(self, server: object) -> "Listing":
        self.server, self.asked = server, []
        return self

    async def __aenter__(self) -> Self:
        if self.hangs:
            await anyio.sleep_forever()
        if self.fails is not None:
            raise self.fails
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    async def list_tools(self, *, cursor: str | None) -> types.ListToolsResult:
        self.asked.append(cursor)
        place = int(cursor or 0)
        more = str(place + 1) if place + 1 < len(self.pages) else None
        return types.ListToolsResult(tools=self.pages[place], next_cursor=more)
