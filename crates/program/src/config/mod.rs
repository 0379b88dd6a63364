//! Reads a TOML document with one line per error: the document, the line, the error, and the nearest valid word.

mod keys;
mod node;
mod origin;

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Deref;
use std::str::FromStr;

use anyhow::{Result, anyhow};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, DeserializeOwned, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, Error};
use weir_kernel::capabilities::User;

use node::{LeftOut, Mistake, MistakeKind, Node, in_words};

pub use keys::{Field, Key, KeyName, Kind, Table, Value, or_absent, plain, reference};
pub use origin::{Checked, Flags, Origin};

/// An address with its port, e.g. for `admin`: `10.0.0.1:514`.
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

/// An existing user, by name or number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct UserName(pub String);

impl TryFrom<String> for UserName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match User::find(&name) {
            _ if name.is_empty() => Err("it has no name (leave it out, or name one)".into()),
            Ok(_) => Ok(Self(name)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A list; a single value is a list of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Many<T>(pub Vec<T>);

impl<T> Deref for Many<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for List<T> {
            type Value = Many<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Many<T>, E> {
                T::deserialize(text.into_deserializer()).map(|one| Many(vec![one]))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Many<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(table)).map(|one| Many(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Many<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Many)
            }
        }
        reader.deserialize_any(List(PhantomData))
    }
}

/// An error in an expression of a document, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}")]
pub struct Pointed {
    /// The whole error in one line, with the document and its line.
    pub line: String,
    /// The expression.
    pub text: String,
    /// The byte of the expression at which the error was noticed.
    pub at: usize,
}

impl Pointed {
    /// The expression, and below it a caret under the place: two lines. Unprintable characters are shown as `?`, one
    /// column each.
    pub fn caret(&self) -> String {
        let shown: String = self.text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let column = self.text.char_indices().take_while(|&(byte, _)| byte < self.at).count();
        format!("  {shown}\n  {:column$}^", "")
    }
}

/// All errors of a document, one line each, in its order.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Mistakes(pub Vec<String>);

/// A valid TOML document that knows the place of everything in it.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    origin: &'a str,
    text: &'a str,
    root: Item<'a>,
    /// Names of flags, by the offset after the text at which their values begin.
    flags: Vec<(usize, String)>,
    /// The first unused offset.
    end: usize,
}

/// A value with its place.
pub type Item<'a> = Spanned<DeValue<'a>>;

/// A value in TOML, without its place.
pub fn value_of(item: &Item<'_>) -> toml::Value {
    // All TOML is such a value.
    Deserialize::deserialize(Node::new(item, &LeftOut::new())).unwrap_or(toml::Value::Boolean(false))
}

/// A step from a table or list down to a value in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A key of a table.
    Key(&'a str),
    /// An index of a list, from 0.
    Index(usize),
}

/// Nothing.
impl Default for Document<'_> {
    fn default() -> Self {
        let root = Spanned::new(0..0, DeValue::Table(DeTable::new()));
        Self { origin: "", text: "", root, flags: Vec::new(), end: 0 }
    }
}

impl<'a> Document<'a> {
    /// Parses `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// Not TOML.
    pub fn parse(origin: &'a str, text: &'a str) -> Result<Self> {
        let tree = DeTable::parse(text).map_err(|error| explain(origin, text, &error))?;
        let root = Spanned::new(tree.span(), DeValue::Table(tree.into_inner()));
        Ok(Self { origin, text, root, flags: Vec::new(), end: text.len() + 1 })
    }

