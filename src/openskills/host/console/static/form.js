// A form made from a JSON schema. It edits the JSON in the text area beside it, which is what is sent.
// What it does not know becomes a field for JSON. The server validates; its errors are shown at the fields.

const root = document.getElementById("schema-form");

function start() {
  const text = document.getElementById("input");
  const schema = JSON.parse(root.dataset.schema);
  const errors = JSON.parse(root.dataset.errors);
  // Which alternatives are chosen, by pointer; kept by the server with the text, because `{}` fits several.
  const variants = document.getElementById("variants");
  const chosenVariants = parseObject(variants.value);
  const panels = { form: document.getElementById("panel-form"), json: document.getElementById("panel-json") };
  let field = null;

  function fill() {
    let value;
    try {
      value = parseJson(text.value || "{}");
    } catch {
      return false;
    }
    field = build(schema, value, "", "", { schema, depth: 0, errors, variants: chosenVariants });
    root.replaceChildren(field.element);
    if (!root.querySelector("input, select, textarea, button")) root.replaceChildren(say(root.dataset.none));
    return true;
  }

  function keep() {
    if (field !== null) text.value = JSON.stringify(field.read() ?? {}, null, 2);
    variants.value = JSON.stringify(chosenVariants);
  }

  function select(name) {
    if (name === "form" && !fill()) {
      text.setAttribute("aria-invalid", "true");
      text.setCustomValidity(root.dataset.json);
      text.reportValidity();
      text.setCustomValidity("");
      name = "json";
    }
    for (const [key, panel] of Object.entries(panels)) {
      panel.hidden = key !== name;
      const tab = document.getElementById(`tab-${key}`);
      tab.setAttribute("aria-selected", String(key === name));
      tab.toggleAttribute("aria-current", key === name);
      tab.tabIndex = key === name ? 0 : -1;
    }
    if (name === "form") root.dataset.ready = "true";
    return name;
  }

  const tabs = document.querySelector("[data-tabs]");
  tabs.hidden = false;
  for (const name of Object.keys(panels)) {
    document.getElementById(`tab-${name}`).addEventListener("click", (event) => {
      event.preventDefault();
      if (name === "json") keep();
      history.replaceState(null, "", `#${select(name)}`);
    });
  }
  tabs.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = document.activeElement?.id === "tab-form" ? "json" : "form";
    document.getElementById(`tab-${other}`).click();
    document.getElementById(`tab-${other}`).focus();
  });
  // The server validates, with the whole schema.
  text.form.noValidate = true;
  const first = location.hash === "#json" || (root.dataset.schema === root.dataset.any && location.hash !== "#form") ? "json" : "form";
  select(first);
  root.addEventListener("input", keep);
  root.addEventListener("change", keep);
  text.form.addEventListener("submit", (event) => {
    if (panels.form.hidden) return;
    keep();
    const broken = root.querySelector("[data-broken]");
    if (broken) {
      event.preventDefault();
      broken.focus();
    }
  });
  root.querySelector("[aria-invalid=true]")?.focus();
}

let counter = 0;
const INTEGER = /^-?(0|[1-9]\d*)$/;

/** JSON whose integers keep all their digits, where the browser can do that. */
function parseJson(text) {
  return JSON.parse(text, (_, value, found) => (isLong(found?.source) && JSON.rawJSON ? JSON.rawJSON(found.source) : value));
}

function parseObject(text) {
  try {
    return Object.assign(Object.create(null), JSON.parse(text || "{}"));
  } catch {
    return Object.create(null);
  }
}

function isLong(text) {
  return typeof text === "string" && INTEGER.test(text) && !Number.isSafeInteger(Number(text));
}

