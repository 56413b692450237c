"use strict";
// Elements by description; text only ever becomes text, never markup.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

(() => {
  const button = document.getElementById("theme");
  const choices = ["system", "light", "dark"];
  let choice = "system";
  const remember = (value) => {
    // A page opened from a file may have no storage; then the choice lasts as long as the page.
    try { return value ? localStorage.setItem("cef-theme", value) : localStorage.getItem("cef-theme"); } catch { return null; }
  };
  const apply = () => {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    button.textContent = "Theme: " + choice;
  };
  const kept = remember();
  if (choices.includes(kept)) choice = kept;
  button.addEventListener("click", () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    remember(choice);
    apply();
  });
  button.hidden = false;
  apply();
  // A link to a claim or figure opens what folds it away.
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
