"use strict";
// Unpacks zlib data (RFC 1951) synchronously: the browser's own function returns later, and a page that is printed as
// soon as it is loaded would have gaps.

const inflate = (() => {
  const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]; // in which code lengths come
  // Numbers from `first` on, as a base and a number of extra bits: the first `alone` have none, then every `each` get one more.
  const ranges = (first, count, alone, each) => {
    const found = [];
    for (let i = 0, base = first; i < count; i++) {
      const more = i < alone ? 0 : Math.floor((i - alone) / each) + 1;
      found.push([base, more]);
      base += 1 << more;
    }
    return found;
  };
  const LENGTHS = [...ranges(3, 28, 8, 4), [258, 0]];
  const DISTANCES = ranges(1, 30, 4, 2);

  // Codes from their lengths: how many there are of each length, and what they stand for in ascending order.
  const codes = (lengths) => {
    const counts = new Uint16Array(16);
    for (const length of lengths) counts[length]++;
    counts[0] = 0;
    const symbols = [];
    for (let length = 1; length < 16; length++)
      lengths.forEach((own, symbol) => own === length && symbols.push(symbol));
    return { counts, symbols };
  };
  const run = (...parts) => parts.flatMap(([length, count]) => Array(count).fill(length));
  const FIXED = [codes(run([8, 144], [9, 112], [7, 24], [8, 8])), codes(run([5, 30]))];

  return (bytes) => {
    let [out, end, at, held, kept] = [new Uint8Array(bytes.length * 4 + 64), 0, 0, 0, 0];
    const bits = (count) => {
      for (; kept < count; kept += 8) held |= bytes[at++] << kept;
      const value = held & ((1 << count) - 1);
      held >>>= count;
      kept -= count;
      return value;
    };
    const symbol = ({ counts, symbols }) => {
      for (let length = 1, code = 0, first = 0, index = 0; ; length++) {
        code = (code << 1) | bits(1);
        first <<= 1;
        if (code - first < counts[length]) return symbols[index + code - first];
        index += counts[length];
        first += counts[length];
      }
    };
    const room = (more) => {
      if (end + more <= out.length) return;
      const wider = new Uint8Array(2 * (end + more));
      wider.set(out);
      out = wider;
    };
    const stored = () => {
      [held, kept] = [0, 0];
      const count = bytes[at] | (bytes[at + 1] << 8);
      room(count);
      out.set(bytes.subarray(at + 4, at + 4 + count), end);
      at += 4 + count;
      end += count;
    };
    const own = () => {
      const [plain, far, few] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
      const short = Array(19).fill(0);
      for (let i = 0; i < few; i++) short[ORDER[i]] = bits(3);
      const code = codes(short);
      const lengths = [];
      while (lengths.length < plain + far) {
        const next = symbol(code);
        if (next < 16) lengths.push(next);
        else if (next === 16) lengths.push(...Array(3 + bits(2)).fill(lengths.at(-1)));
        else lengths.push(...Array(next === 17 ? 3 + bits(3) : 11 + bits(7)).fill(0));
      }
      return [codes(lengths.slice(0, plain)), codes(lengths.slice(plain))];
    };
    const packed = ([plain, far]) => {
      for (;;) {
        const next = symbol(plain);
        if (next === 256) return;
        room(258);
        if (next < 256) {
          out[end++] = next;
          continue;
        }
        const [length, more] = LENGTHS[next - 257];
        const stop = end + length + bits(more);
        const [distance, further] = DISTANCES[symbol(far)];
        const back = distance + bits(further);
        for (; end < stop; end++) out[end] = out[end - back];
      }
    };
    for (let last = 0; !last; ) {
      last = bits(1);
      const kind = bits(2);
      kind === 0 ? stored() : packed(kind === 1 ? FIXED : own());
    }
    return out.subarray(0, end);
  };
})();
