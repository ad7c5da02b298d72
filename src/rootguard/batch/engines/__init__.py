"""The kernel inside other engines: the tasks of a Spark cluster."""
