// The page of a run: its events as they come, its terminal, its input, and the rest of the page when it has ended.
import { AnsiLog, toVisible } from "./ansi.js";

const log = document.getElementById("log");
const status = document.getElementById("log-status");
const terminal = document.getElementById("terminal");
const KEYS = {
  Enter: "\r", Backspace: "\x7f", Escape: "\x1b", ArrowUp: "\x1b[A", ArrowDown: "\x1b[B", ArrowRight: "\x1b[C",
  ArrowLeft: "\x1b[D", Home: "\x1b[H", End: "\x1b[F", Delete: "\x1b[3~", PageUp: "\x1b[5~", PageDown: "\x1b[6~",
};

if (log) followEvents();
if (terminal && !document.getElementById("terminal-view").hidden) followScreen();
document.getElementById("input-form")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("input-text");
  send(event.target.dataset.input, { text: `${field.value}\n` });
  field.value = "";
});
document.getElementById("input-close")?.addEventListener("click", (event) => {
  send(event.target.form.dataset.input, { text: "", close: true });
});

function followEvents() {
  const shown = new AnsiLog(log);
  const waiting = [];
  let scheduled = false;
  let ended = false;
  log.dataset.lines = "0";

  // Many events are drawn together, once for each frame, and at most for some milliseconds.
  function draw() {
    scheduled = false;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    const until = performance.now() + 12;
    while (waiting.length > 0 && performance.now() < until) drawEvent(waiting.shift());
    log.dataset.lines = String(shown.lines);
    showCount();
    if (atEnd) log.scrollTop = log.scrollHeight;
    if (waiting.length > 0) schedule();
    else if (ended) finish(shown);
  }

  function showCount() {
    status.textContent = status.dataset[shown.lines === 1 ? "line" : "lines"].replace("{n}", shown.lines.toLocaleString());
  }

  function schedule() {
    if (scheduled) return;
    scheduled = true;
    // A page in the background gets no frames.
    if (document.hidden) setTimeout(draw, 100);
    else requestAnimationFrame(draw);
  }

  function drawEvent([kind, data]) {
    if (kind === "stdout" || kind === "stderr") {
      const text = typeof data.text === "string" ? data.text : JSON.stringify(data);
      // A long piece is drawn in parts, so that no frame takes long.
      if (text.length > 8192) {
        const cut = text.lastIndexOf("\n", 8192) + 1 || 8192;
        waiting.unshift([kind, { ...data, text: text.slice(0, cut), raw: true }], [kind, { ...data, text: text.slice(cut) }]);
        return;
      }
      shown.write(data.raw ? text : `${text}\n`, kind === "stderr" ? "err" : "");
    } else if (kind === "progress" || kind === "artifact") {
      const said = data.message ?? data.path ?? JSON.stringify(data);
      const total = typeof data.total === "number" ? ` ${data.done ?? 0}/${data.total}` : "";
      shown.write(`${kind}: ${said}${total}\n`, "note");
    } else if (kind === "cut") {
      shown.write(`[${log.dataset.cut}: ${data.reason ?? ""}]\n`, "note");
    } else if (kind === "start") {
      refresh();
    }
  }

  function finish(written) {
    ended = false;
    if (written.lines === 0) {
      const empty = document.createElement("span");
      empty.className = "note";
      empty.append(log.dataset.empty);
      log.append(empty);
    }
    log.dataset.ended = "true";
    refresh();
  }

  // The browser reconnects by itself, with the id of the last event.
  const source = new EventSource(log.dataset.events);
  for (const kind of ["start", "stdout", "stderr", "progress", "artifact", "cut"]) {
    source.addEventListener(kind, (event) => {
      waiting.push([kind, JSON.parse(event.data)]);
      document.dispatchEvent(new Event("run-output"));
      schedule();
    });
  }
  source.addEventListener("result", () => {
    source.close();
    ended = true;
    document.dispatchEvent(new Event("run-output"));
    schedule();
  });
  source.addEventListener("open", showCount);
  source.addEventListener("error", () => {
    if (log.dataset.ended) return;
    status.textContent = log.dataset.lost;
    // After an error status the browser gives up; the host may be about to start again.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 3000);
  });
}

/** Replace the parts of the page that change with the state of the run, by those of the page as it is now. */
async function refresh() {
  try {
    for (const wait of [0, 150, 600, 2000]) {
      await new Promise((resolve) => { setTimeout(resolve, wait); });
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const isOver = !["queued", "running"].includes(page.getElementById("state")?.dataset.state);
      const isRecorded = !page.getElementById("waterfall")?.hidden;
      for (const id of ["state", "actions", "problem", "waterfall", "output", "about"]) {
        const fresh = page.getElementById(id);
        const old = document.getElementById(id);
        if (fresh && old && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(fresh));
      }
      if (isOver) document.getElementById("input-form")?.remove();
      if (isOver) document.getElementById("terminal-hint")?.remove();
      // The history gets its row a moment after the end.
      if (!isOver || isRecorded) return;
    }
  } catch {
    // Offline for a moment; the next event or a reload shows the rest.
  }
}

async function send(address, body) {
  const answer = await fetch(address, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  if (!answer.ok) {
    const found = await answer.json().catch(() => null);
    document.getElementById("live").textContent = found?.error?.message ?? "";
  }
}

function followScreen() {
  let busy = false;
  let again = false;
  let queue = Promise.resolve();

  async function show() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(terminal.dataset.url);
      if (answer.ok) draw((await answer.json()).data.screen);
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    } catch {
      // The next output asks again.
    }
    busy = false;
    if (again) {
      again = false;
      show();
    }
  }

  function draw(screen) {
    // A program that only writes line by line is shown by the log.
    log.hidden = Boolean(screen);
    terminal.classList.toggle("blank", !screen);
    if (!screen) return;
    const rows = screen.lines.map((line, row) => {
      const element = document.createElement("div");
      if (row !== screen.row || !terminal.dataset.input) {
        element.append(toVisible(line) || " ");
        return element;
      }
      const padded = line.padEnd(screen.column + 1, " ");
      const cursor = document.createElement("span");
      cursor.className = "cursor";
      cursor.append(padded[screen.column]);
      element.append(toVisible(padded.slice(0, screen.column)), cursor, toVisible(padded.slice(screen.column + 1)));
      return element;
    });
    terminal.replaceChildren(...rows);
  }

  document.addEventListener("run-output", show);
  show();
  if (!terminal.dataset.input) return;
  const write = (text) => { queue = queue.then(() => send(terminal.dataset.input, { text })); };
  terminal.addEventListener("keydown", (event) => {
    if (event.key === "Tab" || event.metaKey || event.altKey || event.isComposing) return;
    let text = KEYS[event.key];
    if (event.ctrlKey && /^[a-z]$/i.test(event.key)) text = String.fromCharCode(event.key.toLowerCase().charCodeAt(0) - 96);
    else if (!text && event.key.length === 1 && !event.ctrlKey) text = event.key;
    if (text === undefined) return;
    event.preventDefault();
    write(text);
  });
  terminal.addEventListener("paste", (event) => {
    event.preventDefault();
    write(event.clipboardData.getData("text").replaceAll("\n", "\r"));
  });
}
