//! Reading a TOML document so that every mistake is one line: the document, the line, what is wrong, the nearest valid
//! word.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use nix::libc;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, DeserializeOwned, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

/// Where the document of a configuration comes from, at the start and at every reload.
#[derive(Clone, Debug)]
pub enum Base<D> {
    /// A file.
    File(Source),
    /// The command line, which says what a file would.
    Flags(Box<D>),
}

/// A file that is read at the start and at every reload. Clones know of one another's reading.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    /// Whether the start is over: until then it may be a pipe, whose end is waited for.
    is_read: Arc<AtomicBool>,
}

impl Source {
    /// The file at a path; nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, is_read: Arc::default() }
    }

    /// The text as it is now. After the first time only a regular file is read: a pipe that nobody writes to would stop the
    /// service, and a device has no end.
    fn read(&self) -> Result<String> {
        let origin = self.path.display();
        let is_reload = self.is_read.load(Ordering::Relaxed);
        let text = read(&self.path, is_reload).with_context(|| format!("read {origin}"))?;
        self.is_read.store(true, Ordering::Relaxed);
        Ok(text)
    }
}

/// A text of at most [`LONGEST`] bytes from a regular file, or unless it is a reload from a pipe.
fn read(path: &Path, is_reload: bool) -> Result<String> {
    // Without the flag a pipe is not even opened before somebody writes to it.
    let flags = if is_reload { libc::O_NONBLOCK } else { 0 };
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    match kind {
        kind if kind.is_file() || kind.is_fifo() && !is_reload => {}
        kind if kind.is_fifo() => {
            bail!("it is a pipe, which can be read only at the start (restart, or write the configuration to a file)")
        }
        kind if kind.is_dir() => bail!("it is a directory (name the file in it)"),
        _ => bail!("it is no regular file (write the configuration to one)"),
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        bail!("it is longer than 16 MiB (is it the right file?)");
    }
    String::from_utf8(bytes).map_err(|error| anyhow!("byte {} is no UTF-8", error.utf8_error().valid_up_to()))
}

/// No configuration of anybody's is longer.
const LONGEST: u64 = 16 << 20;

impl<D: DeserializeOwned + Clone> Base<D> {
    /// The file; `None`: all is on the command line, and a reload would read nothing new.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(source) => Some(&source.path),
            Self::Flags(_) => None,
        }
    }

    /// Reads it as it is now, and has `check` make a configuration of it, which knows from the document where everything
    /// stands.
    ///
    /// # Errors
    /// One line: the file cannot be read or is no such document, or that of `check`.
    pub fn load<T>(&self, check: impl FnOnce(D, Option<&Document<'_>>) -> Result<T>) -> Result<T> {
        match self {
            Self::File(source) => {
                let origin = source.path.display().to_string();
                let text = source.read()?;
                let file = Document::parse(&origin, &text)?;
                check(file.read()?, Some(&file))
            }
            Self::Flags(flags) => check(D::clone(flags), None),
        }
    }
}

/// An address with its port, as `admin` has it in every configuration: `10.0.0.1:514`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Address(pub SocketAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse().map(Self);
        address.map_err(|_| format!("`{text}`: write ADDRESS:PORT, e.g. 192.0.2.7:514 or [2001:db8::7]:514"))
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Reads a list of texts, or one text alone as a list of one.
///
/// # Errors
/// It is neither, or a text is none of `T`.
pub fn one_or_many<'de, D: Deserializer<'de>, T: DeserializeOwned>(reader: D) -> Result<Option<Vec<T>>, D::Error> {
    struct Many<T>(PhantomData<T>);
    impl<'de, T: DeserializeOwned> Visitor<'de> for Many<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text, or a list of them")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
            T::deserialize(text.into_deserializer()).map(|one| vec![one])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }
    reader.deserialize_any(Many(PhantomData)).map(Some)
}

/// A mistake in an expression of a document, with the place in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}")]
pub struct Pointed {
    /// All of it in one line, with the document and its line.
    pub line: String,
    /// The expression.
    pub text: String,
    /// The byte in it at which the mistake was noticed.
    pub at: usize,
}

impl Pointed {
    /// The expression, and below it a caret under the place: two lines. What cannot be printed is shown as `?`, a column each.
    pub fn caret(&self) -> String {
        let shown: String = self.text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let column = self.text.char_indices().take_while(|&(byte, _)| byte < self.at).count();
        format!("  {shown}\n  {:column$}^", "")
    }
}

/// A TOML document that is valid as such, and knows where everything in it stands.
#[derive(Debug)]
pub struct Document<'a> {
    origin: &'a str,
    text: &'a str,
    tree: Spanned<DeTable<'a>>,
}

/// A step from a table or list down to a value in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Of a table.
    Key(&'a str),
    /// Of a list, from 0.
    Index(usize),
}

