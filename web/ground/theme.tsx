// Light or dark: as the system has it, unless somebody chose.

import { signal } from '@preact/signals';

type Theme = 'system' | 'light' | 'dark';

const NEXT: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };
const KEY = 'weir.theme';

export const theme = signal<Theme>(kept());

/** Grows when colours change: what is drawn on a canvas is drawn anew. */
export const repaint = signal(0);

function kept(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === 'light' || theme === 'dark' ? theme : 'system';
  } catch {
    // Storage is forbidden: it is as the system has it.
    return 'system';
  }
}

const dark = matchMedia('(prefers-color-scheme: dark)');

function apply(): void {
  const system = dark.matches ? 'dark' : 'light';
  document.documentElement.dataset.theme = theme.value === 'system' ? system : theme.value;
  repaint.value += 1;
}

dark.addEventListener('change', apply);
apply();

export function ThemeButton() {
  const choose = () => {
    theme.value = NEXT[theme.value];
    try {
      localStorage.setItem(KEY, theme.value);
    } catch {
      // It lasts as long as this page.
    }
    apply();
  };
  return (
    <button type="button" class="quiet" onClick={choose} aria-label={`Colours: ${theme.value}. Change them.`}>
      {{ system: '◐', light: '○', dark: '●' }[theme.value]}
    </button>
  );
}

/** A patch of a colour of the style sheet. */
export function Swatch({ colour, width = 10 }: { colour: string; width?: number }) {
  return (
    <svg class="swatch" width={width} height="10" aria-hidden="true">
      <rect width={width} height="10" style={{ fill: `var(--${colour})` }} />
    </svg>
  );
}

/** A colour of the style sheet, for a canvas. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
