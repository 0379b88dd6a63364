// sFlow of a small network, as its switches would send it: conversations, counters, discarded packets, queues. All of it is
// arithmetic, so that what a page shows can be reckoned.

import dgram from 'node:dgram';
import { readFileSync } from 'node:fs';

/** Between two packets that are sampled, as the agents say and as it is. */
export const RATE = 100;

class Writer {
  parts = [];

  u32(...values) {
    const buffer = Buffer.alloc(4 * values.length);
    for (const [index, value] of values.entries()) buffer.writeUInt32BE(value >>> 0, 4 * index);
    this.parts.push(buffer);
    return this;
  }

  u64(value) {
    const buffer = Buffer.alloc(8);
    buffer.writeBigUInt64BE(BigInt(Math.round(value)));
    this.parts.push(buffer);
    return this;
  }

  opaque(bytes) {
    this.u32(bytes.length);
    this.parts.push(bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4));
    return this;
  }

  /** A structure with its format before it. */
  within(format, write) {
    const inner = new Writer();
    write(inner);
    this.u32(format);
    return this.opaque(inner.bytes());
  }

  bytes() {
    return Buffer.concat(this.parts);
  }
}

/** Numbers from 0 to 1 that follow from the seed (mulberry32). */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Ethernet, IPv4 and UDP headers of a frame. */
function frame({ from, to, port, source = 40000, bytes }) {
  const header = Buffer.alloc(42);
  header.set([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
  header.writeUInt16BE(bytes - 18, 16);
  header.set([64, 17], 22);
  header.set(from.split('.').map(Number), 26);
  header.set(to.split('.').map(Number), 30);
  header.writeUInt16BE(source, 34);
  header.writeUInt16BE(port, 36);
  return header;
}

/** A switch. */
export class Agent {
  sequence = 0;
  discards = 0;
  /** Sequence numbers and pools, by data source. */
  counts = new Map();

  constructor(address, { host, interfaces = 4, names = index => `swp${index}`, speed = 1e9 } = {}) {
    Object.assign(this, { address, host, interfaces, names, speed });
    this.octets = new Array(interfaces + 1).fill(0);
    this.began = Date.now() - 3_600_000;
  }

  /** The next number of a sequence. */
  next(of, step = 1) {
    const count = (this.counts.get(of) ?? 0) + step;
    this.counts.set(of, count);
    return count;
  }

  datagram(samples) {
    this.sequence += 1;
    const writer = new Writer().u32(5, 1);
    writer.parts.push(Buffer.from(this.address.split('.').map(Number)));
    writer.u32(0, this.sequence, Date.now() - this.began, samples.length);
    writer.parts.push(...samples);
    return writer.bytes();
  }

  /** A packet that was sampled by the interface. */
  packet(conversation, { input = 1, output = 2, depth, delay } = {}) {
    const [number, pool] = [this.next(`samples ${input}`), this.next(`pool ${input}`, RATE)];
    const records = [header(conversation)];
    if (depth !== undefined) records.push(new Writer().within(1040, writer => writer.u32(depth)).bytes());
    if (delay !== undefined) records.push(new Writer().within(1039, writer => writer.u32(delay)).bytes());
    return new Writer()
      .within(1, writer => {
        writer.u32(number, input, RATE, pool, 0, input, output, records.length);
        writer.parts.push(...records);
      })
      .bytes();
  }

  /** A packet that was dropped; one that did not come in by an interface has 0. */
  dropped(conversation, reason, input = 1) {
    const number = this.next(`drops ${input}`);
    return new Writer()
      .within(5, writer => {
        writer.u32(number, 0, input, 0, input, 0, reason, 1);
        writer.parts.push(header(conversation));
      })
      .bytes();
  }

  /** Counters of an interface that has carried so many bytes more. */
  counters(index, octets, discards = 0) {
    const number = this.next(`polls ${index}`);
    this.discards += discards;
    this.octets[index] += octets;
    const all = this.octets[index];
    const name = Buffer.from(this.names(index));
    return new Writer()
      .within(2, writer => {
        writer.u32(number, index, 2);
        writer.within(1, record => {
          record.u32(index, 6).u64(this.speed).u32(1, 3);
          record.u64(all).u32(all / 1000, 0, 0, discards > 0 ? this.discards : 0, 0, 0);
          record.u64(all / 2).u32(all / 2000, 0, 0, 0, 0, 0);
        });
        writer.within(1005, record => record.opaque(name));
      })
      .bytes();
  }

  /** Its name. */
  named() {
    return new Writer()
      .within(2, writer => {
        writer.u32(this.next('named'), (2 << 24) | 1, 1);
        writer.within(2000, record => {
          record.opaque(Buffer.from(this.host));
          record.parts.push(Buffer.alloc(16));
          record.u32(3, 2).opaque(Buffer.from('6.1'));
        });
      })
      .bytes();
  }
}

function header(conversation) {
  return new Writer().within(1, writer => writer.u32(1, conversation.bytes, 4).opaque(frame(conversation))).bytes();
}

/** Sends datagrams to a collector. */
export class Sender {
  socket = dgram.createSocket('udp4');

  constructor(to) {
    const [host, port] = to.split(':');
    this.to = [Number(port), host];
  }

  send(bytes) {
    return new Promise((done, failed) =>
      this.socket.send(bytes, ...this.to, error => (error ? failed(error) : done())),
    );
  }

  /** Waits until no more than so many bytes wait to be read where it sends to: what stands still loses what has no room. */
  async drained(most) {
    const port = `:${this.to[0].toString(16).toUpperCase().padStart(4, '0')}`;
    // sl, local address, remote address, state, bytes to be sent and to be read.
    const waiting = () =>
      readFileSync('/proc/net/udp', 'utf8')
        .split('\n')
        .map(line => line.trim().split(/\s+/))
        .filter(fields => fields[1]?.endsWith(port))
        .reduce((sum, fields) => sum + Number.parseInt(fields[4].split(':')[1], 16), 0);
    for (const begin = performance.now(); waiting() > most; ) {
      if (performance.now() - begin > 30_000) throw new Error(`${waiting()} bytes are not read`);
      await new Promise(later => setTimeout(later, 4));
    }
  }

  close() {
    this.socket.close();
  }
}

/** A network of eight switches on which something goes on, one of which is in trouble in each way. */
export class Network {
  agents = Array.from({ length: 8 }, (_, index) => {
    const number = index + 1;
    return new Agent(`10.1.0.${number}`, { host: number < 7 ? `leaf${number}` : `spine${number - 6}`, interfaces: 24 });
  });
  /** Each passes a leaf and a spine. */
  conversations = Array.from({ length: 40 }, (_, index) => ({
    from: `192.0.2.${index + 1}`,
    to: `198.51.100.${(index % 7) + 1}`,
    port: [443, 53, 4789, 2049][index % 4],
    bytes: 1400,
    share: 1 / (index + 1),
    path: [index % 6, 6 + (index % 2)],
    input: 1 + (index % 9),
  }));
  second = 0;
  random = random(Number(process.env.WEIR_SEED ?? 1));

  constructor(sender) {
    this.sender = sender;
  }

  /** What happens in a tenth of a second. */
  async tick() {
    this.second += 0.1;
    const waiting = this.agents.map(() => []);
    for (let packet = 0; packet < 60; packet++) {
      const conversation = this.draw();
      for (const hop of conversation.path) {
        const { input } = conversation;
        const [depth, delay] = [2000 * hop + 500, 1000 + 800 * hop];
        waiting[hop].push(this.agents[hop].packet(conversation, { input, output: 10 + (input % 4), depth, delay }));
      }
    }
    waiting[2].push(this.agents[2].dropped(this.draw(), 257, 3), this.agents[2].dropped(this.draw(), 263, 4));
    // On its way out, as a host's own packet filter drops it.
    waiting[3].push(this.agents[3].dropped(this.draw(), 258, 0));
    const isWhole = Math.abs(this.second - Math.round(this.second)) < 0.05;
    for (const [number, agent] of this.agents.entries()) {
      if (isWhole) waiting[number].push(...this.counted(agent, number));
      while (waiting[number].length > 0) {
        const bytes = agent.datagram(waiting[number].splice(0, 8));
        // One datagram in four of this one is lost, and in fifty of another.
        const isLost = (number === 1 && agent.sequence % 4 === 0) || (number === 6 && agent.sequence % 50 === 0);
        if (!isLost) await this.sender.send(bytes);
      }
    }
  }

  /** What an agent counts in a second. */
  counted(agent, number) {
    const samples = agent.host ? [agent.named()] : [];
    for (let index = 1; index <= agent.interfaces; index++) {
      const share = number === 4 && index === 7 ? 0.93 : ((index * 7 + number * 3) % 24) / 60;
      samples.push(agent.counters(index, (share * agent.speed) / 8, number === 2 && index === 3 ? 20 : 0));
    }
    return samples;
  }

  draw() {
    const whole = this.conversations.reduce((sum, { share }) => sum + share, 0);
    let at = this.random() * whole;
    for (const conversation of this.conversations) {
      at -= conversation.share;
      if (at <= 0) return conversation;
    }
    return this.conversations[0];
  }

  /** Goes on until told to stop. */
  start() {
    let busy = false;
    this.timer = setInterval(async () => {
      if (busy) return;
      busy = true;
      this.ticking = this.tick().catch(() => {});
      await this.ticking;
      busy = false;
    }, 100);
  }

  /** Goes on no more; what has begun is sent by then. */
  async stop() {
    clearInterval(this.timer);
    await this.ticking;
  }
}
