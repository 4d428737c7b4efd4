// Saves values of the page as a file of NAME=value lines. The file is made here: nothing is sent.
"use strict";

document.querySelectorAll("[data-download]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", () => {
    const lines = button.dataset.values.split(" ").map((pair) => {
      const [name, id] = pair.split("=");
      return `${name}=${document.getElementById(id).innerText.trim()}\n`;
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "text/plain" }));
    link.download = button.dataset.download;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
});
