// What the analyser answers; names are those of REST.

import type { Problem } from '../ground/connection/connection';

export type Trouble = 'silent' | 'losing' | 'outdated' | 'loss' | 'thinned' | 'busy' | 'discarding' | 'restarted';

export interface Summary {
  age: number;
  took: number;
  version: string;
  sum: {
    agents: number;
    silent: number;
    losing: number;
    thinned: number;
    restarted: number;
    busy: number;
    discarding: number;
    fine: number;
    outdated: number;
    interfaces: number;
    current: number;
    datagramsReceived: number;
    datagramsLost: number;
    receivedLately: number;
    lostLately: number;
    ifinoctets?: number;
  };
  analyzer: Record<string, number>;
  flows: number;
  thresholds: number;
  newestEvent: number;
  /** Whether there is a page of floods at `/protect`. */
  protect: boolean;
}

export interface AgentRow {
  agent: string;
  host?: string;
  lastSeen: number;
  uptime: number;
  stale: boolean;
  sFlowDatagramsReceived: number;
  sFlowDatagramsLost: number;
  receivedLately: number;
  lostLately: number;
  sFlowFlowSamples: number;
  sFlowFlowDrops: number;
  samplingRate?: number;
  effectiveSamplingRate?: number;
  restarts: number;
  interfaces: number;
  busiest?: { dataSource: string; name?: string; utilization: number };
  ifinoctets?: number;
  discards?: number;
  errors?: number;
  troubles: Trouble[];
}

export interface Agents {
  age: number;
  matched: number;
  rows: AgentRow[];
}

export interface Port {
  dataSource: string;
  name?: string;
  lastUpdate: number;
  ifinoctets?: number;
  ifoutoctets?: number;
  ifinutilization?: number;
  ifoututilization?: number;
  discards?: number;
  errors?: number;
  ifspeed?: number;
}

export interface AgentAnswer {
  agent: string;
  told: Record<string, unknown> & { host?: string; firstSeen: number; lastSeen: number; uptime: number };
  row: AgentRow | null;
  interfaces: number;
  ports: Port[];
}

export interface Heat {
  age: number;
  matched: number;
  rows: { agent: string; host: string | null; interfaces: number; ports: Port[] }[];
}

export interface Flow {
  keys: string[];
  value: number;
  low?: number | null;
  high?: number | null;
  samples: number;
  flowN: number;
  /** Its agent is silent: the value is not what it carries now. */
  stale: boolean;
  /** Age of its newest sample, ms. */
  lastUpdate: number;
  agent: string;
  dataSource: string;
}

export interface Definition {
  keys?: string;
  value?: string;
  filter?: string;
  t?: number;
  dropped?: boolean;
}

export interface Flows {
  name: string;
  flows: Flow[];
  others: { flows: number; value: number };
  more: boolean;
  definition: Definition;
}

export interface Event {
  eventID: number;
  timestamp: number;
  thresholdID: string;
  agent: string;
  dataSource: string;
  metric: string;
  value: number;
  threshold: number;
  flowKey?: string;
  drop?: { who?: string; why?: string; where?: string };
}

export interface Events {
  events: Event[];
  evicted: number;
  thresholds: Record<string, { metric: string; value: number; byFlow: boolean; timeout: number }>;
}

export interface Found {
  agents: { rows: { agent: string; host: string | null; troubles: Trouble[] }[]; more: boolean };
  interfaces: { rows: { agent: string; host: string | null; dataSource: string; name: string }[]; more: boolean };
  flows: { rows: { name: string; of: string; unit: string; keys: string[]; value: number }[]; more: boolean };
}

/** Asks REST; an answer that is no success is thrown as a [`Problem`]. */
export async function rest<T>(method: 'GET' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<T> {
  const init: RequestInit = body === undefined ? { method } : { method, body: JSON.stringify(body) };
  let answer: Response;
  try {
    answer = await fetch(path, init);
  } catch {
    throw { error: 'The analyser does not answer.' } satisfies Problem;
  }
  const text = await answer.text();
  const value = text ? JSON.parse(text) : undefined;
  if (!answer.ok) throw value as Problem;
  return value as T;
}
