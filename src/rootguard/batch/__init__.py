"""Whole tables under the same rule: each person's roots noised once, the rest computed from them.

`tables` is the door for data frames and `files` the one for files larger than memory; both hand
Arrow record batches to one `kernel`. `streams` makes the noise: exact, cryptographic, and the same
again for the same row under the same key. `secrets` says where that key comes from and what a
store keeps of a run. `spark` runs the kernel in the tasks of a cluster. Nothing imports this
package but the command line.
"""

from rootguard.batch.restore import restore_ids
from rootguard.batch.spark import SparkReleased, sanitize_spark
from rootguard.batch.tables import Released, sanitize

__all__ = ["Released", "SparkReleased", "restore_ids", "sanitize", "sanitize_spark"]
