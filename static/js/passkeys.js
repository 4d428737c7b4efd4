// Passkeys: fills the hidden field of a form with the browser's answer. Without this file the forms stay hidden.
"use strict";

const SILENT = ["AbortError", "NotAllowedError"];
const form = document.querySelector("form[data-passkey]");
const canUsePasskeys = "PublicKeyCredential" in window && "parseRequestOptionsFromJSON" in PublicKeyCredential;
let pending = null;
let reading = Promise.resolve();

const fetchOptions = async () => {
  const response = await fetch(form.dataset.options, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error("no options");
  return (await response.json()).request_options.publicKey;
};

// One after the other: the session keeps the challenge of the last answer.
const readOptions = () => {
  const block = form.querySelector("script[type='application/json']");
  if (block) return JSON.parse(block.textContent).publicKey;
  return (reading = reading.then(fetchOptions, fetchOptions));
};

const create = async () => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(await readOptions());
  return navigator.credentials.create({ publicKey });
};

// Only one request may run: the one of the button ends the one that waits for the browser's list of accounts.
const get = async (mediation) => {
  pending?.abort();
  const controller = new AbortController();
  pending = controller;
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await readOptions());
  return navigator.credentials.get({ publicKey, mediation, signal: controller.signal });
};

const submit = (credential) => {
  form.elements.credential.value = JSON.stringify(credential.toJSON());
  form.submit();
};

const report = (error) => {
  const status = form.querySelector("[data-passkey-status]");
  status.textContent = error.name === "InvalidStateError" && status.dataset.known ? status.dataset.known : status.dataset.failed;
};

if (canUsePasskeys) document.querySelectorAll("[data-needs-passkey]").forEach((element) => { element.hidden = false; });

if (form && canUsePasskeys) {
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    try {
      submit(await (form.dataset.passkey === "create" ? create() : get("optional")));
    } catch (error) {
      report(error);
    }
  });
  const suggest = async () => {
    if (!("suggest" in form.dataset) || !(await PublicKeyCredential.isConditionalMediationAvailable?.())) return;
    try {
      submit(await get("conditional"));
    } catch (error) {
      if (!SILENT.includes(error.name)) throw error;
    }
  };
  suggest();
}
