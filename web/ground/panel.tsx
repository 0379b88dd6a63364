// A part of a view: its title, its age, what it says and how to save it.

import type { ComponentChildren } from 'preact';
import { Age } from './age';
import type { Answer } from './connection/live';

interface Props {
  title: string;
  answer?: Answer<{ age?: number }>;
  /** Beside the title. */
  tools?: ComponentChildren;
  /** One sentence below it. */
  about?: ComponentChildren;
  wide?: boolean;
  children: ComponentChildren;
}

export function Panel({ title, answer, tools, about, wide = false, children }: Props) {
  return (
    <section class={wide ? 'panel wide' : 'panel'} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {answer && <Age at={answer.at} older={answer.value?.age ?? 0} />}
        <span class="spring" />
        {tools}
      </header>
      {about && <p class="about">{about}</p>}
      {answer?.problem ? (
        <div class="problem" role="alert">
          <p>{answer.problem.error}</p>
          {answer.problem.caret && <pre>{`${answer.problem.text}\n${answer.problem.caret}`}</pre>}
        </div>
      ) : (
        children
      )}
    </section>
  );
}
