// Fetches the page again and replaces its parts with the attribute data-live, unless something in a part is focused or
// opened. A screen reader reads only a new heading.
"use strict";

const live = () => [...document.querySelectorAll("[data-live]")];
const seconds = Number(live()[0].dataset.live);

const look = async () => {
  if (document.hidden) return true;
  const answer = await fetch(location.href, { credentials: "same-origin" });
  if (!answer.ok || answer.redirected) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const before = document.querySelector("h1").textContent;
  const parts = [...fresh.querySelectorAll("[data-live]")];
  live().forEach((part, place) => {
    if (!part.contains(document.activeElement) && !part.querySelector("details[open]")) part.replaceWith(parts[place]);
  });
  const heading = fresh.querySelector("h1").textContent;
  if (heading !== before) {
    document.querySelector("[data-live-status]").textContent = heading.trim();
    document.title = fresh.title;
  }
  return !fresh.querySelector("[data-over]");
};

const again = () =>
  setTimeout(async () => {
    if (await look().catch(() => true)) again();
  }, seconds * 1000);
again();
