// Operating points as `curvewise.roc.operating` has them: the same corners, the same tie rule.
"use strict";

// log of the gamma function: shifted up to where Stirling's series has all digits.
function logGamma(x) {
  let shift = 0;
  while (x < 12) {
    shift -= Math.log(x);
    x += 1;
  }
  const square = 1 / (x * x);
  const series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x;
  return shift + (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series;
}

// The continued fraction of the regularised incomplete beta function, by Lentz's method.
function betaFraction(a, b, x) {
  const tiny = 1e-300;
  let c = 1;
  let d = 1 - ((a + b) * x) / (a + 1);
  d = 1 / (Math.abs(d) < tiny ? tiny : d);
  let value = d;
  for (let m = 1; m < 10000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    for (const term of [even, odd]) {
      d = 1 + term * d;
      c = 1 + term / c;
      d = 1 / (Math.abs(d) < tiny ? tiny : d);
      if (Math.abs(c) < tiny) c = tiny;
      value *= c * d;
    }
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return value;
}

function incompleteBeta(a, b, x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const log = logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x);
  if (x > (a + 1) / (a + b + 2)) return 1 - (Math.exp(log) * betaFraction(b, a, 1 - x)) / b;
  return (Math.exp(log) * betaFraction(a, b, x)) / a;
}

// Bisection in the logit, so that limits near 0 and 1 keep their digits.
function inverseBeta(share, a, b) {
  let low = -745;
  let high = 745;
  for (let step = 0; step < 70; step += 1) {
    const middle = (low + high) / 2;
    const x = middle < 0 ? Math.exp(middle) / (1 + Math.exp(middle)) : 1 / (1 + Math.exp(-middle));
    if (incompleteBeta(a, b, x) < share) low = middle;
    else high = middle;
  }
  const middle = (low + high) / 2;
  return middle < 0 ? Math.exp(middle) / (1 + Math.exp(middle)) : 1 / (1 + Math.exp(-middle));
}

// Exact (Clopper-Pearson) interval of a rate.
function rateInterval(successes, trials, level = 0.95) {
  const tail = (1 - level) / 2;
  const low = successes ? inverseBeta(tail, successes, trials - successes + 1) : 0;
  const high = successes < trials ? inverseBeta(1 - tail, successes + 1, trials - successes) : 1;
  return [low, high];
}

function precisionAt(tpr, fpr, prevalence) {
  const called = tpr * prevalence + fpr * (1 - prevalence);
  return called > 0 ? (tpr * prevalence) / called : NaN;
}

// The index of the corner that a rule chooses; the first among equals has the highest threshold.
function chooseCorner(curve, rule, value, prevalence) {
  const { fpr, tpr } = curve;
  let best = 0;
  if (rule === "maxFpr") {
    for (let i = 1; i < fpr.length && fpr[i] <= value; i += 1) if (tpr[i] > tpr[best]) best = i;
  } else if (rule === "minTpr") {
    while (tpr[best] < value) best += 1;
    const level = fpr[best];
    for (let i = best + 1; i < fpr.length && fpr[i] === level; i += 1) if (tpr[i] > tpr[best]) best = i;
  } else if (rule === "threshold") {
    while (best + 1 < fpr.length && curve.thresholds[best + 1] >= value) best += 1;
  } else {
    let least = Infinity;
    for (let i = 0; i < fpr.length; i += 1) {
      const cost = value * prevalence * (1 - tpr[i]) + (1 - prevalence) * fpr[i];
      if (cost < least) {
        least = cost;
        best = i;
      }
    }
  }
  return best;
}

function pointAt(curve, index, prevalence) {
  const tp = curve.true[index];
  const fp = curve.false[index];
  const positives = curve.true[curve.true.length - 1];
  const negatives = curve.false[curve.false.length - 1];
  const share = prevalence === null ? positives / (positives + negatives) : prevalence;
  const tpr = tp / positives;
  const fpr = fp / negatives;
  return {
    threshold: curve.thresholds[index], tpr, fpr, tp, fp, fn: positives - tp, tn: negatives - fp,
    tprInterval: rateInterval(tp, positives), fprInterval: rateInterval(fp, negatives),
    prevalence: share, ppv: precisionAt(tpr, fpr, share),
    alarms: 1000 * (tpr * share + fpr * (1 - share)),
  };
}

// The shortest decimal that calls the same scores positive as the threshold, and is not higher.
function thresholdText(threshold, single) {
  if (!Number.isFinite(threshold)) return threshold > 0 ? "inf" : "-inf";
  const below = single ? floatBelow(threshold) : threshold;
  for (let digits = 1; digits <= 17; digits += 1) {
    const [mantissa, power] = threshold.toExponential(digits - 1).split("e");
    const lower = (Number(mantissa) - 10 ** (1 - digits)).toFixed(digits - 1);
    for (const near of [Number(`${mantissa}e${power}`), Number(`${lower}e${power}`)]) {
      if (near <= threshold && (near > below || near === threshold)) return String(near);
    }
  }
  return String(threshold);
}

function floatBelow(value) {
  const floats = new Float32Array([value]);
  const bits = new Int32Array(floats.buffer);
  if (floats[0] === 0) return -1.401298464324817e-45;
  bits[0] += floats[0] > 0 ? -1 : 1;
  return floats[0];
}
