// What every page of the console can do beyond HTML and htmx: copying, menus that apply at once, keys.
function announce(text) {
  const place = document.getElementById("live");
  if (place) place.textContent = text;
}

async function copy(button) {
  const source = button.dataset.copyFrom ? document.getElementById(button.dataset.copyFrom) : null;
  const text = source ? source.textContent : button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or over plain HTTP: select it, so that the user can copy it.
    if (source) getSelection().selectAllChildren(source);
    return;
  }
  const before = button.textContent;
  button.textContent = button.dataset.done;
  announce(button.dataset.done);
  setTimeout(() => { button.textContent = before; }, 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy], button[data-copy-from]");
  if (button) copy(button);
});

// Forms with `data-submit-on-change` have a button for browsers without scripts only.
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-submit-on-change]");
  if (form) form.requestSubmit();
});

// Without htmx a form with `data-confirm` would be sent at once; with it, too.
document.addEventListener("submit", (event) => {
  const text = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (text && !confirm(text)) event.preventDefault();
}, true);

function isTyping(element) {
  return element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !isTyping(event.target)) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "Escape" && event.target.matches?.("input[type=search]")) {
    event.target.blur();
  }
});

document.documentElement.dataset.scripts = "on";
for (const element of document.querySelectorAll("[data-without-scripts]")) element.hidden = true;
