// Posts the answer to the application once. A page that the browser restores is loaded anew, and says what became of it.
"use strict";

addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
  else document.querySelector("[data-posting]").submit();
});
