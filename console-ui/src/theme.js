// Runs before the first paint: a person's own choice of light or dark, when there is one.
try {
  const chosen = localStorage.getItem("rootguard-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be closed to the page; the system's preference then holds.
}