/** A field: its element, and `read`, which gives its value or undefined. */
function build(given, value, name, pointer, context) {
  const schema = resolve(given, context.schema);
  const inner = { ...context, depth: context.depth + 1 };
  const variants = Array.isArray(schema.oneOf) ? schema.oneOf : Array.isArray(schema.anyOf) ? schema.anyOf : null;
  if (context.depth > 8) return jsonField(schema, value, name, pointer, inner);
  if (variants && variants.length > 0) return choiceField(schema, variants, value, name, pointer, inner);
  const kind = typeOf(schema, value);
  if ("const" in schema) return constantField(schema, name, pointer, inner);
  if (Array.isArray(schema.enum)) return enumField(schema, value, name, pointer, inner);
  if (kind === "boolean") return booleanField(schema, value, name, pointer, inner);
  if (kind === "integer" || kind === "number") return numberField(schema, value, name, pointer, inner, kind);
  if (kind === "string") return isFile(schema) ? fileField(schema, value, name, pointer, inner) : textField(schema, value, name, pointer, inner);
  // A form with very many fields is slow; as JSON nothing is left out.
  if (kind === "array" && !Array.isArray(schema.items) && !(value?.length > 500)) return arrayField(schema, value, name, pointer, inner);
  if (kind === "object") return objectField(schema, value, name, pointer, inner);
  return jsonField(schema, value, name, pointer, inner);
}

function resolve(given, whole) {
  let schema = given && typeof given === "object" ? given : {};
  for (let steps = 0; typeof schema.$ref === "string" && schema.$ref.startsWith("#/") && steps < 20; steps += 1) {
    const { $ref, ...rest } = schema;
    const path = $ref.slice(2).split("/").map((one) => decodeURIComponent(one).replaceAll("~1", "/").replaceAll("~0", "~"));
    const target = path.reduce((place, key) => place?.[key], whole);
    schema = { ...(target && typeof target === "object" ? target : {}), ...rest };
  }
  return schema;
}

function typeOf(schema, value) {
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((one) => one && one !== "null");
  if (types.length === 1) return types[0];
  if (schema.properties) return "object";
  if (schema.items) return "array";
  if (types.length > 1 && typeof value === "string" && types.includes("string")) return "string";
  return "";
}

const hasConstant = (schema) => "const" in schema || Object.values(schema.properties ?? {}).some((one) => "const" in one);

const isFile = (schema) => schema.contentEncoding === "base64" || schema.format === "binary" || schema.format === "byte";

function say(text) {
  const element = document.createElement("p");
  element.className = "soft";
  element.append(text);
  return element;
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, one] of Object.entries(attributes)) {
    if (one === true) made.setAttribute(name, "");
    else if (one !== undefined && one !== false) made.setAttribute(name, one);
  }
  made.append(...children);
  return made;
}

/** A labelled control, with the description of the schema and the errors of the server. */
function frame(control, schema, name, pointer, context, isRequired) {
  counter += 1;
  control.id = `field-${counter}`;
  control.dataset.pointer = pointer;
  const title = schema.title || name;
  // The value of an alternative is named by the choice above it.
  if (!title) control.setAttribute("aria-label", context.label ?? root.dataset.value);
  const label = element("label", title ? { for: control.id } : { hidden: true }, title || "");
  if (isRequired) label.append(element("span", { class: "soft small" }, ` ${root.dataset.required}`));
  if (schema.description) label.append(element("span", { class: "hint" }, String(schema.description).slice(0, 500)));
  const box = element("div", { class: "field" }, label, control);
  showErrors(box, control, pointer, context);
  return box;
}

/** The message of an error at its field, whose name it need not repeat. */
function describe({ field, message }) {
  return field && message.startsWith(`${field}: `) ? message.slice(field.length + 2) : message;
}

function showErrors(box, control, pointer, context) {
  const found = context.errors.filter((one) => one.pointer === pointer);
  if (found.length === 0) return;
  const id = `error-${counter}`;
  box.append(element("div", { class: "error", id }, found.map(describe).join("; ")));
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", id);
}

