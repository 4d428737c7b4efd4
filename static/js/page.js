// Comforts only: every page works without this file.
"use strict";

const UNLOCK_AFTER_MS = 10000;

// A second click while the first is on its way would post twice. The button stays enabled: a disabled one would drop its value.
const lock = (form) => {
  form.dataset.sent = "";
  setTimeout(() => unlock(form), UNLOCK_AFTER_MS);
};
const unlock = (form) => delete form.dataset.sent;
const unlockAll = () => document.querySelectorAll("form[data-sent]").forEach(unlock);

document.addEventListener("submit", (event) => {
  const form = event.target;
  if ("sent" in form.dataset) {
    event.preventDefault();
    return;
  }
  form.querySelectorAll("[data-revealed]").forEach(conceal);
  lock(form);
});

// Enter in a tick box presses a form's first button; nobody should decide by accident.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("form[data-choice] [type=checkbox]")) event.preventDefault();
});

// A page that browsers keep in memory holds an old request and an old token.
window.addEventListener("pageshow", (event) => {
  unlockAll();
  if (event.persisted && document.querySelector("form[data-fresh]")) location.reload();
});

// Browsers that stop the way back to the application say nothing to the person.
document.addEventListener("securitypolicyviolation", (event) => {
  if (event.effectiveDirective !== "form-action") return;
  unlockAll();
  document.querySelectorAll("[data-blocked]").forEach((notice) => {
    notice.hidden = false;
    notice.scrollIntoView({ block: "nearest" });
  });
});

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

// A logo that can't be loaded gives way to the initial below it.
document.querySelectorAll(".logo img").forEach((logo) => {
  if (logo.complete && !logo.naturalWidth) logo.remove();
  else logo.addEventListener("error", () => logo.remove());
});

const select = (element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
};
// The clipboard interface exists on https and on localhost only; elsewhere the old command copies the selection.
const copy = async (element) => {
  select(element);
  if (!navigator.clipboard) return document.execCommand("copy");
  await navigator.clipboard.writeText(element.textContent.trim());
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
