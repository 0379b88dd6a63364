// The page of `weir sflow serve`.

import { render } from 'preact';
import { address, go, to } from '../ground/address';
import { now } from '../ground/age';
import { connection, useAnswer } from '../ground/connection/live';
import { lasting } from '../ground/quantity';
import { ThemeButton } from '../ground/theme';
import { AgentView } from './agent';
import { AgentsView } from './agents';
import type { Summary } from './answers';
import { DropsView, QueuesView } from './drops';
import { EventsView } from './events';
import { FlowsView } from './flows';
import { HeatView } from './heat';
import { Overview } from './overview';
import { SearchView } from './search';

const VIEWS = [
  { name: '', title: 'Overview', view: Overview },
  { name: 'agents', title: 'Agents', view: AgentsView },
  { name: 'flows', title: 'Flows', view: FlowsView },
  { name: 'interfaces', title: 'Interfaces', view: HeatView },
  { name: 'drops', title: 'Drops', view: DropsView },
  { name: 'queues', title: 'Queues', view: QueuesView },
  { name: 'events', title: 'Events', view: EventsView },
];

const HIDDEN = [
  { name: 'agent', title: 'Agent', view: AgentView },
  { name: 'search', title: 'Search', view: SearchView },
];

function Page() {
  const found = [...VIEWS, ...HIDDEN].find(({ name }) => name === address.value.view);
  const View = found?.view ?? Overview;
  document.title = `${found?.title ?? 'Overview'} – weir sflow`;
  const search = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get('text') ?? '').trim();
    if (text) go(to('search', { text }));
  };
  const skip = () => document.querySelector<HTMLElement>('main')?.focus();
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        To what is shown
      </button>
      <header class="top">
        <h1>
          <a href={to('')}>weir sflow</a>
        </h1>
        <nav aria-label="Views">
          {VIEWS.map(({ name, title }) => (
            <a key={name} href={to(name)} aria-current={name === address.value.view ? 'page' : undefined}>
              {title}
            </a>
          ))}
          <Protect />
        </nav>
        <search>
          <form onSubmit={search}>
            <input
              type="search"
              name="text"
              placeholder="agent, interface, address"
              aria-label="Search agents, interfaces and addresses"
              defaultValue={address.value.view === 'search' ? (address.value.query.get('text') ?? '') : ''}
            />
          </form>
        </search>
        <Pulse />
        <ThemeButton />
      </header>
      <Gone />
      <main tabIndex={-1} class={connection.value.state === 'gone' ? 'gone' : ''}>
        <View key={address.value.view} />
      </main>
    </>
  );
}

/** The way to the page of `[protect]`, where it is switched on. */
function Protect() {
  const { value } = useAnswer<Summary>('summary');
  return value?.protect ? <a href="/protect">Protect</a> : null;
}

/** Whether answers come, and how old the newest is. */
function Pulse() {
  const { at } = useAnswer<Summary>('summary');
  const { state } = connection.value;
  const text =
    at === 0 ? 'connecting' : state === 'gone' ? 'no connection' : `live, ${lasting(Math.max(0, now.value - at))}`;
  return (
    <span class={`pulse ${state}`} data-state={state}>
      {text}
    </span>
  );
}

function Gone() {
  const { state, since } = connection.value;
  const text =
    state === 'gone'
      ? `The analyser has not answered for ${lasting(now.value - since)}. What you see is from before; it is tried again every second.`
      : '';
  return (
    <div class="lost" role="alert" hidden={!text}>
      {text}
    </div>
  );
}

const root = document.getElementById('page');
if (root) {
  root.textContent = '';
  render(<Page />, root);
}
