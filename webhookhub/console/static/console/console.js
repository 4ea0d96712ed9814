// Shows times in the browser's time zone, with UTC as the tooltip.
"use strict";

(() => {
  // The hub reads times in forms in the zone of this cookie.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const isSet = () => document.cookie.split("; ").includes(`hub_zone=${zone}`);
  if (zone) {
    const wasSet = isSet();
    const secure = window.location.protocol === "https:" ? "; secure" : "";
    document.cookie = `hub_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
    // Reload once if the page was rendered in another zone. Not without cookies, which would reload forever, and not
    // after a form was submitted or a message was shown, which would be lost.
    if (!wasSet && isSet()) {
      document.addEventListener("DOMContentLoaded", () => {
        const rendered = document.querySelector('meta[name="hub-zone"]');
        if (rendered && rendered.content !== zone && "again" in rendered.dataset) window.location.reload();
      });
    }
  }

  const language = () => document.documentElement.lang || undefined;

  function showTimes(within) {
    // In parts, so that the order is year, month, day in all languages.
    const format = new Intl.DateTimeFormat("en", {
      year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
      hourCycle: "h23", timeZoneName: "short",
    });
    const text = (time) => {
      const part = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
      return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second} ${part.timeZoneName}`;
    };
    for (const element of within.querySelectorAll("time[datetime]:not([data-local])")) {
      const time = new Date(element.dateTime);
      if (Number.isNaN(time.getTime())) continue;
      element.title = element.textContent.trim();
      element.textContent = text(time);
      element.dataset.local = "";
    }
  }

  // The labels of a chart's axis: hours, or days and hours if it covers more than a day.
  function showAxes(within) {
    const hour = new Intl.DateTimeFormat(language(), { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const day = new Intl.DateTimeFormat(language(), { month: "2-digit", day: "2-digit", hour: "2-digit", hourCycle: "h23" });
    for (const svg of within.querySelectorAll("svg.hub-chart")) {
      const labels = [...svg.querySelectorAll("text[data-time]")];
      const times = labels.map((label) => new Date(label.dataset.time));
      const isLong = times.length > 1 && times.at(-1) - times[0] > 86_400_000;
      labels.forEach((label, index) => { label.textContent = (isLong ? day : hour).format(times[index]); });
    }
  }

  window.hub = { show(within) { showTimes(within); showAxes(within); } };
  document.addEventListener("DOMContentLoaded", () => window.hub.show(document));
})();

// Copy buttons. A text that the page cuts is fetched; without a clipboard (plain HTTP) the text is selected.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  const text = document.querySelector(button.dataset.copy)?.querySelector("pre");
  if (!text) return;
  const show = (label) => {
    button.dataset.label ??= button.textContent;
    button.textContent = label;
    setTimeout(() => { button.textContent = button.dataset.label; }, 2000);
  };
  const { whole, done, failed } = button.dataset;
  const download = async () => {
    const response = await fetch(whole, { credentials: "same-origin", redirect: "error" });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.text();
  };
  try {
    await navigator.clipboard.writeText(whole ? await download() : text.textContent);
    show(done);
  } catch {
    if (whole) show(failed);
    else window.getSelection().selectAllChildren(text);
  }
});

// Translates the label that simplebar gives to scrollable elements.
document.addEventListener("DOMContentLoaded", () => {
  const label = document.querySelector('meta[name="hub-scrollable"]');
  if (!label) return;
  for (const element of document.querySelectorAll("[data-simplebar]")) {
    element.setAttribute("data-simplebar-aria-label", label.content);
  }
});

// Makes django-unfold's clickable elements usable with the keyboard.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll("a:not([href]), span, div")) {
    if (!element.hasAttribute("x-on:click") || element.closest("button")) continue;
    if (!element.hasAttribute("tabindex")) element.tabIndex = 0;
    element.addEventListener("keydown", (event) => {
      if (event.target !== element || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      element.click();
    });
  }
});