impl<'a> Document<'a> {
    /// Takes `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// Not TOML.
    pub fn parse(origin: &'a str, text: &'a str) -> Result<Self> {
        let tree = DeTable::parse(text).map_err(|error| explain(origin, text, &error))?;
        Ok(Self { origin, text, tree })
    }

    /// The document as a `T`.
    ///
    /// # Errors
    /// An unknown key (of types that refuse such), a missing one, a value of the wrong type or out of its bounds.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(self.text).map_err(|error| {
            let start = error.span().map(|span| span.start);
            let (place, message) = (place(self.origin, self.text, start), one_line(&error));
            if let Some(key) = start.and_then(|start| self.key(start))
                && message.starts_with("invalid type: map, expected a sequence")
            {
                return anyhow!("{place}: {key}: there may be several of them: write [[{key}]] in place of [{key}]");
            }
            // Such a message tells what stands there, and not where that is: several keys may be in one line.
            match start.and_then(|start| self.key(start)).filter(|_| ANONYMOUS.iter().any(|it| message.starts_with(it)))
            {
                Some(key) => anyhow!("{place}: {key}: {message}"),
                None => anyhow!("{place}: {message}"),
            }
        })
    }

    /// The key of the value at an offset, with those of the tables that it is in: `limits.agents`.
    fn key(&self, at: usize) -> Option<String> {
        fn find(value: &Spanned<DeValue<'_>>, at: usize) -> Option<String> {
            let within = match value.get_ref() {
                DeValue::Table(table) => within(table, at),
                DeValue::Array(array) => array.iter().find_map(|value| find(value, at)),
                _ => None,
            };
            within.or_else(|| value.span().contains(&at).then(String::new))
        }
        fn within(table: &DeTable<'_>, at: usize) -> Option<String> {
            table.iter().find_map(|(key, value)| {
                let below = find(value, at)?;
                let between = if below.is_empty() { "" } else { "." };
                Some(format!("{}{between}{below}", key.get_ref().escape_debug()))
            })
        }
        within(self.tree.get_ref(), at)
    }

    /// An error about the value at `path`, or about as much of the path as there is.
    pub fn error(&self, path: &[Step<'_>], message: &str) -> anyhow::Error {
        anyhow!("{}: {message}", place(self.origin, self.text, self.start(path)))
    }

    /// `tee.toml:12` for the value at `path`, or for as much of the path as there is.
    pub fn place(&self, path: &[Step<'_>]) -> String {
        place(self.origin, self.text, self.start(path))
    }

    /// The offset at which the value at `path` starts; `None`: not even its first step is there.
    fn start(&self, path: &[Step<'_>]) -> Option<usize> {
        let (&Step::Key(first), rest) = path.split_first()? else { return None };
        let mut value = self.tree.get_ref().get(first)?;
        for step in rest {
            let next = match (value.get_ref(), *step) {
                (DeValue::Table(table), Step::Key(key)) => table.get(key),
                (DeValue::Array(array), Step::Index(index)) => array.get(index),
                _ => None,
            };
            let Some(next) = next else { break };
            value = next;
        }
        Some(value.span().start)
    }
}

/// One line: document, line number, what is wrong, and the nearest valid key.
pub fn explain(origin: &str, text: &str, error: &Error) -> anyhow::Error {
    let start = error.span().map(|span| span.start);
    let line = start.and_then(|start| text.get(..start)?.lines().last());
    let rest = start.and_then(|start| text.get(start..)?.lines().next()).unwrap_or_default().trim();
    match line.and_then(|line| line.trim_end().strip_suffix('=')) {
        Some(key) if rest.is_empty() || rest.starts_with('#') => {
            anyhow!("{}: {}: there is no value behind `=`", place(origin, text, start), key.trim().escape_debug())
        }
        _ => anyhow!("{}: {}", place(origin, text, start), one_line(error)),
    }
}

/// The message of an error without its place.
pub fn one_line(error: &Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.as_slice() {
        [unknown, valid @ ..] if message.starts_with("unknown field") => {
            format!("unknown key `{unknown}`{}", did_you_mean(unknown, valid.iter().copied()))
        }
        [unknown, valid @ ..] if message.starts_with("unknown variant") => {
            format!("`{unknown}`: write one of {}", valid.join(", "))
        }
        _ => message
            .rsplit_once(", expected ")
            .map_or(message.clone(), |(found, expected)| format!("{found}, expected {}", in_words(expected))),
    }
}

/// What a type takes, for those whose name only a programmer knows.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i64" => "a whole number",
        other => other,
    }
}

