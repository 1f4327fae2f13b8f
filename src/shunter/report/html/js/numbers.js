"use strict";
// Numbers as people read them, and the ticks of axes; the same texts as in the terminal (see tables.py).

const Numbers = (() => {
  const MINUTE = 60;
  const HOUR = 3600;
  const DAY = 86400;

  // ------------------------------------------------------------------------------------------- numbers in words

  const number = (value) => {
    const size = Math.abs(value);
    if (size < 0.005) return "0";
    const digits = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const unitOf = (seconds) =>
    seconds < MINUTE ? [1, "s"] : seconds < HOUR ? [MINUTE, "m"] : seconds < DAY ? [HOUR, "h"] : [DAY, "d"];
  const duration = (seconds) => {
    const [length, unit] = unitOf(Math.abs(seconds));
    return `${number(seconds / length)} ${unit}`;
  };
  const elapsed = (seconds) => {
    let rest = Math.round(Math.abs(seconds));
    const parts = [];
    for (const length of [DAY, HOUR, MINUTE, 1]) {
      const whole = Math.floor(rest / length);
      rest -= whole * length;
      if (whole) parts.push(`${whole.toLocaleString("en")} ${unitOf(length)[1]}`);
    }
    return (seconds < 0 ? "-" : "") + (parts.slice(0, 3).join(" ") || "0");
  };
  const formats = {
    duration,
    elapsed,
    number,
    count: (value) => Math.round(value).toLocaleString("en"),
    share: (value) => `${(100 * value).toFixed(1)} %`,
  };
  // A time that needs no parts smaller than a tenth of the step between ticks.
  const rounded = (step) => (seconds) => {
    const unit = [DAY, HOUR, MINUTE, 1].find((length) => length <= step / 4) || 1;
    return elapsed(Math.round(seconds / unit) * unit);
  };
  const date = (seconds, digits = 16) =>
    new Date(Math.round(seconds * 1000)).toISOString().slice(0, digits).replace("T", " ");
  // A place on an axis: a date where the axis has them, of which days need no hours.
  const placed = (axis, value) => {
    if (axis.origin === null || axis.origin === undefined) return written(axis.unit, value);
    const pace = axis.values ? axis.values[1] - axis.values[0] : 0;
    return date(axis.origin + value, pace && pace % DAY === 0 ? 10 : 16);
  };
  const written = (unit, value) => (value === null || value === undefined ? "–" : formats[unit](value));

  // ------------------------------------------------------------------------------------------- ticks

  const niceStep = (span, most) => {
    const raw = span / Math.max(most, 1),
      power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw * 0.999);
  };
  // prettier-ignore
  const TIME_STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
    ...[1, 2, 3, 7, 14, 30, 90, 180, 365].map((n) => n * DAY)];
  const timeStep = (span, most) => TIME_STEPS.find((step) => span / step <= most) || niceStep(span / DAY, most) * DAY;
  const multiples = (low, high, step) => {
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) ticks.push(i * step || 0);
    return ticks;
  };
  // Ticks of an axis with dates: first days of months, Mondays, or whole days, hours, minutes.
  const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120];
  const dates = (origin, low, high, most) => {
    const wide = timeStep(high - low, most);
    const step = wide >= MINUTE && wide < DAY ? timeStep(high - low, 0.8 * most) : wide; // a date with a time is longer
    const digits = step >= DAY ? [0, 10] : step >= MINUTE ? [5, 16] : [11, 19];
    const label = (tick) => date(origin + tick, digits[1]).slice(digits[0]);
    if (step > 14 * DAY) return { ticks: months(origin, low, high, most), label };
    const shift = (step % (7 * DAY) === 0 ? 4 * DAY : 0) - origin; // the first Monday was 5 January 1970
    return { ticks: multiples(low - shift, high - shift, step).map((tick) => tick + shift), label };
  };
  const months = (origin, low, high, most) => {
    const step = MONTHS.find((count) => (high - low) / (count * 30 * DAY) <= most) || 1200;
    const first = new Date((origin + low) * 1000);
    const ticks = [];
    for (let month = 0; ; month += step) {
      const begin = first.getUTCMonth() - (first.getUTCMonth() % step) + month;
      const tick = Date.UTC(first.getUTCFullYear(), begin) / 1000 - origin;
      if (tick > high) return ticks;
      if (tick >= low) ticks.push(tick);
    }
  };
  // prettier-ignore
  const LOG_TIMES = [0.001, 0.01, 0.1, 1, 10, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR,
    ...[1, 10, 100, 1000].map((n) => n * DAY)];
  const powers = (low, high) => multiples(Math.log10(low), Math.log10(high), 1).map((power) => 10 ** power);

  // Where a log axis ends: at a number that can be written, so that the axis is labelled to its end.
  const FINE_TIMES = [...[1, 2, 5, 10, 20, 30], ...[1, 2, 5, 10, 20, 30].map((n) => n * MINUTE),
    ...[1, 2, 5, 10].map((n) => n * HOUR), ...[1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000].map((n) => n * DAY)];
  const endOf = (unit, high) => {
    const power = 10 ** Math.floor(Math.log10(high));
    const round = [1, 2, 5, 10].map((n) => n * power);
    return (unit === "duration" && FINE_TIMES.find((time) => time >= high * 0.999)) || round.find((n) => n >= high * 0.999);
  };
  // Ticks up to the end of the axis, which has a label of its own; `room` is what a label needs.
  const toTheEnd = (ticks, high, step, room) => {
    const apart = Math.min(0.99 * step, Math.max(0.6 * step, room));
    return [...ticks.filter((tick) => high - tick > apart), high];
  };

  // The scale of an axis: its range, its ticks, and their texts; log axes are drawn as log10 of their values.
  const scale = (axis, low, high, most) => {
    if (axis.log) {
      const all = axis.unit === "duration" ? LOG_TIMES : powers(low, high);
      const end = endOf(axis.unit, high);
      let ticks = all.filter((tick) => tick >= low * 0.999 && tick < end);
      while (ticks.length > Math.max(most - 1, 1)) ticks = ticks.filter((_, i) => i % 2 === 0);
      const room = Math.log(end / low) / (most + 1); // between the last two
      ticks = [...ticks.filter((tick) => Math.log(end / tick) > room), end];
      high = end;
      const plain = (tick) => (axis.unit === "duration" ? elapsed(tick) : tick.toLocaleString("en"));
      const label = (tick) => (axis.floor && tick <= low * 1.001 ? `≤ ${plain(tick)}` : plain(tick));
      return {
        min: Math.log10(low),
        max: Math.log10(high),
        ticks: ticks.map(Math.log10),
        label: (at) => label(+(10 ** at).toPrecision(6)),
      };
    }
    const span = high - low || 1;
    if (axis.unit === "elapsed" && axis.origin)
      return { min: low, max: high, ...dates(axis.origin, low, high, most * 0.9) }; // dates are long
    if (axis.unit === "elapsed") {
      const step = timeStep(span, most);
      return { min: low, max: high, ticks: toTheEnd(multiples(low, high, step), high, step, span / most), label: rounded(step) };
    }
    const [length, unit] = axis.unit === "duration" ? unitOf(high / 3) : [1, ""];
    const step = axis.unit === "count" ? Math.max(1, niceStep(span, most)) : niceStep(span / length, most) * length;
    const end = Math.min(axis.top ?? Infinity, Math.ceil(high / step - 1e-6) * step);
    const ticks = multiples(low, end, step);
    const short = (tick) => {
      if (axis.unit === "share") return `${+(100 * tick).toPrecision(3)} %`;
      if (axis.unit === "duration") return tick ? `${+(tick / length).toPrecision(3)} ${unit}` : "0";
      return (+tick.toPrecision(6)).toLocaleString("en");
    };
    return { min: low, max: Math.max(end, low + 1e-9), ticks, label: short };
  };

  return { formats, date, placed, written, scale };
})();
