// Checks some rules of a new password while it is typed; the server checks all.
"use strict";

const SAY_AFTER_MS = 1000;
const WORD_MIN_LENGTH = 4;
const REST_MIN_LENGTH = 8;

const plain = (text) => text.normalize("NFKC").toLowerCase();
// The password without the names of service and person, and the address, as far as this page has them.
const withoutKnown = (password, service, form) => {
  const fields = form.querySelectorAll("[autocomplete~=username], [autocomplete=nickname]");
  const words = [service, ...Array.from(fields, (field) => field.value)]
    .flatMap((text) => [plain(text), ...plain(text).split(/[^\p{L}\p{N}]+/u)])
    .filter((word) => word.length >= WORD_MIN_LENGTH)
    .sort((a, b) => b.length - a.length);
  return words.reduce((rest, word) => rest.replaceAll(word, ""), password);
};

document.querySelectorAll("[data-rules]").forEach((list) => {
  const input = document.getElementById(list.dataset.rules);
  const status = list.nextElementSibling;
  const [length, known] = list.children;
  const count = document.createElement("span");
  length.append(count);
  let later;
  const check = () => {
    const password = plain(input.value);
    const rest = withoutKnown(password, list.dataset.known, input.form);
    const isKnown = rest !== password && rest.length < REST_MIN_LENGTH;
    const missing = list.dataset.minimum - Array.from(input.value).length;
    const text = missing > 0 ? list.dataset.missing.replace("{count}", missing) : list.dataset.long;
    length.classList.toggle("met", missing <= 0);
    known.classList.toggle("broken", isKnown);
    count.textContent = password && ` · ${text}`;
    clearTimeout(later);
    later = setTimeout(() => (status.textContent = password && (isKnown ? known.textContent : text)), SAY_AFTER_MS);
  };
  input.form.addEventListener("input", check);
  check();
});
