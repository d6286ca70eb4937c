// The answers of one review item. Keys and clicks take effect here at once; what is filled in goes to the desk as a
// draft a moment later, and whole with every action, so that no key press can overtake another.
// Text from data is only ever set as textContent.

const DRAFT_DELAY_MS = 350;
const GIVE_UP_MS = 15000;
const ANSWER_KEYS = { 1: ["tc", true], 2: ["tc", false], 3: ["lc", true], 4: ["lc", false], 5: ["au", true], 6: ["au", false] };

export default function (component) {
  const root = component.parentElement.querySelector(".sd-panel");
  const panel = (root.sdPanel ||= new Panel(root));
  panel.receive(component);
  return () => panel.close();
}

class Panel {
  constructor(root) {
    this.root = root;
    this.token = null;
    this.busy = false;
    this.onKey = (event) => this.key(event);
    this.onLeave = () => {
      this.flush();
      this.count();
    };
    this.isOpen = false;
    root.querySelector("[data-part=comment]").addEventListener("input", (event) => this.typed("comment", event));
    root.querySelector("[data-part=corrected_text]").addEventListener("input", (event) => this.typed("corrected_text", event));
    root.querySelector("[data-part=corrected_answer_index]").addEventListener("change", (event) => {
      this.form.corrected_answer_index = event.target.value === "" ? null : Number(event.target.value);
      this.changed();
    });
    root.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-do]");
      if (button) this.act(button.dataset.do);
    });
  }

  open() {
    if (this.isOpen) return;
    this.isOpen = true;
    document.addEventListener("keydown", this.onKey, true);
    document.addEventListener("visibilitychange", this.onLeave);
    window.addEventListener("pagehide", this.onLeave);
  }

  close() {
    this.isOpen = false;
    this.flush();
    document.removeEventListener("keydown", this.onKey, true);
    document.removeEventListener("visibilitychange", this.onLeave);
    window.removeEventListener("pagehide", this.onLeave);
  }

  receive(component) {
    this.open();
    const data = component.data;
    this.send = component.setTriggerValue;
    this.data = data;
    if (data.token !== this.token) {
      this.token = data.token;
      this.form = this.kept(data) || { ...data.form };
      this.sent = JSON.stringify(data.form);
      this.first = this.sent;
      this.seenMs = 0;
      this.seenSince = null;
      this.count();
      this.busy = false;
      clearTimeout(this.timer);
      this.fill();
      if (JSON.stringify(this.form) !== this.sent) this.changed();
    }
    if (data.answer !== this.answer) {
      this.answer = data.answer;
      this.busy = false;
    }
    this.draw();
  }

  // What this tab had not yet sent when it was refreshed.
  kept(data) {
    try {
      const kept = JSON.parse(sessionStorage.getItem("sd-unsent"));
      if (kept && kept.place === data.place) return kept.form;
      sessionStorage.removeItem("sd-unsent");
      return null;
    } catch {
      return null;
    }
  }

  keep() {
    sessionStorage.setItem("sd-unsent", JSON.stringify({ place: this.data.place, form: this.form }));
  }

  typed(field, event) {
    this.form[field] = event.target.value;
    this.changed();
  }

  changed() {
    this.keep();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), DRAFT_DELAY_MS);
    this.draw();
  }

  flush() {
    clearTimeout(this.timer);
    const form = JSON.stringify(this.form);
    if (this.busy || form === this.sent) return;
    this.sent = form;
    this.send("draft", { token: this.token, form: this.form });
  }

  // Time counts while the page is in sight only.
  count() {
    const now = performance.now();
    if (this.seenSince !== null) this.seenMs += now - this.seenSince;
    this.seenSince = document.hidden ? null : now;
  }

  seconds() {
    this.count();
    return this.seenMs / 1000;
  }

  isComplete() {
    return [this.form.tc, this.form.lc, this.form.au].every((answer) => answer !== null);
  }

  isChanged() {
    return JSON.stringify(this.form) !== this.first;
  }

  act(what) {
    // What is pressed between an action and the next item would answer an item that nobody has seen.
    if (this.busy && (what in ANSWER_KEYS || what === "all" || what === "flag")) return undefined;
    if (what in ANSWER_KEYS) {
      const [field, answer] = ANSWER_KEYS[what];
      this.form[field] = answer;
      return this.changed();
    }
    if (what === "all") {
      Object.assign(this.form, { tc: true, lc: true, au: true });
      return this.changed();
    }
    if (what === "flag") {
      this.form.is_flagged = !this.form.is_flagged;
      return this.changed();
    }
    if (what === "diff") return this.toggle("sdDiff", "off");
    if (what === "keys") return this.toggle("sdKeys", "on");
    if (what === "correct") {
      this.root.classList.toggle("sd-correcting");
      return undefined;
    }
    if (what === "comment") return this.root.querySelector("[data-part=comment]").focus();
    return this.hand(what);
  }

  // To the desk. One at a time: a second click meets a busy panel, and the desk knows the token besides.
  hand(what) {
    if (this.busy) return;
    if (what === "submit" && this.data.revealed && !this.isChanged()) what = "next";
    if (what === "submit" && !this.isComplete() && !this.form.is_flagged) {
      this.hint = "Answer all three questions first, or flag the item (F) to submit it incomplete.";
      return this.draw();
    }
    this.hint = "";
    this.busy = true;
    clearTimeout(this.timer);
    this.send("action", { what, token: this.token, form: this.form, seconds: this.seconds() });
    clearTimeout(this.givingUp);
    this.givingUp = setTimeout(() => {
      this.busy = false;
      this.draw();
    }, GIVE_UP_MS);
    this.draw();
  }

  toggle(name, value) {
    const dataset = document.documentElement.dataset;
    if (dataset[name] === value) delete dataset[name];
    else dataset[name] = value;
    localStorage.setItem(name, dataset[name] || "");
    this.draw();
  }

  key(event) {
    const target = event.composedPath()[0];
    const isTyping = target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
    const key = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && (key === "s" || key === "enter")) {
      if (isTyping && !this.root.contains(target)) return;
      event.preventDefault();
      event.stopPropagation();
      if (!event.repeat) this.act("submit");
      return;
    }
    if (isTyping) {
      if (key === "escape") target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    const what = { a: "all", s: "skip", f: "flag", l: "later", u: "undo", d: "diff", k: "keys", e: "correct", m: "comment" }[key] || key;
    if (!(what in ANSWER_KEYS) && what === key) return;
    event.preventDefault();
    this.act(what);
  }

  fill() {
    const data = this.data;
    for (const name of ["sdDiff", "sdKeys"]) {
      const value = localStorage.getItem(name);
      if (value) document.documentElement.dataset[name] = value;
    }
    this.part("comment").value = this.form.comment;
    this.part("corrected_text").value = this.form.corrected_text || "";
    const select = this.part("corrected_answer_index");
    select.replaceChildren(new Option("as marked", ""));
    data.letters.forEach((letter, index) => select.add(new Option(letter, String(index))));
    select.value = this.form.corrected_answer_index === null ? "" : String(this.form.corrected_answer_index);
    this.root.classList.toggle("sd-correcting", this.form.corrected_answer_index !== null || Boolean(this.form.corrected_text));
    for (const field of this.root.querySelectorAll("textarea, select")) field.blur();
  }

  part(name) {
    return this.root.querySelector(`[data-part=${name}]`);
  }

  draw() {
    const { data, form } = this;
    for (const verdict of data.verdicts) {
      const chip = this.part(`verdict-${verdict.field}`);
      chip.className = `sd-verdict sd-${verdict.kind}`;
      const source = document.createElement("small");
      source.textContent = verdict.source;
      chip.replaceChildren(verdict.text, source);
      chip.title = verdict.title;
    }
    for (const [key, [field, answer]] of Object.entries(ANSWER_KEYS)) {
      this.root.querySelector(`button[data-do="${key}"]`).setAttribute("aria-pressed", String(form[field] === answer));
    }
    const flag = this.root.querySelector("button[data-do=flag]");
    flag.setAttribute("aria-pressed", String(form.is_flagged));
    flag.querySelector("span").textContent = form.is_flagged ? "⚑ Flagged" : "Flag";
    this.root.querySelector("button[data-do=diff]").setAttribute("aria-pressed", String(document.documentElement.dataset.sdDiff !== "off"));
    this.root.querySelector("button[data-do=correct]").setAttribute("aria-expanded", String(this.root.classList.contains("sd-correcting")));
    const submit = this.root.querySelector("button[data-do=submit]");
    const isNext = data.revealed && !this.isChanged();
    submit.querySelector("span").textContent = this.busy ? "Saving…" : isNext ? "Next" : data.answered ? "Save change" : "Submit";
    submit.classList.toggle("sd-ready", isNext || this.isComplete() || form.is_flagged);
    for (const name of ["submit", "skip", "later", "undo"]) this.root.querySelector(`button[data-do=${name}]`).disabled = this.busy;
    const notice = this.part("notice");
    const text = this.hint || data.notice.text;
    notice.textContent = text;
    notice.className = `sd-notice sd-${this.hint ? "warn" : data.notice.kind}`;
    notice.hidden = text === "";
    if (this.isComplete()) this.hint = "";
  }
}
