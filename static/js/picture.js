// Shows the chosen picture in the circle before it is uploaded, and the sliders for the part that is shown.
// Without this file the server takes the middle.
"use strict";

const PREVIEW_PIXELS = 1024;

document.querySelectorAll("[data-picture]").forEach((box) => {
  const input = box.querySelector("[type=file]");
  const crop = box.querySelector("[data-crop-box]");
  const view = crop.querySelector("canvas");
  const status = box.querySelector("[role=status]");
  const [zoom, across, down] = ["zoom", "across", "down"].map((name) => crop.querySelector(`[data-crop="${name}"]`));
  let picture = null;

  // The same arithmetic as in accounts/pictures/reencoder.py.
  const draw = () => {
    const side = Math.min(picture.width, picture.height) / (zoom.value / 100);
    const room = [picture.width - side, picture.height - side];
    [across.disabled, down.disabled] = room.map((pixels) => pixels < 1);
    const [left, top] = [(room[0] * across.value) / 100, (room[1] * down.value) / 100];
    const context = view.getContext("2d");
    context.clearRect(0, 0, view.width, view.height);
    context.drawImage(picture, left, top, side, side, 0, 0, view.width, view.height);
  };

  // A smaller copy, upright: a photo of 50 megapixels would occupy 200 MB and be drawn slowly.
  const shrunk = async (file) => {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, PREVIEW_PIXELS / Math.min(bitmap.width, bitmap.height));
    const copy = document.createElement("canvas");
    copy.width = Math.max(1, Math.round(bitmap.width * scale));
    copy.height = Math.max(1, Math.round(bitmap.height * scale));
    copy.getContext("2d").drawImage(bitmap, 0, 0, copy.width, copy.height);
    bitmap.close();
    return copy;
  };

  const choose = async () => {
    const file = input.files[0];
    picture = null;
    crop.hidden = true;
    status.textContent = "";
    [zoom, across, down].forEach((slider) => (slider.value = slider.dataset.initial));
    if (!file) return;
    if (file.size > Number(box.dataset.maxBytes)) {
      status.textContent = box.dataset.tooLarge;
      return;
    }
    const copy = await shrunk(file).catch(() => null);
    if (file !== input.files[0]) return; // another one was chosen meanwhile
    if (!copy) {
      status.textContent = box.dataset.noPreview;
      return;
    }
    picture = copy;
    crop.hidden = false;
    draw();
  };

  input.addEventListener("change", choose);
  crop.addEventListener("input", () => picture && draw());
  // After a reload or Back, browsers may keep the chosen file.
  window.addEventListener("pageshow", choose);
});
