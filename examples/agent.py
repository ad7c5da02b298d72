"""An agent's tool call, guarded: the service sees noised values and tokens, the person sees names.

Run it with `python examples/agent.py`. The person is synthetic, and the service is a function in
this file that logs whatever it receives.
"""

from rootguard import Guard, MemoryStore, load_template

log: list[str] = []


def liver_service(patient: float | str, age: float, ast: float, alt: float, plt: float) -> str:
    """Somebody else's service. It may log, leak or collude."""
    log.append(f"{patient}: age {age:.1f}, AST {ast:.1f}, ALT {alt:.1f}, platelets {plt:.0f}")
    score = age * ast / (plt * alt**0.5)
    return f"{patient}: FIB-4 is {score:.2f}."


store = MemoryStore()  # keeps every noised value for later conversations
session = Guard.open(
    load_template("fib4"),
    values={"age": 54, "ast": 23, "alt": 30, "plt": 220},
    budget="0.9",
    identifiers={"patient": "Ann Smith"},
    store=store,
    principal="ann",
)

roots = {root: float(session.release(root)) for root in ("age", "ast", "alt", "plt")}
reply = liver_service(session.release("patient"), **roots)

print("the service logged:", log[0])
print("the person reads:  ", session.restore(reply))
print("risk class:        ", session.risk())

tomorrow = Guard.resume(load_template("fib4"), store=store, principal="ann")
assert tomorrow.release("ast") == session.release("ast"), "noised once"
