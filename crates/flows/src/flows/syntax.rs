//! Mistakes in keys, values and filters, each with the place at which it was noticed.

use weir_program::config::did_you_mean;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Syntax {
    /// Byte of the text, at most its length: what a caret should point at.
    pub at: usize,
    /// One line, with what to write instead.
    pub message: String,
}

impl Syntax {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Syntax {
        Syntax { at, message: message.into() }
    }

    /// Of a word that is none of those that are known.
    pub(super) fn unknown<'a>(at: usize, what: &str, word: &str, valid: impl IntoIterator<Item = &'a str>) -> Syntax {
        Syntax::new(at, format!("unknown {what} `{}`{}", word.escape_debug(), did_you_mean(word, valid)))
    }

    /// The same mistake in a text of which this was a part from `start` on.
    pub(super) fn within(mut self, start: usize) -> Syntax {
        self.at += start;
        self
    }
}

/// What is separated by commas, no more than so many; empty: nothing.
///
/// # Errors
/// The first mistake.
pub(super) fn list<'a, T>(
    text: &'a str,
    (what, most): (&str, usize),
    parse: fn(Piece<'a>) -> Result<T, Syntax>,
) -> Result<Vec<T>, Syntax> {
    let whole = Piece { text, at: 0 }.trim();
    if whole.text.is_empty() {
        return Ok(Vec::new());
    }
    let all: Vec<T> = whole.split(',')?.into_iter().map(parse).collect::<Result<_, _>>()?;
    match all.len() > most {
        true => Err(Syntax::new(0, format!("{} {what}: at most {most}", all.len()))),
        false => Ok(all),
    }
}

/// A cursor over a text with the separators of expressions: `\` takes the next character as it is, `[` and `]` enclose.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

/// A piece of a text and where it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub(super) fn skip_spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += self.peek().map_or(0, char::len_utf8);
        }
    }

    /// Takes what is next, if it is `token`.
    pub(super) fn take(&mut self, token: &str) -> bool {
        let there = self.text[self.at..].starts_with(token);
        if there {
            self.at += token.len();
        }
        there
    }

    /// Up to the first of `ends` that is not enclosed or escaped, without the spaces around it. `enclose`: what opens and what
    /// closes; twice the same: nothing does.
    ///
    /// # Errors
    /// A bracket that is not closed.
    pub(super) fn until(&mut self, ends: &[char], enclose: (char, char)) -> Result<Piece<'a>, Syntax> {
        let (start, mut open, mut escaped) = (self.at, Vec::new(), false);
        let encloses = enclose.0 != enclose.1;
        while let Some(next) = self.peek() {
            match next {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if open.is_empty() && ends.contains(&next) => break,
                _ if encloses && next == enclose.0 => open.push(self.at),
                _ if encloses && next == enclose.1 && open.pop().is_none() => {
                    return Err(Syntax::new(self.at, format!("`{next}` closes nothing")));
                }
                _ => {}
            }
            self.at += next.len_utf8();
        }
        if let Some(at) = open.pop() {
            return Err(Syntax::new(at, format!("`{}` is not closed", enclose.0)));
        }
        Ok(Piece { text: &self.text[start..self.at], at: start }.trim())
    }
}

impl<'a> Piece<'a> {
    pub(super) fn trim(self) -> Self {
        let text = self.text.trim_start();
        Piece { at: self.at + self.text.len() - text.len(), text: text.trim_end() }
    }

    /// What stands in a pair of brackets that encloses all of it; else itself.
    pub(super) fn unwrapped(self) -> Self {
        match self.text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(text) => Piece { text, at: self.at + 1 }.trim(),
            None => self,
        }
    }

    /// Without the backslashes that kept characters from meaning something.
    pub(super) fn literal(self) -> String {
        let (mut out, mut escaped) = (String::with_capacity(self.text.len()), false);
        for c in self.text.chars() {
            if c == '\\' && !escaped {
                escaped = true;
            } else {
                out.push(c);
                escaped = false;
            }
        }
        out
    }

    /// Its parts between `separator`s that are neither enclosed nor escaped.
    ///
    /// # Errors
    /// A bracket that is not closed.
    pub(super) fn split(self, separator: char) -> Result<Vec<Piece<'a>>, Syntax> {
        let (mut cursor, mut parts) = (Cursor::new(self.text), Vec::new());
        loop {
            let part = cursor.until(&[separator], ('[', ']')).map_err(|error| error.within(self.at))?;
            parts.push(Piece { at: part.at + self.at, ..part });
            if cursor.peek().is_none() {
                return Ok(parts);
            }
            cursor.at += separator.len_utf8();
        }
    }
}