function textField(schema, value, name, pointer, context) {
  const types = { date: "date", time: "time", email: "email", uri: "url" };
  const shown = typeof value === "string" ? value : "";
  const long = (schema.maxLength ?? 0) > 200 || schema.format === "multiline" || shown.includes("\n") || /text|content|body|prompt|stdin/i.test(name);
  const control = long && !types[schema.format]
    ? element("textarea", { rows: 4, spellcheck: "false" })
    : element("input", { type: types[schema.format] ?? "text", autocomplete: "off" });
  control.value = shown;
  // Without a value at first and no text now, the field is left out; the server says if that is wrong.
  const wasSet = typeof value === "string" || context.isItem;
  const box = frame(control, schema, name, pointer, context, context.required && !context.isItem);
  const read = () => (control.value === "" && !wasSet ? undefined : control.value);
  return { element: box, read };
}

function numberField(schema, value, name, pointer, context, kind) {
  const step = kind === "integer" ? 1 : schema.multipleOf ?? "any";
  const control = element("input", { type: "number", step, min: schema.minimum, max: schema.maximum });
  control.value = typeof value === "number" ? String(value) : value?.rawJSON ?? "";
  const box = frame(control, schema, name, pointer, context, context.required);
  const read = () => {
    if (control.value === "") return undefined;
    return isLong(control.value) && JSON.rawJSON ? JSON.rawJSON(control.value) : Number(control.value);
  };
  return { element: box, read };
}

function booleanField(schema, value, name, pointer, context) {
  const control = element("select", {});
  const choices = [["", root.dataset.unset], ["true", root.dataset.yes], ["false", root.dataset.no]];
  for (const [one, shown] of choices) control.append(element("option", { value: one }, shown));
  control.value = typeof value === "boolean" ? String(value) : "";
  const box = frame(control, schema, name, pointer, context, context.required);
  return { element: box, read: () => (control.value === "" ? undefined : control.value === "true") };
}

function enumField(schema, value, name, pointer, context) {
  const control = element("select", {}, element("option", { value: "" }, root.dataset.choose));
  schema.enum.slice(0, 1000).forEach((one, place) => {
    control.append(element("option", { value: String(place) }, typeof one === "string" ? one : JSON.stringify(one)));
  });
  const place = schema.enum.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
  control.value = place < 0 ? "" : String(place);
  const box = frame(control, schema, name, pointer, context, context.required);
  return { element: box, read: () => (control.value === "" ? undefined : schema.enum[Number(control.value)]) };
}

function constantField(schema, name, pointer, context) {
  const control = element("output", {}, JSON.stringify(schema.const));
  const box = frame(control, schema, name, pointer, context, false);
  return { element: box, read: () => schema.const, isConstant: true };
}

function fileField(schema, value, name, pointer, context) {
  let content = typeof value === "string" ? value : undefined;
  const control = element("input", { type: "file" });
  const box = frame(control, schema, name, pointer, context, context.required);
  // A browser does not fill in files again; the content is still there.
  const kept = element("span", { class: "hint" }, root.dataset.kept.replace("{n}", Math.floor((content ?? "").replace(/=+$/, "").length * 3 / 4).toLocaleString()));
  if (content) box.append(kept);
  control.addEventListener("change", async () => {
    kept.remove();
    const file = control.files[0];
    content = file ? await toBase64(file) : undefined;
    control.dispatchEvent(new Event("input", { bubbles: true }));
  });
  return { element: box, read: () => content };
}

function toBase64(file) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result).split(",")[1] ?? ""));
    reader.addEventListener("error", () => resolve(""));
    reader.readAsDataURL(file);
  });
}

function jsonField(schema, value, name, pointer, context) {
  const control = element("textarea", { rows: 3, spellcheck: "false" });
  control.value = value === undefined ? "" : JSON.stringify(value, null, 2);
  const box = frame(control, schema, name, pointer, context, context.required);
  const note = element("div", { class: "error", id: `${control.id}-broken` }, root.dataset.json);
  let last = value;
  control.addEventListener("input", () => {
    try {
      last = control.value.trim() === "" ? undefined : parseJson(control.value);
      control.removeAttribute("aria-invalid");
      delete control.dataset.broken;
      note.remove();
    } catch {
      control.setAttribute("aria-invalid", "true");
      control.setAttribute("aria-describedby", note.id);
      control.dataset.broken = "true";
      box.append(note);
    }
  });
  return { element: box, read: () => last };
}

