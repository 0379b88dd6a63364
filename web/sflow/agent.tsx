// One agent: its health, its interfaces, its largest flows.

import { address, question, to } from '../ground/address';
import { useAnswer } from '../ground/connection/live';
import { Panel } from '../ground/panel';
import { bits, count, lasting, percent, scaled } from '../ground/quantity';
import { Save, type Shown, Table } from '../ground/table';
import { visible } from '../ground/text';
import { loss, Troubles } from './agents';
import type { AgentAnswer, Port } from './answers';
import { FlowPanel } from './flows';
import { CONVERSATIONS } from './presets';

const PORTS: Shown<Port>[] = [
  { title: 'ifIndex', value: port => port.dataSource, numeric: true },
  { title: 'Interface', value: port => port.name, text: port => visible(port.name ?? '–', 40) },
  {
    title: 'In used',
    csv: 'In used %',
    value: port => port.ifinutilization,
    text: port => percent(port.ifinutilization),
    view: port => <Used share={port.ifinutilization} />,
    numeric: true,
  },
  {
    title: 'Out used',
    csv: 'Out used %',
    value: port => port.ifoututilization,
    text: port => percent(port.ifoututilization),
    view: port => <Used share={port.ifoututilization} />,
    numeric: true,
  },
  { title: 'In', csv: 'In byte/s', value: port => port.ifinoctets, text: port => bits(port.ifinoctets), numeric: true },
  {
    title: 'Out',
    csv: 'Out byte/s',
    value: port => port.ifoutoctets,
    text: port => bits(port.ifoutoctets),
    numeric: true,
  },
  {
    title: 'Discards',
    csv: 'Discards /s',
    value: port => port.discards,
    text: port => scaled(port.discards, '/s'),
    numeric: true,
  },
  {
    title: 'Errors',
    csv: 'Errors /s',
    value: port => port.errors,
    text: port => scaled(port.errors, '/s'),
    numeric: true,
  },
  {
    title: 'Speed',
    csv: 'Speed bit/s',
    value: port => port.ifspeed,
    text: port => scaled(port.ifspeed, 'bit/s'),
    numeric: true,
    minor: true,
  },
  {
    title: 'Age',
    csv: 'Age ms',
    value: port => port.lastUpdate,
    text: port => lasting(port.lastUpdate),
    numeric: true,
    minor: true,
  },
];

/** A share of a line, as a bar and a number. */
function Used({ share }: { share?: number | undefined }) {
  return (
    <span class="drawn">
      {share !== undefined && (
        <svg class={share >= 80 ? 'bar hot' : 'bar'} width="60" height="8" aria-hidden="true">
          <rect class="whole" width="60" height="8" />
          <rect class="part" width={Math.min(60, (60 * share) / 100)} height="8" />
        </svg>
      )}
      <span>{percent(share)}</span>
    </span>
  );
}

export function AgentView() {
  const agent = address.value.query.get('agent') ?? '';
  const answer = useAnswer<AgentAnswer>(question('agent', { agent }));
  const { told, row, ports = [], interfaces = 0 } = answer.value ?? {};
  const sheet = { name: `interfaces of ${agent}`, columns: PORTS, rows: ports };
  const fact = (title: string, value: string) => (
    <div key={title}>
      <dt>{title}</dt>
      <dd>{value}</dd>
    </div>
  );
  return (
    <>
      <Panel wide title={`Agent ${visible(told?.host ?? agent, 60)}`} answer={{ ...answer, value: {} }}>
        {row && told && (
          <>
            <p>
              <Troubles troubles={row.troubles} />
            </p>
            <dl class="facts">
              {[
                fact('Address', agent),
                fact('Last seen', `${lasting(told.lastSeen)} ago`),
                fact('Up', lasting(told.uptime)),
                fact('Restarts', count(row.restarts)),
                fact('Datagrams', count(row.sFlowDatagramsReceived)),
                fact('Lost', count(row.sFlowDatagramsLost)),
                fact('Lost lately', row.receivedLately + row.lostLately > 0 ? percent(loss(row)) : '–'),
                fact('Sampling, as it says', row.samplingRate ? `1:${count(row.samplingRate)}` : '–'),
                fact('Sampling, as found', row.effectiveSamplingRate ? `1:${count(row.effectiveSamplingRate)}` : '–'),
                fact('Samples it dropped', count(row.sFlowFlowDrops)),
              ]}
            </dl>
          </>
        )}
      </Panel>
      <Panel
        wide
        title="Interfaces"
        answer={{ ...answer, value: {} }}
        tools={<Save sheet={sheet} />}
        about={interfaces > ports.length && `The ${count(ports.length)} that are used most, of ${count(interfaces)}.`}
      >
        <Table sheet={sheet} label="Interfaces" id={port => port.dataSource} empty="No interface counters have come." />
      </Panel>
      <FlowPanel
        wide
        title="Its conversations"
        asked={{ keys: CONVERSATIONS, value: 'bytes', agent }}
        tools={<a href={to('flows', { agent })}>all flows of it</a>}
      />
    </>
  );
}
