// Live events of a conversation: new items, text as it is written, and the parts beside it.
const place = document.getElementById("conversation");
const items = document.getElementById("items");
const partial = document.getElementById("partial");
const partialText = document.getElementById("partial-text");
let last = place.dataset.after;
let source = null;
let pause = 500;

function isAtEnd() {
  return innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
}

// Keeps the end in view while the reader is there.
function change(work) {
  const follow = isAtEnd();
  work();
  if (follow) scrollTo({ top: document.documentElement.scrollHeight });
}

function build(html) {
  const template = document.createElement("template");
  template.innerHTML = html.trim();
  return template.content.firstElementChild;
}

function clearText() {
  partialText.textContent = "";
  partial.hidden = true;
}

const actions = {
  item({ id, html }) {
    const element = build(html);
    const old = document.getElementById(id);
    if (old?.open) element.open = true;
    if (old) old.replaceWith(element); else items.append(element);
  },
  remove({ id }) { document.getElementById(id)?.remove(); },
  text({ text }) { partial.hidden = false; partialText.append(text); },
  clear: clearText,
  part({ id, html }) {
    const element = document.getElementById(id);
    if (!element) return;
    element.innerHTML = html;
    // Forms and buttons in it belong to htmx.
    window.htmx?.process(element);
    if (id === "conversation-approvals" && html.trim()) document.getElementById("live").textContent = element.querySelector("h2, [role=status]")?.textContent ?? "";
  },
  reload() { location.reload(); },
};

function connect() {
  const address = new URL(place.dataset.live, location.href);
  address.searchParams.set("after", last);
  source = new EventSource(address);
  source.addEventListener("open", () => { pause = 500; document.getElementById("lost")?.remove(); });
  for (const [name, action] of Object.entries(actions)) {
    source.addEventListener(name, (event) => change(() => action(JSON.parse(event.data))));
  }
  source.addEventListener("position", (event) => { last = event.lastEventId; });
  source.addEventListener("error", () => {
    // By ourselves, because a browser gives up after an answer such as 503 of a host that is starting.
    source.close();
    showLost();
    setTimeout(connect, pause);
    pause = Math.min(pause * 2, 10_000);
  });
}

function showLost() {
  if (document.getElementById("lost")) return;
  const note = document.createElement("div");
  note.id = "lost";
  note.className = "notice warn";
  note.setAttribute("role", "status");
  note.textContent = place.dataset.lost;
  document.getElementById("notice").append(note);
}

const form = document.getElementById("composer");
form?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
});
document.addEventListener("htmx:after:request", (event) => {
  const sent = event.detail?.ctx?.sourceElement;
  if (sent === form && event.detail.ctx.response?.status === 204) {
    const model = form.elements.model.value;
    form.reset();
    form.elements.model.value = model;
    document.getElementById("notice").textContent = "";
    document.getElementById("end").scrollIntoView();
  }
});

if (location.hash === "#end" || items.children.length > 4) document.getElementById("end").scrollIntoView();
connect();
addEventListener("pagehide", () => source?.close());
