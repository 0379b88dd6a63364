// The page of `[protect]`.

import { render } from 'preact';
import { address, to } from '../ground/address';
import { lasting } from '../ground/quantity';
import { visible } from '../ground/text';
import { ThemeButton } from '../ground/theme';
import { AttackView } from './attack';
import { connection, frame, heard, now, signIn } from './feed';
import { NowView } from './now';
import { GroupsView, HistoryView, JournalView } from './past';

const VIEWS = [
  { name: '', title: 'Now', view: NowView },
  { name: 'history', title: 'History', view: HistoryView },
  { name: 'journal', title: 'Journal', view: JournalView },
  { name: 'groups', title: 'Groups', view: GroupsView },
];

const HIDDEN = [{ name: 'attack', title: 'Attack', view: AttackView }];

function Page() {
  const { state } = connection.value;
  const found = [...VIEWS, ...HIDDEN].find(({ name }) => name === address.value.view);
  const View = found?.view ?? NowView;
  const pending = frame.value?.state.attacks.pending ?? 0;
  document.title = `${pending > 0 ? `(${pending}) ` : ''}${found?.title ?? 'Now'} – weir protect`;
  const skip = () => document.querySelector<HTMLElement>('main')?.focus();
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        To what is shown
      </button>
      <header class="top">
        <h1>
          <a href={to('')}>weir protect</a>
        </h1>
        <nav aria-label="Views">
          {state !== 'unknown' &&
            VIEWS.map(({ name, title }) => (
              <a key={name} href={to(name)} aria-current={name === address.value.view ? 'page' : undefined}>
                {title}
              </a>
            ))}
          <a href="/">Analyser</a>
        </nav>
        <Pulse />
        {frame.value && (
          <button type="button" class="quiet" onClick={() => signIn('')}>
            Sign out {visible(frame.value.you)}
          </button>
        )}
        <ThemeButton />
      </header>
      <Gone />
      <main tabIndex={-1} class={state === 'gone' ? 'gone' : ''}>
        {state === 'unknown' ? <SignIn /> : <View key={address.value.view} />}
      </main>
    </>
  );
}

function Pulse() {
  const { state } = connection.value;
  const texts = {
    unknown: 'signed out',
    connecting: 'connecting',
    live: `live, ${lasting(Math.max(0, now.value - heard.value))}`,
    gone: 'no connection',
  };
  return (
    <span class={`pulse ${state}`} data-state={state}>
      {texts[state]}
    </span>
  );
}

function Gone() {
  const { state, since, why } = connection.value;
  const text =
    state === 'gone'
      ? `The analyser has not answered for ${lasting(now.value - since)}${why && ` (${visible(why, 200)})`}. What you see is from before; it is tried again every second. Routes that are announced stay.`
      : '';
  return (
    <div class="lost" role="alert" hidden={!text}>
      {text}
    </div>
  );
}

function SignIn() {
  const submit = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    signIn(String(new FormData(event.currentTarget).get('token') ?? ''));
  };
  return (
    <section class="panel wide signin" aria-label="Sign in">
      <h2>Who are you?</h2>
      <form onSubmit={submit}>
        <label>
          Your token
          <input type="password" name="token" autocomplete="current-password" required minLength={1} />
        </label>
        <button type="submit">Sign in</button>
      </form>
      {connection.value.why && (
        <p class="problem" role="alert">
          {visible(connection.value.why, 300)}
        </p>
      )}
      <p class="about">
        It is one of the file that `tokens` of [protect.access] names. This tab forgets it when it is closed.
      </p>
    </section>
  );
}

const root = document.getElementById('page');
if (root) {
  root.textContent = '';
  render(<Page />, root);
}
