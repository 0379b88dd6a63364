// Questions about flows that people have.

/** A question about flows, as an address and a definition have it. */
export interface Asked {
  name?: string | undefined;
  keys?: string | undefined;
  value?: string | undefined;
  filter?: string | undefined;
  t?: string | undefined;
  dropped?: string | undefined;
  agent?: string | undefined;
  count?: number | undefined;
}

export const CONVERSATIONS = 'or:ipsource:ip6source,or:ipdestination:ip6destination';

// A packet that lacks one key counts for nothing: what may be absent says so instead. Agents on hosts know one interface of a packet.
const IN = 'null:[or:[ifname:inputifindex]:inputifindex]:-';
const OUT = 'null:[or:[ifname:outputifindex]:outputifindex]:-';
const SOURCE = 'null:[or:ipsource:ip6source]:-';
const DESTINATION = 'null:[or:ipdestination:ip6destination]:-';

export const PRESETS: { title: string; keys: string }[] = [
  { title: 'Conversations', keys: CONVERSATIONS },
  { title: 'Sources', keys: 'or:ipsource:ip6source' },
  { title: 'Destinations', keys: 'or:ipdestination:ip6destination' },
  { title: 'Services', keys: 'or:ipprotocol:ip6nexthdr,or:tcpdestinationport:udpdestinationport' },
  { title: 'Protocols', keys: 'stack' },
  { title: 'Interfaces', keys: `agent,${IN},${OUT}` },
  { title: 'VLANs', keys: 'vlan' },
  { title: 'Stations', keys: 'macsource,macdestination' },
];

export const DROPS: Asked = { keys: `reason,agent,${IN},${OUT},null:function:-`, value: 'frames', dropped: '1' };
export const WHO: Asked = { keys: `reason,${SOURCE},${DESTINATION}`, value: 'frames', dropped: '1' };
export const DEPTH: Asked = { keys: `agent,${OUT},null:queueindex:-`, value: 'avg:queuedepth' };
export const DELAY: Asked = { keys: `agent,${IN},${OUT}`, value: 'avg:transitdelay' };

/** Names of keys for people. */
export function keyTitle(key: string): string {
  const known: Record<string, string> = {
    'or:ipsource:ip6source': 'Source',
    'or:ipdestination:ip6destination': 'Destination',
    'or:ipprotocol:ip6nexthdr': 'Protocol',
    'or:tcpdestinationport:udpdestinationport': 'Port',
    [SOURCE]: 'Source',
    [DESTINATION]: 'Destination',
    [IN]: 'In by',
    [OUT]: 'Out by',
    'null:queueindex:-': 'Queue',
    'null:function:-': 'Function',
    agent: 'Agent',
    inputifindex: 'In by',
    outputifindex: 'Out by',
    reason: 'Reason',
    stack: 'Headers',
    vlan: 'VLAN',
  };
  return known[key] ?? visibleKey(key);
}

function visibleKey(key: string): string {
  return key.length > 40 ? `${key.slice(0, 40)}…` : key;
}

/** The filter with one more condition: that a key has this value. */
export function narrowed(filter: string | undefined, key: string, value: string): string {
  const condition = `${key}=${value.replace(/[\\&|()=!~,\s]/g, '\\$&')}`;
  if (!filter) return condition;
  return `${filter.includes('|') ? `(${filter})` : filter}&${condition}`;
}
