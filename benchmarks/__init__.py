"""Speed as ratios to named alternatives, measured side by side: `python -m benchmarks`.

Not tests: nothing here fails because a machine is slow. A ratio below its aim is printed as such.
"""
