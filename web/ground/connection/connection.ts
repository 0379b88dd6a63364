// The stream of answers: one server-sent event stream that comes back by itself.

/** Why a question has no answer: one sentence, and where in a text it went wrong. */
export interface Problem {
  error: string;
  key?: string;
  text?: string;
  caret?: string;
}

/** An answer as it comes. */
export interface Told {
  ask: string;
  answer?: unknown;
  problem?: Problem;
}

/** `gone`: nothing comes, it is tried again. */
export type State = 'connecting' | 'live' | 'gone';

/** How long nothing may come before the server is thought gone, ms. */
const SILENCE = 12_000;

/** Pause before it is tried again, ms. */
const PAUSE = 1000;

/** Time in which questions are gathered, ms. */
const GATHERING = 20;

export class Connection {
  private source: EventSource | undefined;
  private asked = '';
  private wanted = '';
  private opening: ReturnType<typeof setTimeout> | undefined;
  private heard = 0;

  constructor(
    private readonly tell: (told: Told) => void,
    private readonly change: (state: State) => void,
  ) {
    setInterval(() => this.listen(), SILENCE / 4);
  }

  /** Asks these questions from now on, and no others. */
  ask(questions: Iterable<string>): void {
    const query = new URLSearchParams();
    for (const question of [...new Set(questions)].sort()) query.append('ask', question);
    this.wanted = query.toString();
    if (this.wanted !== this.asked) this.open(GATHERING);
  }

  private open(delay: number): void {
    clearTimeout(this.opening);
    this.opening = setTimeout(() => {
      this.source?.close();
      this.source = undefined;
      this.asked = this.wanted;
      if (!this.asked) return;
      const source = new EventSource(`/live/stream?${this.asked}`);
      this.source = source;
      this.heard = performance.now();
      source.addEventListener('answer', event => {
        if (source !== this.source) return;
        this.heard = performance.now();
        this.change('live');
        this.tell(JSON.parse((event as MessageEvent<string>).data) as Told);
      });
      source.addEventListener('error', () => source === this.source && this.lose());
    }, delay);
  }

  private lose(): void {
    this.source?.close();
    this.source = undefined;
    this.change('gone');
    this.open(PAUSE);
  }

  private listen(): void {
    if (this.source && performance.now() - this.heard > SILENCE) this.lose();
  }
}
