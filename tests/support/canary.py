"""Values and names that can be told from everything else, and a search for traces of them.

The sentinels are numbers that no grid point, bound or formula of the template shows.
"""

import traceback
from pathlib import Path

import rootguard

SENTINELS = {"age": 47.318264951, "ast": 91.827364519, "alt": 63.719283746, "plt": 318.264951737}
DIGITS = ("47318264", "91827364", "63719283", "31826495")
NAME, NUMBER = "Zebulon Quackenbush", "9182-7364-5190"
WORDS = ("zebulon", "quackenbush", "918273645190")


def leaks(text: str) -> list[str]:
    """The sentinels whose digits or letters appear in a text, whatever stands between them."""
    digits = "".join(character for character in text if character.isdigit())
    letters = text.casefold()
    found = [sentinel for sentinel in DIGITS if sentinel in digits]
    return found + [word for word in WORDS if word in letters or word in digits]


def own_locals(error: BaseException) -> list[str]:
    """The local variables of RootGuard's own frames in an exception's traceback."""
    package = str(Path(rootguard.__file__).parent)
    return [
        f"{name}={value!r}"
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename.startswith(package)
        for name, value in frame.f_locals.items()
    ]


def everything(error: BaseException) -> str:
    """An exception with all it carries, local variables of RootGuard's own frames included."""
    parts = []
    chain: list[BaseException] = [error]
    while chain:
        current = chain.pop()
        parts += [repr(current), str(current), repr(vars(current)), repr(current.args)]
        parts += getattr(current, "__notes__", [])
        chain += [link for link in (current.__cause__, current.__context__) if link is not None]
        parts += own_locals(current)
    return "\n".join(parts)
