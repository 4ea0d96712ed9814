// Reloads the overview every ten seconds while it is visible.
"use strict";

(() => {
  const EVERY_MS = 10_000;
  const place = document.getElementById("overview");

  function stale() {
    const note = document.getElementById("overview-stale");
    if (note) note.textContent = place.dataset.stale;
  }

  async function refresh() {
    if (document.hidden) return;
    try {
      const response = await fetch(place.dataset.fragment, { credentials: "same-origin", redirect: "manual" });
      if (response.type === "opaqueredirect") return window.location.reload(); // logged out
      if (!response.ok) return stale();
      const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      place.innerHTML = await response.text();
      window.hub.show(place);
      if (focused) place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    } catch {
      stale();
    }
  }

  setInterval(refresh, EVERY_MS);
  document.addEventListener("visibilitychange", refresh);
})();
