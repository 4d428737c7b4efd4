// Optional improvements: every page works without this file.
"use strict";

const UNLOCK_AFTER_MS = 10000;

// Prevents a second post while the first is pending. The button stays enabled, because a disabled button is not submitted.
const lock = (form) => {
  form.dataset.sent = "";
  setTimeout(() => unlock(form), UNLOCK_AFTER_MS);
};
const unlock = (form) => delete form.dataset.sent;

document.addEventListener("submit", (event) => {
  const form = event.target;
  if ("sent" in form.dataset) {
    event.preventDefault();
    return;
  }
  form.querySelectorAll("[data-revealed]").forEach(conceal);
  lock(form);
});

// Enter in a checkbox submits with the form's first button, which would be a decision by accident.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("form[data-choice] [type=checkbox]")) event.preventDefault();
});

// A page restored from the browser's memory contains an old request and an old CSRF token.
window.addEventListener("pageshow", (event) => {
  document.querySelectorAll("form[data-sent]").forEach(unlock);
  if (event.persisted && document.querySelector("form[data-fresh]")) location.reload();
});

// The language switcher loads the page anew. What was typed is kept for that moment, in this tab; a secret never is.
const TYPED = "typed";
const secret = ":is([type=hidden], [type=password], [type=file], [autocomplete*=password], [autocomplete=one-time-code])";
const fields = () => [...document.querySelectorAll(`main form :is(input:not(${secret}), textarea, select)`)];
const keep = () => {
  const values = fields().map(({ name, value, checked }) => [name, value, checked]);
  sessionStorage.setItem(TYPED, JSON.stringify([location.pathname, values]));
};
const restore = () => {
  const [path, values] = JSON.parse(sessionStorage.getItem(TYPED)) ?? [];
  sessionStorage.removeItem(TYPED);
  if (path !== location.pathname) return;
  fields().forEach((field, place) => {
    const [name, value, checked] = values[place] ?? [];
    if (name !== field.name) return;
    if (field.matches("[type=checkbox], [type=radio]")) field.checked = checked;
    else field.value = value;
  });
};
try {
  restore();
  document.querySelectorAll(".languages form").forEach((form) => form.addEventListener("submit", keep));
} catch {
  // The browser keeps nothing.
}

const reveal = (input, button) => {
  input.type = "text";
  input.dataset.revealed = "";
  button.textContent = button.dataset.hide;
  button.setAttribute("aria-label", button.dataset.hideLabel);
};
const conceal = (input) => {
  const button = document.querySelector(`[data-reveal="${input.id}"]`);
  input.type = "password";
  delete input.dataset.revealed;
  button.textContent = button.dataset.show;
  button.setAttribute("aria-label", button.dataset.showLabel);
};
document.querySelectorAll("[data-reveal]").forEach((button) => {
  const input = document.getElementById(button.dataset.reveal);
  button.hidden = false;
  button.addEventListener("click", () => ("revealed" in input.dataset ? conceal(input) : reveal(input, button)));
});

// A logo that can't be loaded is removed, so that the initial behind it is visible.
document.querySelectorAll(".logo img").forEach((logo) => {
  if (logo.complete && !logo.naturalWidth) logo.remove();
  else logo.addEventListener("error", () => logo.remove());
});

// A page has times in UTC, with that word. The title keeps them.
const { lang } = document.documentElement;
const locale = `${lang === "en" ? "en-GB" : lang}-u-nu-latn`;
const day = new Intl.DateTimeFormat(locale, { dateStyle: "long" });
const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const localize = (root) =>
  root.querySelectorAll("time").forEach((time) => {
    const comma = time.textContent.match(/[,،，] ?(?=\d\d:\d\d UTC)/);
    if (comma) time.textContent = day.format(new Date(time.dateTime)) + comma + clock.format(new Date(time.dateTime));
  });
localize(document);

const select = (element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
};
// The clipboard API exists on https and on localhost only.
const copy = async (element) => {
  select(element);
  if (!navigator.clipboard) return document.execCommand("copy");
  await navigator.clipboard.writeText(element.innerText.trim());
  return true;
};
document.querySelectorAll("[data-copy]").forEach((button) => {
  const label = button.textContent;
  const status = document.querySelector("[data-copy-status]");
  button.hidden = false;
  button.addEventListener("click", async () => {
    const copied = await copy(document.getElementById(button.dataset.copy)).catch(() => false);
    if (!copied) return;
    button.textContent = button.dataset.done;
    if (status) status.textContent = button.dataset.done;
    setTimeout(() => {
      button.textContent = label;
      if (status) status.textContent = "";
    }, 3000);
  });
});
