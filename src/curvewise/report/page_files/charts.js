// ROC, precision and spread, and what all charts share: colours, axes, the theme.
"use strict";

const FINEST = 1e-4;

// Plotly reads a little HTML in texts; what comes from data must stay as it is.
const literal = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// The colours of the static figures, whose test holds them to these.
const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];

// On a dark ground colours are lighter, so that they keep their contrast.
function themed(color) {
  if (document.documentElement.dataset.theme !== "dark") return color;
  if (color === "#000000") return "#e8ebef";
  const part = (start) => Math.round(parseInt(color.slice(start, start + 2), 16) * 0.7 + 255 * 0.3);
  return `#${[1, 3, 5].map((start) => part(start).toString(16).padStart(2, "0")).join("")}`;
}

const methodColor = (method) => themed(COLORS[method % COLORS.length]);

function faded(color, opacity) {
  const part = (start) => parseInt(color.slice(start, start + 2), 16);
  return `rgba(${part(1)},${part(3)},${part(5)},${opacity})`;
}

function axis(title, more = {}) {
  const line = cssColor("line");
  return {
    title: { text: title, standoff: 8 }, gridcolor: line, linecolor: line, zerolinecolor: line,
    automargin: true, ...more,
  };
}

// Fingers drag the page, not the chart, and have no toolbar, which appears on hovering only.
const coarse = window.matchMedia("(pointer: coarse)").matches;

function layout(more) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: cssColor("text"), family: "system-ui, sans-serif", size: 13 },
    margin: { l: 52, r: 14, t: 14, b: 44 }, dragmode: coarse ? false : "zoom",
    hoverlabel: { bgcolor: cssColor("panel"), bordercolor: cssColor("line"), font: { color: cssColor("text") } },
    legend: { orientation: "h", y: -0.2, yanchor: "top", x: 0 }, showlegend: false,
    modebar: { bgcolor: "rgba(0,0,0,0)", color: faded(cssColor("text"), 0.35), activecolor: cssColor("text") }, ...more,
  };
}

// No chart goes to a server: the policy forbids requests, and this the window for an upload.
window.open = () => null;

// Buttons are named one by one, so that none is there which a later library adds: one of them
// uploads the chart.
const CONFIG = {
  responsive: true, displaylogo: false, displayModeBar: coarse ? false : "hover",
  modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  showSendToCloud: false, plotlyServerURL: "",
};

// The width of paper while it is printed on, whose charts cannot follow the window's.
let paper = null;

function draw(id, traces, shape, label) {
  const place = document.getElementById(id);
  if (paper) shape.width = place.closest(".pair, .panels") ? paper / 2 - 10 : paper;
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", label);
  return Plotly.react(place, traces, layout(shape), CONFIG);
}

// The lowest FPR of a logarithmic axis: a decade that holds one false alarm.
function lowestRate(state) {
  const most = Math.max(...state.data.models.map((model) => model.negatives));
  return Math.max(FINEST, 10 ** Math.floor(Math.log10(1 / most)));
}

function rateAxis(state) {
  if (state.scale === "log") {
    return axis("False positive rate", { type: "log", range: [Math.log10(lowestRate(state)), 0], dtick: 1, tickformat: "~%" });
  }
  const top = state.scale === "corner" ? 0.1 : 1;
  return axis("False positive rate", { range: [-0.02 * top, 1.02 * top], tickformat: "~%" });
}

const drawnRate = (state, fpr) => (state.scale === "log" ? Math.max(fpr, lowestRate(state)) : fpr);

function bandTraces(state, bands, x, curved) {
  const traces = [];
  for (const band of bands.filter((each) => each.group === state.group)) {
    const color = methodColor(band.method);
    const name = literal(state.data.methods[band.method]);
    const range = state.band === "range";
    const low = range ? band.low : band.mean.map((mean, i) => Math.max(0, mean - band.std[i]));
    const high = range ? band.high : band.mean.map((mean, i) => Math.min(1, mean + band.std[i]));
    const edge = { x, mode: "lines", line: { width: 0.8, color, dash: "dash" }, hoverinfo: "skip", showlegend: false, legendgroup: name };
    traces.push({ ...edge, y: low }, { ...edge, y: high, fill: "tonexty", fillcolor: faded(color, 0.16) });
    traces.push({
      x, y: band.mean, mode: "lines", line: { color, width: 2 }, name: `${name}, mean of ${band.models}`, legendgroup: name,
      hovertemplate: `${curved ? "recall %{x:.1%}, precision %{y:.2%}" : "FPR %{x:.2%}, TPR %{y:.2%}"}<extra>${name}</extra>`,
    });
  }
  return traces;
}

