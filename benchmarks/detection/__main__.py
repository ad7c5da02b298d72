"""`python -m benchmarks.detection`: how well the rules find identifiers in the labelled texts."""

from benchmarks.detection import measure, table
from rootguard.channels.detection import Rules
from rootguard.evaluation.study.tables import to_markdown

print(to_markdown(table(measure(Rules()), "Rules")))
