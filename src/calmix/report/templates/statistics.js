// The statistics of the page, in double precision, equal to calmix.calibration. Rows that cannot be told apart
// (equal confidence, or one cell of a large page) are a group; a view lists its groups from the least confident up:
//   { n, confidence: mean of the group, lower: the least threshold that accepts nothing below it, rows, right, nll }

// ---- special functions ---------------------------------------------------------------------------------
const LANCZOS = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
                 -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
function logGamma(x) {
  if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * x))) - logGamma(1 - x);
  let sum = LANCZOS[0];
  for (let i = 1; i < 9; i++) sum += LANCZOS[i] / (x - 1 + i);
  const t = x + 6.5;
  return 0.9189385332046727 + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

function betaFraction(a, b, x) {                   // Lentz's continued fraction
  const tiny = 1e-300;
  let c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (Math.abs(d) < tiny ? tiny : d);
  let value = d;
  for (let m = 1; m < 20000; m++) {
    for (const term of [m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                        -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))]) {
      d = 1 + term * d; c = 1 + term / c;
      d = 1 / (Math.abs(d) < tiny ? tiny : d);
      if (Math.abs(c) < tiny) c = tiny;
      value *= d * c;
    }
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return value;
}

function incompleteBeta(a, b, x) {                 // regularised: I_x(a, b)
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * betaFraction(a, b, x) / a : 1 - front * betaFraction(b, a, 1 - x) / b;
}

function inverseBeta(a, b, share) {
  let low = 0, high = 1;
  for (let i = 0; i < 60 && high - low > 1e-15; i++) {
    const middle = (low + high) / 2;
    if (incompleteBeta(a, b, middle) < share) low = middle; else high = middle;
  }
  return (low + high) / 2;
}

// ---- intervals and noise -------------------------------------------------------------------------------
function clopperPearson(right, rows, level = 0.95) {
  const tail = (1 - level) / 2;
  return [right > 0 ? inverseBeta(right, rows - right + 1, tail) : 0,
          right < rows ? inverseBeta(right + 1, rows - right, 1 - tail) : 1];
}

// The share of right answers that a perfectly calibrated model shows in 95 of 100 draws: the quantiles of a binomial number.
function noiseBand(rows, confidence) {
  const cumulative = (k) => (k >= rows ? 1 : incompleteBeta(rows - k, k + 1, 1 - confidence));   // P(X <= k)
  const quantile = (share) => {
    let low = -1, high = rows;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (cumulative(middle) >= share) high = middle; else low = middle;
    }
    return high / rows;
  };
  return confidence >= 1 ? [1, 1] : [quantile(0.025), quantile(0.975)];
}

// E|X - np| of a binomial number (De Moivre): what the bin adds to the ECE of a perfectly calibrated model.
function meanDeviation(rows, share) {
  if (share <= 0 || share >= 1) return 0;
  const v = Math.floor(rows * share) + 1;
  const log = Math.log(2 * v) + logGamma(rows + 1) - logGamma(v + 1) - logGamma(rows - v + 1)
    + v * Math.log(share) + (rows - v + 1) * Math.log1p(-share);
  return v > rows ? 0 : Math.exp(log);
}

// ---- bins ----------------------------------------------------------------------------------------------
function widthBin(confidence, bins, closed) {      // edges k/M; floor(c M) alone misplaces exact edges
  let k = Math.floor(confidence * bins);
  if (closed === "right") {
    if (confidence <= k / bins) k--;
    if (confidence > (k + 1) / bins) k++;
  } else {
    k = Math.min(k, bins - 1);
    if (confidence < k / bins) k--;
    if (confidence >= (k + 1) / bins) k++;
  }
  return Math.min(Math.max(k, 0), bins - 1);
}

// Every filled bin with its first and last group, counts and means.
function binned(view, bins, mass, closed) {
  const found = [];
  let before = 0, one = null;
  for (let g = 0; g < view.rows.length; g++) {
    const rows = view.rows[g];
    const k = mass ? Math.min(Math.floor((2 * before + rows) / 2 * bins / view.n), bins - 1)
                   : widthBin(view.confidence[g], bins, closed);
    before += rows;
    if (!one || one.bin !== k) {
      one = { bin: k, first: g, last: g, rows: 0, right: 0, said: 0,
              low: mass ? view.confidence[g] : k / bins, high: (k + 1) / bins };
      found.push(one);
    }
    one.last = g; one.rows += rows; one.right += view.right[g]; one.said += rows * view.confidence[g];
    if (mass) one.high = view.confidence[g];
  }
  for (const bin of found) {
    bin.accuracy = bin.right / bin.rows;
    bin.confidence = bin.said / bin.rows;
    [bin.accuracyLow, bin.accuracyHigh] = clopperPearson(bin.right, bin.rows);
    [bin.noiseLow, bin.noiseHigh] = noiseBand(bin.rows, bin.confidence);
  }
  return found;
}
const calibrationError = (bins, n) => bins.reduce((sum, bin) => sum + Math.abs(bin.said - bin.right), 0) / n;
const expectedNoise = (bins, n) => bins.reduce((sum, bin) => sum + meanDeviation(bin.rows, bin.confidence), 0) / n;

// ---- acceptance ----------------------------------------------------------------------------------------
function riskCoverage(view) {                      // from the most confident group down
  const points = [];
  let rows = 0, wrong = 0;
  for (let g = view.rows.length - 1; g >= 0; g--) {
    rows += view.rows[g]; wrong += view.rows[g] - view.right[g];
    points.push({ threshold: view.lower[g], rows, wrong, coverage: rows / view.n, risk: wrong / rows });
  }
  return points;
}

// A threshold above which new rows of the same kind reach the target, with probability 1 - delta: fixed-sequence
// testing from coverages n, n/2, n/4, ... (calmix.calibration.metrics.selective).
function guaranteedThreshold(view, target, delta = 0.05) {
  const points = riskCoverage(view);
  const fewest = (level) => Math.ceil(Math.log(level) / Math.log(target) - 1e-12);
  const starts = [view.n];
  while (Math.floor(starts.at(-1) / 2) >= fewest(delta / (starts.length + 1))) starts.push(Math.floor(starts.at(-1) / 2));
  const level = delta / starts.length;
  const known = new Map();
  const passes = (at) => {
    if (!known.has(at)) {
      const { rows, wrong } = points[at];
      known.set(at, rows > wrong && incompleteBeta(rows - wrong, wrong + 1, target) <= level);
    }
    return known.get(at);
  };
  let best = -1;
  for (const start of starts) {
    let at = points.findIndex((point) => point.rows >= start);
    if (at <= best) continue;
    while (at < points.length && passes(at)) { best = Math.max(best, at); at++; }
  }
  if (best < 0) return null;
  const { rows, wrong } = points[best];
  return { threshold: best === points.length - 1 ? 0 : points[best].threshold, rows, coverage: rows / view.n,
           bound: inverseBeta(rows - wrong, wrong + 1, level) };
}