    /// The value of a flag, as TOML or else as text; errors in it name the flag.
    pub fn flag(&mut self, flag: String, text: &'a str) -> Item<'a> {
        let start = self.end;
        self.flags.push((start, flag));
        self.end += text.len() + 1;
        let plain = |_| Spanned::new(0..text.len(), DeValue::String(text.into()));
        moved(DeValue::parse(text).unwrap_or_else(plain), start)
    }

    /// The value at a path. `None`: there is none.
    pub fn get(&self, path: &[Step<'_>]) -> Option<&Item<'a>> {
        path.iter().try_fold(&self.root, |value, step| match (value.get_ref(), *step) {
            (DeValue::Table(table), Step::Key(key)) => table.get(key),
            (DeValue::Array(array), Step::Index(index)) => array.get(index),
            _ => None,
        })
    }

    /// Removes the value of a dotted key from the document.
    pub fn take(&mut self, key: &str) -> Option<Item<'a>> {
        let (parents, name) = key.rsplit_once('.').map_or((None, key), |(parents, name)| (Some(parents), name));
        let mut table = &mut self.root;
        for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
            let DeValue::Table(own) = table.get_mut() else { return None };
            table = own.get_mut(parent)?;
        }
        let DeValue::Table(own) = table.get_mut() else { return None };
        own.remove(name)
    }

    /// Sets the value of a dotted key, and creates its tables.
    ///
    /// # Errors
    /// One of these is not a table.
    pub fn set(&mut self, key: &str, value: Item<'a>) -> Result<()> {
        let _ = self.take(key);
        let (place, span) = (self.place_of(Some(value.span().start)), value.span());
        let named = |part: &str| Spanned::new(span.clone(), DeString::from(part.to_owned()));
        let no_table = || anyhow!(line(&place, key, "its parent is a value, not a table"));
        let (parents, name) = key.rsplit_once('.').map_or((None, key), |(parents, name)| (Some(parents), name));
        let mut table = &mut self.root;
        for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
            let new = || Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
            let DeValue::Table(own) = table.get_mut() else { return Err(no_table()) };
            table = own.entry(named(parent)).or_insert_with(new);
        }
        let DeValue::Table(own) = table.get_mut() else { return Err(no_table()) };
        own.insert(named(name), value);
        Ok(())
    }

