// Texts of others, who may have put into them what eyes are deceived by.

// C0, delete, C1, the marks, embeddings, overrides and isolates of UAX 9, separators, what has no width.
const OBEYED =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb]/g;

/** The text with what cannot be seen made visible: `‹U+202E›`. Longer ones are cut, with `…` at their end. */
export function visible(text: string, longest = 120): string {
  const cut = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return cut.replace(OBEYED, c => `‹U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);
}
