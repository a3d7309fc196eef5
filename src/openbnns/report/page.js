"use strict";
(() => {
  const tip = document.getElementById("tip");
  const reading = (element, name) => JSON.parse(element.getAttribute(name));
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

  function showTip(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    tip.style.left = `${clamp(x + 14, 4, room - width - 4) + scrollX}px`;
    tip.style.top = `${(y - height - 14 < 4 ? y + 18 : y - height - 14) + scrollY}px`;
  }

  const hideTip = () => { tip.hidden = true; };

  // Line charts, scatter plots and histograms: a slider over their points.
  for (const plot of document.querySelectorAll(".plot")) {
    const points = reading(plot, "data-points");
    const cursor = plot.appendChild(document.createElement("span"));
    cursor.className = "cursor";
    cursor.hidden = true;
    const dots = points.y.map(() => {
      const dot = plot.appendChild(document.createElement("span"));
      dot.className = "spot";
      dot.hidden = true;
      return dot;
    });
    let current = points.x.length - 1;

    function choose(index, follow) {
      current = index;
      const box = plot.getBoundingClientRect();
      cursor.style.left = `${points.x[index] / 10}%`;
      cursor.hidden = points.s;
      dots.forEach((dot, line) => {
        const place = points.y[line][index];
        dot.hidden = place === null;
        dot.style.left = `${points.x[index] / 10}%`;
        dot.style.top = `${place / 10}%`;
      });
      plot.setAttribute("aria-valuenow", index + 1);
      plot.setAttribute("aria-valuetext", points.t[index].split("\n").join(", "));
      const known = points.y.map((line) => line[index]).filter((place) => place !== null);
      const top = known.length ? Math.min(...known) : 0;
      showTip(points.t[index], box.left + box.width * points.x[index] / 1000, follow ?? box.top + box.height * top / 1000);
    }

    function nearest(event) {
      const box = plot.getBoundingClientRect();
      const x = 1000 * (event.clientX - box.left) / box.width, y = 1000 * (event.clientY - box.top) / box.height;
      let best = 0, least = Infinity;
      points.x.forEach((place, index) => {
        let distance = Math.abs(place - x);
        if (points.s) distance = Math.hypot(distance * box.width, (points.y[0][index] - y) * box.height);
        if (distance < least) [best, least] = [index, distance];
      });
      return best;
    }

    function leave() {
      hideTip();
      cursor.hidden = true;
      dots.forEach((dot) => { dot.hidden = true; });
    }

    const follow = (event) => choose(nearest(event), points.s ? undefined : event.clientY);
    plot.addEventListener("pointermove", follow);
    plot.addEventListener("pointerdown", follow);
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) choose(current); });
    plot.addEventListener("keydown", (event) => {
      const last = points.x.length - 1;
      const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -last, End: last };
      if (event.key === "Escape") leave();
      if (!(event.key in steps)) return;
      event.preventDefault();
      choose(clamp(current + steps[event.key], 0, last));
    });
  }

  // A legend brings out one line.
  for (const button of document.querySelectorAll(".legend button")) {
    const chart = button.closest(".chart");
    const bring = (line) => {
      chart.classList.toggle("dimmed", line !== null);
      for (const path of chart.querySelectorAll(".plot path:not(.grid)")) {
        path.classList.toggle("chosen", line !== null && path.classList.contains(`s${line}`));
      }
    };
    const pressed = () => chart.querySelector(".legend button[aria-pressed=true]")?.dataset.line ?? null;
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      for (const other of chart.querySelectorAll(".legend button")) other.setAttribute("aria-pressed", other === button && on);
      bring(pressed());
    });
    button.addEventListener("pointerenter", () => bring(button.dataset.line));
    button.addEventListener("pointerleave", () => bring(pressed()));
  }

  // Boards of cells: a table, or a picture whose cells are counted off. `tell` gives the words of a cell.
  function board(element, rows, columns, readout, tell, show) {
    let row = 0, column = 0;
    function choose(newRow, newColumn, event) {
      [row, column] = [clamp(newRow, 0, rows - 1), clamp(newColumn, 0, columns - 1)];
      const text = tell(row, column);
      if (readout) readout.textContent = text;
      const box = show(row, column).getBoundingClientRect();
      if (event) showTip(text, event.clientX, event.clientY);
      else showTip(text, box.left + box.width / 2, box.top);
    }
    element.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
      if (event.key === "Escape") hideTip();
      if (!(event.key in steps)) return;
      event.preventDefault();
      choose(row + steps[event.key][0], column + steps[event.key][1]);
    });
    element.addEventListener("pointerleave", hideTip);
    element.addEventListener("blur", hideTip);
    return choose;
  }

  for (const table of document.querySelectorAll("table.confusion")) {
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].slice(1));
    const readout = table.parentElement.querySelector(".readout");
    const show = (row, column) => {
      table.querySelector("td.chosen")?.classList.remove("chosen");
      rows[row][column].classList.add("chosen");
      return rows[row][column];
    };
    const choose = board(table, rows.length, rows.length, readout, (row, column) => rows[row][column].dataset.tip, show);
    const point = (event) => {
      const cell = event.target.closest("td[data-tip]");
      if (cell) choose(cell.parentElement.sectionRowIndex, cell.cellIndex - 1, event);
    };
    table.addEventListener("pointermove", point);
    table.addEventListener("pointerdown", point);
  }

  for (const cells of document.querySelectorAll(".cells")) {
    const around = cells.closest("article");
    const matrix = cells.hasAttribute("data-matrix");
    const data = reading(cells, matrix ? "data-matrix" : "data-heat");
    const names = data.names, rows = names.length, columns = matrix ? rows : data.columns.length;
    const counts = names.map(() => new Map());
    const totals = names.map(() => 0);
    for (let i = 0; matrix && i < data.cells.length; i += 3) {
      counts[data.cells[i]].set(data.cells[i + 1], data.cells[i + 2]);
      totals[data.cells[i]] += data.cells[i + 2];
    }
    const share = (part, whole) => `${(whole ? 100 * part / whole : 0).toFixed(1)} %`;
    const tell = (row, column) => {
      if (!matrix) return `${names[row]}, ${data.columns[column]}: ${data.values[row][column]}`;
      const count = counts[row].get(column) ?? 0;
      const said = row === column ? "recognized" : `predicted as ${names[column]}`;
      return `${names[row]} ${said}: ${count} of ${totals[row]} samples (${share(count, totals[row])})`;
    };
    const frame = cells.appendChild(document.createElement("span"));
    frame.className = "frame-of-cell";
    frame.hidden = true;
    const show = (row, column) => {
      frame.hidden = false;
      frame.style.cssText = `left:${100 * column / columns}%;top:${100 * row / rows}%;width:${100 / columns}%;height:${100 / rows}%`;
      return frame;
    };
    const choose = board(cells, rows, columns, around.querySelector(".readout"), tell, show);
    const point = (event) => {
      const box = cells.getBoundingClientRect();
      const part = (place, size, number) => Math.floor(place / size * number);
      choose(part(event.clientY - box.top, box.height, rows), part(event.clientX - box.left, box.width, columns), event);
    };
    cells.addEventListener("pointermove", point);
    cells.addEventListener("pointerdown", point);
    cells.addEventListener("pointerleave", () => { frame.hidden = true; });
    const menu = around.querySelector("[data-menu]");
    if (!menu) continue;
    const became = around.querySelector(".became");
    const list = (title, entries) => {
      const box = became.appendChild(document.createElement("div"));
      box.appendChild(document.createElement("h4")).textContent = title;
      const items = box.appendChild(document.createElement("ul"));
      if (!entries.length) items.appendChild(document.createElement("li")).textContent = "none";
      for (const [name, count, whole] of entries.sort((a, b) => b[1] - a[1]).slice(0, 8)) {
        items.appendChild(document.createElement("li")).textContent = `${name}: ${count} (${share(count, whole)})`;
      }
    };
    const change = () => {
      const chosen = Number(menu.value);
      became.textContent = "";
      list(`${names[chosen]} was predicted as`, [...counts[chosen]].map(([to, count]) => [names[to], count, totals[chosen]]));
      const said = counts.map((row) => row.get(chosen) ?? 0);
      const whole = said.reduce((sum, count) => sum + count, 0);
      list(`What was predicted as ${names[chosen]}`, said.flatMap((count, row) => count ? [[names[row], count, whole]] : []));
    };
    menu.addEventListener("change", change);
    change();
  }

  // Tables are sorted by the column whose heading is pressed: down, then up.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const value = (row, column) => {
      const text = row.cells[column].dataset.v;
      return Number.isNaN(Number(text)) ? text : Number(text);
    };
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        const order = typeof x === "number" && typeof y === "number" ? x - y : `${x}`.localeCompare(`${y}`);
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    }));
  }

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {  // pages from a disk may not write to the clipboard in every browser
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
