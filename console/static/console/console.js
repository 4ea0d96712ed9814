// Moments in the viewer's own time zone; pointed at, they say what they are in UTC.
"use strict";

(() => {
  const language = () => document.documentElement.lang || undefined;

  function showMoments(within) {
    const shown = new Intl.DateTimeFormat(language(), {
      year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
      hourCycle: "h23", timeZoneName: "short",
    });
    for (const element of within.querySelectorAll("time[datetime]:not([data-local])")) {
      const moment = new Date(element.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      element.title = element.textContent.trim();
      element.textContent = shown.format(moment);
      element.dataset.local = "";
    }
  }

  // For what is fetched later on.
  window.hub = { showMoments };
  document.addEventListener("DOMContentLoaded", () => showMoments(document));
})();