function group(schema, name, pointer, context) {
  const box = element("fieldset", { class: context.depth > 1 ? "nested" : "bare" });
  if (name) {
    const legend = element("legend", {}, schema.title || name);
    if (context.required && !context.isItem) legend.append(element("span", { class: "soft small" }, ` ${root.dataset.required}`));
    box.append(legend);
  }
  if (schema.description && name) box.append(element("p", { class: "hint" }, String(schema.description).slice(0, 500)));
  counter += 1;
  box.dataset.pointer = pointer;
  const found = context.errors.filter((one) => one.pointer === pointer);
  if (found.length > 0) box.append(element("div", { class: "error" }, found.map(describe).join("; ")));
  return box;
}

const step = (pointer, key) => `${pointer}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;

function objectField(schema, value, name, pointer, context) {
  const box = group(schema, name, pointer, context);
  const given = value && typeof value === "object" && !Array.isArray(value) ? value : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  // Without a prototype: names such as `__proto__` are ordinary ones.
  const fields = Object.create(null);
  for (const [key, one] of Object.entries(schema.properties ?? {})) {
    const first = Object.hasOwn(given, key) ? given[key] : value === undefined ? resolve(one, context.schema).default : given[key];
    fields[key] = build(one, first, key, step(pointer, key), { ...context, required: required.includes(key), isItem: false });
    box.append(fields[key].element);
  }
  const extra = Object.entries(given).filter(([key]) => !(key in fields));
  const rows = [];
  if (schema.additionalProperties !== false && (schema.additionalProperties || !schema.properties || extra.length > 0)) {
    const inner = schema.additionalProperties === true || !schema.additionalProperties ? {} : schema.additionalProperties;
    const list = element("div", { class: "items" });
    const add = (key, one) => {
      counter += 1;
      const label = element("input", { id: `name-${counter}`, autocomplete: "off" });
      const named = element("div", { class: "field" }, element("label", { for: label.id }, root.dataset.name), label);
      label.value = key;
      const field = build(inner, one, root.dataset.value, step(pointer, key), { ...context, required: true, isItem: true });
      const row = { label, field };
      const line = element("div", { class: "item" }, named, field.element, removeButton(() => {
        rows.splice(rows.indexOf(row), 1);
        line.remove();
      }));
      rows.push(row);
      list.append(line);
      return label;
    };
    for (const [key, one] of extra) add(key, one);
    box.append(list, addButton(() => add("", undefined).focus()));
  }
  const read = () => {
    const found = Object.create(null);
    for (const [key, field] of Object.entries(fields)) {
      const one = field.read();
      if (one !== undefined) found[key] = one;
    }
    for (const { label, field } of rows) if (label.value !== "") found[label.value] = field.read() ?? null;
    const isEmpty = Object.keys(found).every((key) => fields[key]?.isConstant);
    return isEmpty && value === undefined && !context.required && context.depth > 1 ? undefined : found;
  };
  return { element: box, read };
}

function arrayField(schema, value, name, pointer, context) {
  const box = group(schema, name, pointer, context);
  const list = element("div", { class: "items" });
  const fields = [];
  const add = (one) => {
    const place = fields.length;
    const label = root.dataset.item.replace("{n}", String(place + 1));
    const field = build(schema.items ?? {}, one, label, step(pointer, place), { ...context, required: true, isItem: true });
    const line = element("div", { class: "item" }, field.element, removeButton(() => {
      fields.splice(fields.indexOf(field), 1);
      line.remove();
    }));
    fields.push(field);
    list.append(line);
    return line;
  };
  for (const one of Array.isArray(value) ? value : []) add(one);
  box.append(list, addButton(() => add(resolve(schema.items, context.schema).default).querySelector("input, select, textarea")?.focus()));
  const read = () => {
    const found = fields.map((field) => field.read() ?? null);
    return found.length === 0 && value === undefined && !context.required ? undefined : found;
  };
  return { element: box, read };
}

function choiceField(schema, variants, value, name, pointer, context) {
  const box = group(schema, name, pointer, context);
  const { oneOf, anyOf, ...common } = schema;
  const control = element("select", { "aria-label": schema.title || name || root.dataset.choose });
  // A constant has nothing to enter, so that it would be sent without being chosen.
  const isOptional = !context.required && !context.isItem && variants.some((one) => hasConstant(resolve(one, context.schema)));
  if (isOptional) control.append(element("option", { value: "" }, root.dataset.unset));
  variants.forEach((one, place) => {
    const found = resolve(one, context.schema);
    const isAlone = variants.filter((other) => resolve(other, context.schema).type === found.type).length === 1;
    const title = found.title || ("const" in found ? JSON.stringify(found.const) : typeof found.type === "string" && isAlone ? found.type : root.dataset.variant.replace("{n}", String(place + 1)));
    control.append(element("option", { value: String(place) }, String(title)));
  });
  const ranks = variants.map((one) => rank({ ...common, ...resolve(one, context.schema) }, value));
  const highest = Math.max(...ranks);
  const known = context.variants[pointer];
  const place = highest < 0 ? known ?? -1 : ranks[known] === highest ? known : ranks.indexOf(highest);
  control.value = isOptional && place < 0 ? "" : String(Math.max(place, 0));
  const holder = element("div", {});
  let field = null;
  const show = (first) => {
    context.variants[pointer] = control.value === "" ? undefined : Number(control.value);
    if (control.value === "") {
      field = { element: element("div", {}), read: () => undefined };
      holder.replaceChildren(field.element);
      return;
    }
    const chosen = resolve(variants[Number(control.value)], context.schema);
    const { title, description, ...rest } = { ...common, ...chosen, properties: chosen.properties || common.properties ? { ...common.properties, ...chosen.properties } : undefined };
    const plain = Object.fromEntries(Object.entries(rest).filter(([, one]) => one !== undefined));
    if (plain.type === "null") field = { element: say("null"), read: () => null };
    else field = build(plain, first, "", pointer, { ...context, required: context.required || isOptional, label: schema.title || name, errors: context.errors.filter((one) => one.pointer !== pointer) });
    holder.replaceChildren(field.element);
  };
  control.addEventListener("change", () => show(undefined));
  box.append(control, holder);
  show(value);
  return { element: box, read: () => field.read() };
}

/** How well a variant fits a value: 2 if it is complete, 1 if only required fields are missing, -1 if not at all. */
function rank(schema, value) {
  if (value === undefined) return -1;
  if ("const" in schema) return JSON.stringify(schema.const) === JSON.stringify(value) ? 2 : -1;
  const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value === "number" || value.rawJSON ? "number" : typeof value;
  const types = Array.isArray(schema.type) ? schema.type : schema.type ? [schema.type] : [];
  if (types.length > 0 && !types.includes(kind) && !(kind === "number" && types.includes("integer"))) return -1;
  if (kind !== "object") return 2;
  const isOther = Object.entries(schema.properties ?? {}).some(([key, one]) => "const" in one && key in value && JSON.stringify(one.const) !== JSON.stringify(value[key]));
  if (isOther) return -1;
  return (schema.required ?? []).every((key) => key in value) ? 2 : 1;
}

function addButton(act) {
  const button = element("button", { type: "button", class: "small" }, `+ ${root.dataset.add}`);
  button.addEventListener("click", () => {
    act();
    button.dispatchEvent(new Event("input", { bubbles: true }));
  });
  return button;
}

function removeButton(act) {
  const button = element("button", { type: "button", class: "small quiet danger" }, root.dataset.remove);
  button.addEventListener("click", () => {
    const next = button.parentElement.parentElement.nextElementSibling;
    act();
    // The button to add is after the list; the focus must not be lost.
    next?.focus();
    root.dispatchEvent(new Event("input"));
  });
  return button;
}

if (root) start();