    /// The document as a `T`. Values with errors are left out and the rest read again, to find all errors.
    ///
    /// # Errors
    /// [`Mistakes`], at most 20: an unknown key (in types that refuse them), a missing one, a value of the wrong type
    /// or out of bounds.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let mut left_out = LeftOut::new();
        let mut lines = BTreeSet::new();
        while lines.len() < MOST_MISTAKES {
            let Mistake { message, place, kind } = match T::deserialize(Node::new(&self.root, &left_out)) {
                Ok(read) if lines.is_empty() => return Ok(read),
                Ok(_) => break,
                Err(mistake) => mistake,
            };
            let span = place.filter(|span| *span != self.root.span());
            let at = span.as_ref().map(|span| span.start);
            if kind != MistakeKind::LeftOut {
                let key = at.filter(|_| kind != MistakeKind::Key).and_then(|at| self.key(at)).unwrap_or_default();
                let message = match kind {
                    MistakeKind::Several => format!("{message}. Write [[{key}]] instead of [{key}]."),
                    _ => message,
                };
                let key = if message.starts_with(&*key) { "" } else { &*key };
                lines.insert((at, line(&self.place_of(at), key, message)));
            }
            let Some(span) = span else { break };
            if !left_out.insert((span.start, span.end)) {
                break;
            }
        }
        Err(Mistakes(lines.into_iter().map(|(_, line)| line).collect()).into())
    }

    /// The key of the value at an offset, with those of its tables: `limits.agents`.
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
        self.root.get_ref().as_table().and_then(|root| within(root, at)).filter(|key| !key.is_empty())
    }

    /// An error about the value at `path`, or about the existing part of the path.
    pub fn error(&self, path: &[Step<'_>], message: &str) -> anyhow::Error {
        anyhow!("{}: {message}", self.place(path))
    }

    /// The same; the line begins with the keys of the path.
    pub fn wrong(&self, path: &[Step<'_>], message: impl fmt::Display) -> anyhow::Error {
        anyhow!(line(&self.place(path), &keys_of(path), message))
    }

    /// An error about a value, which may have been removed from the document, or moved to another key.
    pub fn wrong_item(&self, item: &Item<'_>, key: &str, message: impl fmt::Display) -> anyhow::Error {
        anyhow!(line(&self.place_of(Some(item.span().start)), key, message))
    }

    /// Whether it comes from a file, not only from flags.
    pub fn is_file(&self) -> bool {
        !self.origin.is_empty()
    }

    /// `tee.toml:12` for the value at `path`, or for the existing part of the path.
    pub fn place(&self, path: &[Step<'_>]) -> String {
        self.place_of(self.start(path))
    }

    /// The place of an offset: the file and the line, or the flag.
    fn place_of(&self, at: Option<usize>) -> String {
        let flag = at.and_then(|at| self.flags.iter().rfind(|(start, _)| *start <= at));
        flag.map_or_else(|| place(self.origin, self.text, at), |(_, flag)| flag.clone())
    }

    /// The offset at which the value at `path` starts. `None`: not even its first step exists.
    fn start(&self, path: &[Step<'_>]) -> Option<usize> {
        let (&Step::Key(first), rest) = path.split_first()? else { return None };
        let mut value = self.root.get_ref().as_table()?.get(first)?;
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

/// `listen.address`
fn keys_of(path: &[Step<'_>]) -> String {
    let keys = path.iter().filter_map(|step| match *step {
        Step::Key(key) => Some(key),
        Step::Index(_) => None,
    });
    keys.collect::<Vec<_>>().join(".")
}

/// A line with the place and the existing keys; a flag stands for its key.
fn line(place: &str, keys: &str, message: impl fmt::Display) -> String {
    let keys = if place.starts_with("--") { "" } else { keys };
    let parts = [place, keys].into_iter().filter(|part| !part.is_empty());
    parts.map(|part| format!("{part}: ")).collect::<String>() + &message.to_string()
}

/// A later value.
fn moved<'a>(value: Spanned<DeValue<'a>>, by: usize) -> Spanned<DeValue<'a>> {
    let span = value.span().start + by..value.span().end + by;
    let value = match value.into_inner() {
        DeValue::Array(array) => DeValue::Array(array.into_iter().map(|value| moved(value, by)).collect()),
        DeValue::Table(table) => {
            DeValue::Table(table.into_iter().map(|(key, value)| (key, moved(value, by))).collect())
        }
        value => value,
    };
    Spanned::new(span, value)
}

/// One line: document, line number, error, and the nearest valid key.
pub fn explain(origin: &str, text: &str, error: &Error) -> anyhow::Error {
    let start = error.span().map(|span| span.start);
    let line = start.and_then(|start| text.get(..start)?.lines().last());
    let rest = start.and_then(|start| text.get(start..)?.lines().next()).unwrap_or_default().trim();
    if error.message() == "duplicate key" {
        let key: String = rest.chars().take_while(|c| c.is_alphanumeric() || "_-".contains(*c)).collect();
        return anyhow!("{}: {key}: it is there twice", place(origin, text, start));
    }
    match line.and_then(|line| line.trim_end().strip_suffix('=')) {
        Some(key) if rest.is_empty() || rest.starts_with('#') => {
            anyhow!("{}: {}: no value after `=`", place(origin, text, start), key.trim().escape_debug())
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

/// `, did you mean ...?` with the nearest of `valid`; empty, if none is near.
pub fn did_you_mean<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let similarity = |candidate: &str| strsim::jaro_winkler(word, candidate);
    // Addresses are similar: suggest one only if a digit or two differ.
    let has_digits = word.contains(|c: char| c.is_ascii_digit());
    let is_slip = |candidate: &str| !has_digits || strsim::damerau_levenshtein(word, candidate) <= 2;
    let near = valid.into_iter().filter(|candidate| similarity(candidate) >= NEAR && is_slip(candidate));
    let nearest = near.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    nearest.map(|nearest| format!(", did you mean `{nearest}`?")).unwrap_or_default()
}

/// More errors mean the wrong file.
const MOST_MISTAKES: usize = 20;

/// As for clap's suggestions: among words with little in common, the nearest one is confusing.
const NEAR: f64 = 0.7;

fn place(origin: &str, text: &str, offset: Option<usize>) -> String {
    match offset.filter(|_| !origin.is_empty()) {
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
    use weir_units::Span;

    use super::origin::LONGEST;
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
        let source = origin::Source::new(path.clone());
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
        fails("it is a pipe, which can be read only at the start. Restart, or write the configuration to a file.");
        for device in ["/dev/zero", "/dev/null"] {
            change(device);
            fails("it is not a regular file. Write the configuration to one.");
        }
        change("/");
        fails("it is a directory. Name the file in it.");
        fs::remove_file(&path).unwrap();
        let file = File::create(&path).unwrap();
        file.set_len(LONGEST + 1).unwrap();
        fails("it is longer than 16 MiB. Check the name of the file.");
        fs::write(&path, b"a\xff").unwrap();
        fails("byte 1 is not UTF-8");
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
        for (text, line) in [
            ("workers = 1\nmdoe = 1", "f.toml:2: unknown key `mdoe`, did you mean `mode`?"),
            ("workers = 1\n\nmode = \"quick\"", "f.toml:3: mode: `quick`: write one of fast, slow"),
            ("mode = \"fast\"", "f.toml: missing key `workers`"),
            ("workers = 1\n[mode", "f.toml:2: unclosed table, expected `]`"),
            ("workers = \"1\"", "f.toml:1: workers: invalid type: string \"1\", expected a whole number from 0"),
            // All of them, and none that follows from another.
            (
                "workers = -1\nmode = 3\nspeed = 1",
                "f.toml:1: workers: invalid value: integer `-1`, expected a whole number from 0; \
                 f.toml:2: mode: invalid type: integer, expected a word; f.toml:3: unknown key `speed`",
            ),
        ] {
            assert_eq!(mistake(text), line);
        }
    }

    crate::keys! {
        /// A file.
        struct Whole {
            /// Its name.
            name: String;
            /// From one look
            /// to the next.
            every: Span = "20s", "1s" to "1h" or "0";
            /// How many at once.
            workers (fixed): Option<u16>, 1 to 64;
            /// What is written.
            r#match: Vec<String> = ["a", "b"];
            /// What comes in.
            source: Vec<Input>;
        }
        gone { speed: "it is measured: remove it"; }
    }

    crate::kinds! {
        /// What comes in.
        enum Input {
            /// A wave.
            Sine(Sine) = "sine",
            /// Random numbers.
            Noise(Noise) = "noise",
        }
    }

    crate::keys! {
        /// A wave.
        struct Sine {
            /// Of the wave.
            phase: f64 = 0.5;
        }
    }

    crate::keys! {
        /// Random numbers.
        struct Noise {
            /// Of the numbers.
            seed: u64 = 1;
        }
    }

    impl Checked for Whole {
        fn check(&self, document: &Document<'_>) -> Result<()> {
            match self.name.as_str() {
                "" => Err(document.wrong(&[Step::Key("name")], "it is empty")),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn one_declaration_reads_checks_prints_and_documents() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let load = |text: &str, flags: Flags| -> Result<Whole> {
            fs::write(file.path(), text).unwrap();
            Origin::new(Some(file.path().into()), flags).load()
        };
        let name = file.path().display();
        let least = load("name = \"a\"", Flags::default()).unwrap();
        assert_eq!((least.every, least.workers, &*least.r#match.concat()), (Span::from_secs(20), None, "ab"));
        let text =
            "name = \"a\"\nevery = \"0\"\nworkers = 9\n[[source]]\nkind = \"sine\"\n[[source]]\nkind = \"noise\"\n";
        let all = load(text, Flags::default()).unwrap();
        assert_eq!(all.source, [Input::Sine(Sine { phase: 0.5 }), Input::Noise(Noise { seed: 1 })]);
        assert_eq!(
            (load(&all.to_toml(), Flags::default()).unwrap(), least.stays(&all)),
            (all.clone(), vec!["workers"])
        );

        let flags = || Flags::default().with("--workers", "workers", Some(7)).with("--name", "name", None::<&str>);
        assert_eq!(load(text, flags()).unwrap(), Whole { workers: Some(7), ..all });
        let alone = Origin::<Whole>::new(None, flags().with("--name", "name", Some("b"))).load().unwrap();
        assert_eq!((&*alone.name, alone.workers), ("b", Some(7)));
        let alone = |flags| Origin::<Whole>::new(None, flags).load().unwrap_err().to_string();
        assert_eq!(alone(flags().with("--name", "name", Some(""))), "--name: it is empty");
        assert_eq!(alone(flags()), "missing key `name`");

        for (text, line) in [
            ("every = \"2h\"\n", format!("{name}:1: every: 2h (it must be 1s to 1h, or 0)")),
            ("speed = 1\n", format!("{name}:1: speed is gone: it is measured: remove it")),
            ("match = [\"a\", 1]\n", format!("{name}:1: match: invalid type: integer `1`, expected a string")),
            ("[[source]]\nphase = 1\n", format!("{name}:1: source: missing key `kind`")),
            (
                "[[source]]\nkind = \"sine\"\nphaes = 1\n",
                format!("{name}:3: unknown key `phaes`, did you mean `phase`?"),
            ),
            ("[[source]]\nkind = \"noise\"\nphase = 1\n", format!("{name}:3: unknown key `phase`")),
            ("[[source]]\nkind = \"step\"\n", format!("{name}:2: source.kind: `step`: write one of sine, noise")),
            (
                "[source]\nkind = \"sine\"\n",
                format!("{name}:1: source: there can be several. Write [[source]] instead of [source]."),
            ),
        ] {
            assert_eq!(load(text, Flags::default().with("--name", "name", Some("a"))).unwrap_err().to_string(), line);
        }
        insta::assert_snapshot!(reference(Whole::KEYS));
    }
}
