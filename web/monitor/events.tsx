// What has happened, the newest first. A click shows the moment.

import { clockTime, count } from '../ground/quantity';
import { visible } from '../ground/text';
import { events, type Happening } from './feed';
import { range } from './plot/stage';
import { view } from './view';

/** Those that are listed. */
const LISTED = 100;

const MARKS: Record<Happening['severity'], string> = { info: '', minor: 'warn', major: 'bad' };

export function Events() {
  const all = events.value;
  const show = ({ time_ms }: Happening) => range(time_ms - view.value.span / 2, time_ms + view.value.span / 2);
  return (
    <section class="panel events" aria-label="Events">
      <header>
        <h2>Events</h2>
        <small>{all.length > LISTED && `the latest ${LISTED} of ${count(all.length)}`}</small>
      </header>
      {all.length === 0 && <p class="empty">Nothing has happened.</p>}
      <ol>
        {all.slice(0, LISTED).map(event => (
          <li key={event.id} data-kind={event.kind}>
            <button
              type="button"
              class="quiet"
              aria-label={`Show ${clockTime(event.time_ms)}`}
              onClick={() => show(event)}
            >
              {clockTime(event.time_ms)}
            </button>
            <span class={`mark ${MARKS[event.severity]}`}>{visible(event.kind, 20)}</span>
            <span>
              {event.station && (
                <b>{visible(event.channel ? `${event.station} ${event.channel}` : event.station, 80)} </b>
              )}
              {visible(event.text, 300)}
              {event.remedy && <small> {visible(event.remedy, 300)}</small>}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