function everyCurve(state) {
  return state.data.methods.map((name, method) => {
    const x = [];
    const y = [];
    const customdata = [];
    for (const model of state.data.models) {
      if (model.group !== state.group || model.method !== method) continue;
      const curve = state.curves[model.index];
      const about = { model: model.index, name: literal(modelName(state.data, model)) };
      for (const i of visible(curve, state.scale === "log")) {
        x.push(drawnRate(state, curve.fpr[i]));
        y.push(curve.tpr[i]);
        customdata.push(about);
      }
      x.push(null);
      y.push(null);
      customdata.push(null);
    }
    return {
      x, y, customdata, mode: "lines", name: `${literal(name)}, each`,
      hovertemplate: "%{customdata.name}<br>TPR %{y:.2%}, FPR %{x:.3%}<extra></extra>",
      line: { width: 0.8, color: faded(methodColor(method), 0.45) },
    };
  }).filter((trace) => trace.x.length);
}

function selectedTrace(state, width = 2.4) {
  const curve = state.curves[state.model];
  const model = state.data.models[state.model];
  const single = state.data.corners.bytes === 4;
  return {
    x: Array.from(curve.fpr, (fpr) => drawnRate(state, fpr)), y: Array.from(curve.tpr), mode: "lines",
    line: { color: cssColor("text"), width }, name: "selected model",
    customdata: Array.from(curve.thresholds, (threshold) => thresholdText(threshold, single)),
    text: Array(curve.fpr.length).fill(literal(modelName(state.data, model))),
    hovertemplate: "%{text}<br>TPR %{y:.2%}, FPR %{x:.3%}<br>threshold %{customdata}<extra></extra>",
  };
}

const chance = (state) => {
  const x = Array.from({ length: 61 }, (_, i) => 10 ** (-4 + i / 15));
  const line = state.scale === "log" ? x : [0, 1];
  return { x: line, y: line, mode: "lines", line: { color: cssColor("line"), width: 1 }, hoverinfo: "skip", showlegend: false };
};

function drawRoc(state) {
  const { data } = state;
  const x = data.grid.map((fpr) => drawnRate(state, fpr));
  const every = state.every || data.swept ? everyCurve(state) : [];
  document.getElementById("roc-click").hidden = !every.length;
  const traces = [chance(state), ...bandTraces(state, data.bands, x, false), ...every, selectedTrace(state, 1.2)];
  const shape = { xaxis: rateAxis(state), yaxis: axis("True positive rate", { range: [-0.02, 1.02], tickformat: "~%" }), showlegend: true };
  return draw("roc-chart", traces, shape, "ROC curves");
}

function drawPrecision(state) {
  const { data } = state;
  const model = data.models[state.model];
  const share = model.positives / (model.positives + model.negatives);
  const [recall, precision] = precisionLine(state.curves[state.model], share);
  const selected = {
    x: recall, y: precision, mode: "lines", line: { color: cssColor("text"), width: 1.2 }, name: "selected model",
    hovertemplate: "recall %{x:.1%}, precision %{y:.2%}<extra>selected model</extra>",
  };
  const base = { x: [0, 1], y: [share, share], mode: "lines", line: { color: cssColor("line"), width: 1 }, hoverinfo: "skip", showlegend: false };
  const traces = [base, ...bandTraces(state, data.precision, data.recall, true), selected];
  const shape = {
    xaxis: axis("Recall (true positive rate)", { range: [-0.02, 1.02], tickformat: "~%" }),
    yaxis: axis("Precision", { range: [-0.02, 1.02], tickformat: "~%" }), showlegend: true,
  };
  return draw("precision-chart", traces, shape, "Precision against recall");
}

function drawSpread(state) {
  const { data } = state;
  const several = data.groups.length > 1;
  const traces = data.methods.map((name, method) => {
    const own = data.models.filter((model) => model.method === method);
    const color = methodColor(method);
    const selected = own.findIndex((model) => model.index === state.model);
    return {
      type: "box", name: literal(name), y: own.map((model) => model.auc), boxpoints: "all", jitter: 0.7, pointpos: 0,
      x: own.map((model) => (several ? literal(data.groups[model.group].name) : literal(name))),
      marker: { color, size: 5, opacity: 0.6 }, line: { width: 1.4, color }, fillcolor: "rgba(0,0,0,0)",
      selectedpoints: selected < 0 ? [] : [selected], unselected: { marker: { opacity: 0.6 } },
      selected: { marker: { color: cssColor("text"), size: 12, opacity: 1 } },
      customdata: own.map((model) => ({ model: model.index })), hoveron: "points",
      text: own.map((model) => literal(modelName(data, model))), hovertemplate: "%{text}<br>AUC %{y:.4f}<extra></extra>",
    };
  });
  const shape = { xaxis: axis("", { type: "category" }), yaxis: axis("AUC"), boxmode: several ? "group" : "overlay", showlegend: several };
  return draw("spread-chart", traces, shape, "AUC of every model by method");
}
