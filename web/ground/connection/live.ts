// What the page has asked, and what it was told: a signal a question.

import { type Signal, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { Connection, type Problem, type State, type Told } from './connection';
import type { Telling } from './worker';

/** What is known of a question. */
export interface Answer<T> {
  /** The latest answer; absent before the first. */
  value?: T;
  problem?: Problem;
  /** When it came, by `performance.now()`; 0 before. */
  at: number;
}

interface Topic {
  answer: Signal<Answer<unknown>>;
  users: number;
}

/** Whether answers come, and since when. */
export const connection = signal<{ state: State; since: number }>({ state: 'connecting', since: performance.now() });

const topics = new Map<string, Topic>();

/** The answer to a question, kept up while the component is shown. */
export function useAnswer<T>(question: string): Answer<T> {
  const topic = topicOf(question);
  const [, showAgain] = useState(0);
  useEffect(() => {
    // Between drawing and this it may have been thought unused, and another one begun.
    const used = topics.get(question) ?? topic;
    topics.set(question, used);
    if (used !== topic) showAgain(count => count + 1);
    used.users += 1;
    ask();
    return () => {
      used.users -= 1;
      ask();
    };
  }, [question]);
  return topic.answer.value as Answer<T>;
}

function topicOf(question: string): Topic {
  const known = topics.get(question);
  if (known) return known;
  const made: Topic = { answer: signal<Answer<unknown>>({ at: 0 }), users: 0 };
  topics.set(question, made);
  return made;
}

function told({ ask, answer, problem }: Told): void {
  const topic = topics.get(ask);
  if (!topic) return;
  topic.answer.value = problem ? { problem, at: performance.now() } : { value: answer, at: performance.now() };
}

function changed(state: State): void {
  if (connection.value.state !== state) connection.value = { state, since: performance.now() };
}

let gathering = 0;

/** Tells the connection what is wanted, once the page has been drawn. */
function ask(): void {
  clearTimeout(gathering);
  gathering = setTimeout(() => {
    for (const [question, topic] of topics) if (topic.users === 0) topics.delete(question);
    send([...topics.keys()]);
  }, 0);
}

const send = open();

function open(): (questions: string[]) => void {
  if (!('SharedWorker' in window)) return alone();
  const worker = new SharedWorker('/page/worker.js', { type: 'module', name: 'weir' });
  let send = (questions: string[]) => worker.port.postMessage({ ask: questions });
  worker.addEventListener('error', () => {
    send = alone();
    ask();
  });
  worker.port.addEventListener('message', (message: MessageEvent<Telling>) => {
    if ('told' in message.data) told(message.data.told);
    else changed(message.data.state);
  });
  worker.port.start();
  setInterval(ask, 5000);
  addEventListener('pagehide', () => send([]));
  addEventListener('pageshow', event => event.persisted && ask());
  return questions => send(questions);
}

/** Where tabs cannot share one, those that nobody sees have none. */
function alone(): (questions: string[]) => void {
  const own = new Connection(told, changed);
  document.addEventListener('visibilitychange', ask);
  return questions => own.ask(document.hidden ? [] : questions);
}
