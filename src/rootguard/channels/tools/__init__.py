"""What a tool's schema asks of the person, and the arguments that it gets.

The reading order: `fields` takes a JSON schema apart, `words` and `units` say what names and
descriptions can mean, `formulas` which calculation of the catalog a tool performs, `evidence` how
sure all that is; `understanding` decides, `pins` lets the owner decide, `filling` puts released
values in. A wrong guess would release the wrong value, so what is not sure is asked.
"""

from rootguard.channels.tools.evidence import ACT_ABOVE
from rootguard.channels.tools.filling import (
    Implied,
    described,
    fill,
    inspect_tools,
    plan_implied,
    value_of,
)
from rootguard.channels.tools.understanding import (
    Binding,
    Pin,
    Pins,
    Question,
    ToolMap,
    load_pins,
    parse_pins,
    understand,
)

__all__ = [
    "ACT_ABOVE",
    "Binding",
    "Implied",
    "Pin",
    "Pins",
    "Question",
    "ToolMap",
    "described",
    "fill",
    "inspect_tools",
    "load_pins",
    "parse_pins",
    "plan_implied",
    "understand",
    "value_of",
]
