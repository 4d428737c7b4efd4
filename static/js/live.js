// Fetches the page again and replaces its parts with the attribute data-live, unless something in a part is focused or
// opened. A screen reader reads only a new heading.
"use strict";

const EVERY_MILLISECONDS = 1000;
const until = Date.now() + 15 * 60 * 1000;
const address = new URL(location.href);
address.searchParams.set("live", ""); // without the parts of the page that take long
const live = (root) => [...root.querySelectorAll("[data-live]")];

const look = async () => {
  if (document.hidden) return true;
  const answer = await fetch(address, { credentials: "same-origin" });
  if (!answer.ok || answer.redirected) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  localize(fresh); // of page.js
  const before = document.querySelector("[data-live] h2").textContent;
  const parts = live(fresh);
  live(document).forEach((part, place) => {
    if (!part.contains(document.activeElement) && !part.querySelector("details[open]")) part.replaceWith(parts[place]);
  });
  const heading = document.querySelector("[data-live] h2").textContent;
  if (heading !== before) document.querySelector("[data-live-status]").textContent = heading.trim();
  return true;
};

const again = () =>
  setTimeout(async () => {
    if (Date.now() < until && (await look().catch(() => true))) again();
  }, EVERY_MILLISECONDS);
again();
