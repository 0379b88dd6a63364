// Why samples are missing, in words.

import type { Cause } from './wire';

interface Words {
  title: string;
  /** What is known of it. */
  about: string;
  /** What to do. */
  remedy: string;
  /** Whether something was lost, and not only not taken. */
  isLoss: boolean;
}

export const WORDS: Record<Cause, Words> = {
  unknown: { title: 'unknown', about: 'nobody knows where', remedy: 'weir monitor check', isLoss: true },
  source: {
    title: 'source',
    about: 'before the station: its source overran or stood still',
    remedy: 'look at the source',
    isLoss: true,
  },
  unselected: { title: 'not selected', about: 'they were not wanted', remedy: '', isLoss: false },
  station: {
    title: 'station',
    about: 'in the station: its kernel did not take them',
    remedy: 'a larger send buffer, or fewer samples a second',
    isLoss: true,
  },
  network: {
    title: 'network',
    about: 'between the machines',
    remedy: 'look at the switches: mixed speeds without pause frames, snooping without a querier; weir monitor check',
    isLoss: true,
  },
  host: {
    title: 'host',
    about: "in the server's interface or kernel, in front of the socket",
    remedy: 'on the server a longer ring and fewer interrupts: weir loss check --apply',
    isLoss: true,
  },
  socket: {
    title: 'socket',
    about: "in the server's receive buffer",
    remedy: 'a larger receive_buffer, up to net.core.rmem_max of the server: weir loss check computes it',
    isLoss: true,
  },
  server: { title: 'server', about: 'in the server, which could not keep up', remedy: 'fewer channels', isLoss: true },
  viewer: {
    title: 'viewer',
    about: 'here: this page was too late for what the server keeps',
    remedy: 'a faster connection',
    isLoss: true,
  },
  restart: { title: 'not running', about: 'nothing ran that would have taken them', remedy: '', isLoss: false },
};
