// Binary messages: datagrams of data as in crates/wire/src/signal, but longer.

/** Where samples were lost, by their numbers on the wire. */
export const CAUSES = [
  'unknown',
  'source',
  'unselected',
  'station',
  'network',
  'host',
  'socket',
  'server',
  'viewer',
  'restart',
] as const;

export type Cause = (typeof CAUSES)[number];

/** Samples, buckets or a gap of one channel. */
export interface Block {
  /** Key of the channel. */
  key: number;
  /** Index of the first sample. */
  first: number;
  /** Its time, ms behind the base. */
  time: number;
  /** From one sample to the next, ms. */
  period: number;
  /** Samples that one of its values stands for. */
  bucket: number;
  /** Values of it; of a gap 0. */
  count: number;
  /** Reads a value: of samples one each, of buckets four: least, greatest, first, last. */
  value: (index: number) => number;
  /** Of a gap: how many samples, and why. */
  gap?: { samples: number; cause: Cause };
  isBucket: boolean;
}

const HEADER = 24;
const BLOCK = 36;
const SIZES = [4, 8, 2, 4];

/** Nanoseconds since 1970 that times are counted from: so that they keep their nanoseconds. */
let base: bigint | undefined;

/** A time as people count, ms since 1970. */
export function sinceEpoch(time: number): number {
  return Number((base ?? 0n) / 1_000_000n) + time;
}

/** A time, ms since 1970, as it is counted here. */
export function sinceBase(time: number): number {
  return time - Number((base ?? 0n) / 1_000_000n);
}

/** Hands out the blocks of a message. */
export function read(buffer: ArrayBuffer, take: (block: Block) => void): void {
  const view = new DataView(buffer);
  if (view.byteLength < HEADER || view.getUint16(0) !== 0x5753 || view.getUint8(2) !== 0x10) {
    throw new Error('a binary message is no datagram of data');
  }
  let at = HEADER;
  for (let left = view.getUint16(6, true); left > 0; left -= 1) {
    const [element, form, values] = [view.getUint8(at + 2), view.getUint8(at + 3), at + BLOCK];
    const time = view.getBigInt64(at + 16, true);
    base ??= (time / 1_000_000_000n) * 1_000_000_000n;
    const block: Block = {
      key: view.getUint16(at, true),
      first: Number(view.getBigUint64(at + 8, true)),
      time: Number(time - base) / 1e6,
      period: (view.getUint32(at + 28, true) / view.getUint32(at + 24, true)) * 1000,
      bucket: view.getUint32(at + 32, true),
      count: view.getUint16(at + 4, true),
      value: reader(view, element, values),
      isBucket: form === 1,
    };
    if (form === 2) {
      block.gap = {
        samples: Number(view.getBigUint64(values, true)),
        cause: CAUSES[view.getUint8(values + 8)] ?? 'unknown',
      };
      at = values + 12;
      block.count = 0;
    } else {
      at = values + block.count * (SIZES[element] ?? 4) * (form === 1 ? 4 : 1);
    }
    take(block);
  }
}

function reader(view: DataView, element: number, at: number): (index: number) => number {
  switch (element) {
    case 1:
      return index => view.getFloat64(at + 8 * index, true);
    case 2:
      return index => view.getInt16(at + 2 * index, true);
    case 3:
      return index => view.getInt32(at + 4 * index, true);
    default:
      return index => view.getFloat32(at + 4 * index, true);
  }
}
