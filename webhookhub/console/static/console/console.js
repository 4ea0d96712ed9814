// Moments in the viewer's own time zone; pointed at, they say what they are in UTC.
"use strict";

(() => {
  // The hub reads times that are typed as it shows them: in this zone.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const told = () => document.cookie.split("; ").includes(`hub_zone=${zone}`);
  if (zone) {
    const knew = told();
    const secure = window.location.protocol === "https:" ? "; secure" : "";
    document.cookie = `hub_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
    // A page that was made before the hub was told is fetched anew, once: by then it knew. Where the browser keeps no
    // cookies it would never know; and what a form was answered with, or a message that is shown once, would be lost.
    if (!knew && told()) {
      document.addEventListener("DOMContentLoaded", () => {
        const made = document.querySelector('meta[name="hub-zone"]');
        if (made && made.content !== zone && "again" in made.dataset) window.location.reload();
      });
    }
  }

  const language = () => document.documentElement.lang || undefined;

  function showMoments(within) {
    // In parts, so that year, month and day stand in the same order for everybody.
    const format = new Intl.DateTimeFormat("en", {
      year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
      hourCycle: "h23", timeZoneName: "short",
    });
    const inOrder = (moment) => {
      const part = Object.fromEntries(format.formatToParts(moment).map(({ type, value }) => [type, value]));
      return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second} ${part.timeZoneName}`;
    };
    for (const element of within.querySelectorAll("time[datetime]:not([data-local])")) {
      const moment = new Date(element.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      element.title = element.textContent.trim();
      element.textContent = inOrder(moment);
      element.dataset.local = "";
    }
  }

  // Where an axis says when: the hour, or the day where a whole one has passed.
  function showAxes(within) {
    const hour = new Intl.DateTimeFormat(language(), { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const day = new Intl.DateTimeFormat(language(), { month: "2-digit", day: "2-digit", hour: "2-digit", hourCycle: "h23" });
    for (const svg of within.querySelectorAll("svg.hub-chart")) {
      const marks = [...svg.querySelectorAll("text[data-moment]")];
      const moments = marks.map((mark) => new Date(mark.dataset.moment));
      const long = moments.length > 1 && moments.at(-1) - moments[0] > 86_400_000;
      marks.forEach((mark, index) => { mark.textContent = (long ? day : hour).format(moments[index]); });
    }
  }

  // For what is fetched later on.
  window.hub = { show(within) { showMoments(within); showAxes(within); } };
  document.addEventListener("DOMContentLoaded", () => window.hub.show(document));
})();

// What the page shows the beginning of only.
async function wholeOf(address) {
  const answer = await fetch(address, { credentials: "same-origin", redirect: "error" });
  if (!answer.ok) throw new Error(`answered ${answer.status}`);
  return answer.text();
}

// Copies a text to the clipboard; where there is none (plain HTTP), chooses it, so that a key does the rest.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  const text = document.querySelector(button.dataset.copy)?.querySelector("pre");
  if (!text) return;
  const say = (words) => {
    button.dataset.says ??= button.textContent;
    button.textContent = words;
    setTimeout(() => { button.textContent = button.dataset.says; }, 2000);
  };
  try {
    await navigator.clipboard.writeText(button.dataset.whole ? await wholeOf(button.dataset.whole) : text.textContent);
    say(button.dataset.done);
  } catch {
    // A part that is taken for the whole would be worse than nothing.
    if (button.dataset.whole) say(button.dataset.failed);
    else window.getSelection().selectAllChildren(text);
  }
});

// What can be scrolled is called so by a script that knows English only; it has not run yet.
document.addEventListener("DOMContentLoaded", () => {
  const said = document.querySelector('meta[name="hub-scrollable"]');
  if (!said) return;
  for (const element of document.querySelectorAll("[data-simplebar]")) {
    element.setAttribute("data-simplebar-aria-label", said.content);
  }
});

// The look's own switches can be clicked only; whoever has no mouse gets at them too.
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
