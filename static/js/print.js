// Buttons that print the page. Without this file they stay hidden.
"use strict";

document.querySelectorAll("[data-print]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
});