/// `, did you mean ...?` with the nearest of `valid`; nothing, if none is near.
pub fn did_you_mean<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let similarity = |candidate: &str| strsim::jaro_winkler(word, candidate);
    // Addresses are all alike: one is meant only where a digit or two differ.
    let has_digits = word.contains(|c: char| c.is_ascii_digit());
    let is_slip = |candidate: &str| !has_digits || strsim::damerau_levenshtein(word, candidate) <= 2;
    let near = valid.into_iter().filter(|candidate| similarity(candidate) >= NEAR && is_slip(candidate));
    let nearest = near.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    nearest.map(|nearest| format!(", did you mean `{nearest}`?")).unwrap_or_default()
}

/// How messages begin that do not name their key.
const ANONYMOUS: [&str; 6] = ["invalid ", "missing field", "data did not", "a number", "a value or", "\""];

/// Of words with little in common, the nearest reads as a riddle.
const NEAR: f64 = 0.6;

fn place(origin: &str, text: &str, offset: Option<usize>) -> String {
    match offset {
        Some(offset) => {
            let before = &text.as_bytes()[..offset.min(text.len())];
            format!("{origin}:{}", before.iter().filter(|&&byte| byte == b'\n').count() + 1)
        }
        None => origin.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::thread;

    use nix::sys::stat::Mode as Permissions;
    use nix::unistd::mkfifo;
    use serde::Deserialize;

    use super::*;

    const TEXT: &str = "workers = 2\n\n[[rule]]\nname = \"a\"\n[[rule]]\nto = [\n  \"x\",\n  \"y\",\n]\n";

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Small {
        #[serde(rename = "workers")]
        _workers: usize,
        #[serde(rename = "mode")]
        _mode: Option<Mode>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        Fast,
        Slow,
    }

    fn place(path: &[Step<'_>]) -> String {
        Document::parse("f.toml", TEXT).unwrap().place(path)
    }

    fn mistake(text: &str) -> String {
        let read = Document::parse("f.toml", text).and_then(|document| document.read::<Small>());
        read.unwrap_err().to_string()
    }

    #[test]
    fn a_pipe_is_read_once_and_what_has_no_end_never() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        let source = Source::new(path.clone());
        let fails = |why: &str| {
            let told = format!("{:#}", source.read().unwrap_err());
            assert_eq!(told, format!("read {}: {why}", path.display()));
        };
        let pipe = || mkfifo(&path, Permissions::S_IRWXU).unwrap();
        let change = |to: &str| {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(to, &path).unwrap();
        };

        pipe();
        let writer = thread::spawn({
            let path = path.clone();
            move || fs::write(path, "workers = 1").unwrap()
        });
        assert_eq!(source.read().unwrap(), "workers = 1");
        writer.join().unwrap();
        // Nobody writes to it now: waiting for that would be for ever.
        fails("it is a pipe, which can be read only at the start (restart, or write the configuration to a file)");
        for device in ["/dev/zero", "/dev/null"] {
            change(device);
            fails("it is no regular file (write the configuration to one)");
        }
        change("/");
        fails("it is a directory (name the file in it)");
        fs::remove_file(&path).unwrap();
        let file = File::create(&path).unwrap();
        file.set_len(LONGEST + 1).unwrap();
        fails("it is longer than 16 MiB (is it the right file?)");
        fs::write(&path, b"a\xff").unwrap();
        fails("byte 1 is no UTF-8");
        fs::write(&path, "workers = 2").unwrap();
        assert_eq!(source.read().unwrap(), "workers = 2");
    }

    #[test]
    fn every_value_has_its_line() {
        use Step::{Index, Key};
        assert_eq!(place(&[Key("workers")]), "f.toml:1");
        assert_eq!(place(&[Key("rule"), Index(0)]), "f.toml:3");
        assert_eq!(place(&[Key("rule"), Index(0), Key("name")]), "f.toml:4");
        assert_eq!(place(&[Key("rule"), Index(1), Key("to"), Index(1)]), "f.toml:8");
        // What is not there is near its parent.
        assert_eq!(place(&[Key("rule"), Index(1), Key("name")]), "f.toml:5");
        assert_eq!(place(&[Key("listener"), Index(1)]), "f.toml");
    }

    #[test]
    fn a_mistake_is_one_line_with_its_remedy() {
        assert_eq!(mistake("workers = 1\nmdoe = 1"), "f.toml:2: unknown key `mdoe`, did you mean `mode`?");
        assert_eq!(mistake("workers = 1\n\nmode = \"quick\""), "f.toml:3: `quick`: write one of fast, slow");
        assert_eq!(mistake("mode = \"fast\""), "f.toml:1: missing field `workers`");
        assert_eq!(mistake("workers = 1\n[mode"), "f.toml:2: unclosed table, expected `]`");
        assert_eq!(
            mistake("workers = \"1\""),
            "f.toml:1: workers: invalid type: string \"1\", expected a whole number from 0"
        );
    }
}
