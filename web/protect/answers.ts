// What the room tells: `rooms/protect/src/people/told.rs` has the other side.

export type Phase = 'seen' | 'pending' | 'unreachable' | 'active' | 'fading' | 'over';
export type Mode = 'observe' | 'manual' | 'automatic';

export interface Row {
  id: number;
  target: string;
  group: string;
  class: string;
  phase: Phase;
  packets: number;
  bits: number;
  /** What they were at most. */
  peak_packets: number;
  peak_bits: number;
  sources: number;
  hosts: number;
  began_ms: number;
  last_seen_ms: number;
  ended_ms: number | null;
  expires_ms: number | null;
  /** What is done, or would be. */
  action: string | null;
  routes: number;
  installed: number;
  /** The part of the legitimate traffic that is hit, 0 to 1; null: not known. */
  harm: number | null;
  doubts: number;
  /** The limit that is against it. */
  refused: string | null;
  /** Whether anything was announced for it, ever. */
  was_announced: boolean;
  by: string | null;
  /** Packets a second, one value a second, the newest last. */
  curve: number[];
}

export interface Rate {
  value: number;
  low: number;
  /** null: at least `low`. */
  high: number | null;
}

export interface Share {
  value: string;
  share: number;
}

export interface Evidence {
  rule: string;
  threshold_packets: number | null;
  threshold_bits: number | null;
  packets: Rate;
  bits: Rate;
  log_evidence: number;
  samples: number;
  sources: number;
  hosts: number;
  points: { agent: string; index: number }[];
  top_sources: Share[];
  top_source_ports: Share[];
  top_destination_ports: Share[];
  top_flags: Share[];
  top_countries: Share[];
  top_asns: Share[];
  headers: string[];
}

export interface Announced {
  text: string;
  /** Absent: it is not asked for. */
  installed: 'waiting' | 'yes' | 'no' | null;
  since_ms: number | null;
  why: string | null;
}

export interface Whole extends Row {
  /** From when the first sample too many came; null: that was before a restart. */
  decision_ms: number | null;
  evidence: Evidence;
  rules: { text: string }[];
  doubts_are: { doubt: string; text: string }[];
  level: number;
  routes_are: Announced[];
  harm_is: { packets: number; share: number | null };
  refusal: { limit: string; why: string } | null;
}

export interface State {
  time_ms: number;
  now_ms: number;
  mode: Mode;
  stopped: { by: string; since_ms: number } | null;
  attacks: Record<Phase, number>;
  speaker: {
    address: string;
    version: string;
    connected: boolean;
    since_ms: number | null;
    why: string | null;
    /** What its table has of ours, in words; in doubt: it may have more, or less, than it is to. */
    text: string;
    in_doubt: boolean;
    neighbours: { address: string; asn: number; state: string }[];
  } | null;
  caps: {
    routes: number;
    max_routes: number;
    prefixes: number;
    max_prefixes: number;
    share: number;
    max_share: number;
    max_harm: number;
  };
  counts: {
    sightings: number;
    dropped: number;
    /** Agents heard of late whose samples may lead to an action. */
    believed_agents: number;
    refused: Record<string, number>;
    /** The last stop, or its end, is not in the journal: a restart would not know of it. */
    switch_unwritten: boolean;
  };
}

export interface Frame {
  you: string;
  role: 'read' | 'act';
  state: State;
  attacks: Row[];
  attack: Whole | null;
}

export interface Group {
  name: string;
  networks: string[];
  mode: Mode;
  thresholds: { class: string; packets: number | null; bits: number | null; learnt: boolean }[];
  hosts: number;
}
