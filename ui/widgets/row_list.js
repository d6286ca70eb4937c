// A table whose rows can be opened, by click or by key. Text is only ever set as textContent.

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const table = parentElement.querySelector("table");
  const body = table.querySelector("tbody");
  const cell = (tag, text, isNumber) => {
    const element = document.createElement(tag);
    element.textContent = text;
    element.dir = "auto";
    if (isNumber) element.className = "sd-number";
    return element;
  };
  table.querySelector("thead tr").replaceChildren(...data.columns.map((name, at) => cell("th", name, data.numbers.includes(at))));
  const open = (row) => setTriggerValue("open", row.id);
  body.replaceChildren(
    ...data.rows.map((row) => {
      const line = document.createElement("tr");
      line.tabIndex = 0;
      line.setAttribute("role", "button");
      line.setAttribute("aria-current", String(row.id === data.chosen));
      line.append(...row.cells.map((text, at) => cell("td", text, data.numbers.includes(at))));
      line.onclick = () => open(row);
      line.onkeydown = (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          open(row);
        }
        if (event.key === "ArrowDown") line.nextElementSibling?.focus();
        if (event.key === "ArrowUp") line.previousElementSibling?.focus();
      };
      return line;
    }),
  );
}
