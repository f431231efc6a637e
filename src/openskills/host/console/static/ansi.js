// Output of commands as text nodes, with colours and carriage returns. Nothing of it is ever parsed as HTML.

const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const MAX_SEQUENCE = 4096;
const BLOCK_LINES = 250;
const STYLES = {
  1: { bold: true }, 2: { dim: true }, 3: { italic: true }, 4: { underline: true }, 7: { inverse: true },
  22: { bold: false, dim: false }, 23: { italic: false }, 24: { underline: false }, 27: { inverse: false },
  39: { color: undefined }, 49: { background: undefined },
};

/** Text without characters that hide or reorder other text. */
export function toVisible(text) {
  return text.replace(INVISIBLE, (found) => {
    const code = found.codePointAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** Appends output to an element, in blocks of lines that the browser draws only when they are visible. */
export class AnsiLog {
  constructor(element) {
    this.element = element;
    this.lines = 0;
    this.state = {};
    this.rest = "";
    this.block = null;
    this.line = null;
    this.overwrite = false;
  }

  /** Add a piece of output; `kind` is a class for its text, such as `err`. */
  write(text, kind = "") {
    let input = this.rest + text;
    this.rest = "";
    let plain = 0;
    for (let at = 0; at < input.length; at += 1) {
      const char = input[at];
      if (char === "\n") {
        this.append(input.slice(plain, at), kind);
        this.endLine();
        plain = at + 1;
      } else if (char === "\r") {
        this.append(input.slice(plain, at), kind);
        if (at + 1 === input.length) {
          // A line feed may follow in the next piece.
          this.rest = "\r";
          return;
        }
        if (input[at + 1] !== "\n") this.overwrite = true;
        plain = at + 1;
      } else if (char === "\x1b" || char === "\x9b") {
        this.append(input.slice(plain, at), kind);
        const length = this.sequence(input, at);
        if (length === 0) {
          this.rest = input.slice(at);
          return;
        }
        at += length - 1;
        plain = at + 1;
      }
    }
    this.append(input.slice(plain), kind);
  }

  /** The length of the control sequence at a place; 0 if it is not complete yet. Colours are applied. */
  sequence(input, at) {
    const rest = input.slice(at, at + MAX_SEQUENCE);
    let found = /^(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])/.exec(rest);
    if (found) {
      if (found[2] === "m") this.style(found[1]);
      return found[0].length;
    }
    found = /^\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)/.exec(rest) || /^\x1b[ -/]*[0-Z\\^-~]/.exec(rest);
    if (found && !/^\x1b[\[\]PX^_]$/.test(found[0])) return found[0].length;
    const open = /^(?:\x1b|\x9b)(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*|[0-?]*)$/.test(rest);
    return open && rest.length < MAX_SEQUENCE ? 0 : 1;
  }

  style(text) {
    const codes = text.split(/[;:]/).map((one) => (one === "" ? 0 : Number(one)));
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at];
      if (code === 0) this.state = {};
      else if (code in STYLES) Object.assign(this.state, STYLES[code]);
      else if (code >= 30 && code <= 37) this.state.color = code - 30;
      else if (code >= 90 && code <= 97) this.state.color = code - 90;
      else if (code >= 40 && code <= 47) this.state.background = code - 40;
      else if (code >= 100 && code <= 107) this.state.background = code - 100;
      else if (code === 38 || code === 48) {
        // 256 colours and true colours are shown as the nearest of the eight that both themes can show.
        const [color, used] = nearest(codes.slice(at + 1));
        this.state[code === 38 ? "color" : "background"] = color;
        at += used;
      }
    }
  }

  append(text, kind) {
    if (text === "") return;
    if (this.overwrite) {
      this.line?.replaceChildren();
      this.overwrite = false;
    }
    if (this.line === null) this.startLine();
    const shown = toVisible(text);
    const classes = this.classes(kind);
    if (classes === "") {
      this.line.append(shown);
    } else {
      const part = document.createElement("span");
      part.className = classes;
      part.append(shown);
      this.line.append(part);
    }
  }

  classes(kind) {
    const { color, background } = this.state;
    const found = ["bold", "dim", "italic", "underline", "inverse"].filter((name) => this.state[name]);
    if (color !== undefined) found.push(`fg${color}`);
    if (background !== undefined) found.push(`bg${background}`);
    if (kind && color === undefined) found.push(kind);
    return found.join(" ");
  }

  startLine() {
    if (this.block === null || this.block.childElementCount >= BLOCK_LINES) {
      this.block = document.createElement("div");
      this.block.className = "lines";
      this.element.append(this.block);
    }
    this.line = document.createElement("div");
    this.line.className = "line";
    this.block.append(this.line);
    this.lines += 1;
  }

  endLine() {
    if (this.line === null) this.startLine();
    // An empty line keeps its height.
    if (this.line.childNodes.length === 0) this.line.append("\n");
    this.line = null;
    this.overwrite = false;
  }
}

function nearest(codes) {
  let rgb = [128, 128, 128];
  let used = 0;
  if (codes[0] === 5) {
    used = 2;
    const number = codes[1] || 0;
    if (number < 16) return [number % 8, used];
    if (number < 232) rgb = [36, 6, 1].map((unit) => (Math.floor((number - 16) / unit) % 6) * 51);
    else rgb = Array(3).fill((number - 232) * 10 + 8);
  } else if (codes[0] === 2) {
    used = 4;
    rgb = [codes[1] || 0, codes[2] || 0, codes[3] || 0];
  }
  const middle = (Math.max(...rgb) + Math.min(...rgb)) / 2;
  if (Math.max(...rgb) - Math.min(...rgb) < 32) return [rgb[0] > 100 ? 7 : 0, used];
  return [(rgb[0] > middle) + 2 * (rgb[1] > middle) + 4 * (rgb[2] > middle), used];
}
