//! The source of a configuration: a file, flags, or a file with keys replaced by flags.

use std::fs::OpenOptions;
use std::io::Read;
use std::marker::PhantomData;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use nix::libc;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Document;

/// A whole configuration: one struct to read, check and print.
pub trait Checked: DeserializeOwned + Serialize {
    /// Checks the relations between its values.
    ///
    /// # Errors
    /// The first error, by [`Document::wrong`].
    fn check(&self, document: &Document<'_>) -> Result<()>;

    /// Reads and checks a document.
    ///
    /// # Errors
    /// One line per error.
    fn of(document: &Document<'_>) -> Result<Self> {
        let read: Self = document.read()?;
        read.check(document).map(|()| read)
    }

    /// An equivalent file with all defaults.
    fn to_toml(&self) -> String {
        // Every key has a form in TOML.
        toml::to_string(self).unwrap_or_default()
    }
}

/// A configuration that can be read repeatedly.
#[derive(Clone, Debug)]
pub struct Origin<T> {
    file: Option<Source>,
    flags: Flags,
    of: PhantomData<fn() -> T>,
}

impl<T: Checked> Origin<T> {
    /// `flags` replace keys of the file, or are the whole configuration.
    pub fn new(file: Option<PathBuf>, flags: Flags) -> Self {
        Self { file: file.map(Source::new), flags, of: PhantomData }
    }

    /// The file. `None`: everything is on the command line, and a reload changes nothing.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(|source| &*source.path)
    }

    /// Reads and checks its current content.
    ///
    /// # Errors
    /// One line per error: the file cannot be read or is not such a document.
    pub fn load(&self) -> Result<T> {
        self.load_as(|read, _| Ok(read))
    }

    /// The same; `probe` may check more, and knows all places.
    ///
    /// # Errors
    /// The same, or those of `probe`.
    pub fn load_with(&self, probe: impl FnOnce(&T, &Document<'_>) -> Result<()>) -> Result<T> {
        self.load_as(|read, document| probe(&read, document).map(|()| read))
    }

    /// The same; `make` converts it.
    ///
    /// # Errors
    /// The same, or those of `make`.
    pub fn load_as<R>(&self, make: impl FnOnce(T, &Document<'_>) -> Result<R>) -> Result<R> {
        let (origin, text) = match &self.file {
            Some(source) => (source.path.display().to_string(), source.read()?),
            None => Default::default(),
        };
        let mut document = Document::parse(&origin, &text)?;
        for (flag, key, value) in &self.flags.0 {
            let value = document.flag((*flag).to_owned(), value);
            document.set(key, value)?;
        }
        make(T::of(&document)?, &document)
    }
}

/// Values of flags: the flag, its key, and the value in TOML.
#[derive(Clone, Debug, Default)]
pub struct Flags(Vec<(&'static str, String, String)>);

impl Flags {
    /// If `flag` was given, it is the value of `key`.
    #[must_use]
    pub fn with(mut self, flag: &'static str, key: &str, value: Option<impl Serialize>) -> Self {
        // All values of flags have a form in TOML.
        if let Some(value) = value.and_then(|value| toml::Value::try_from(value).ok()) {
            self.0.push((flag, key.to_owned(), value.to_string()));
        }
        self
    }
}

/// A file that is read at the start and at every reload. Clones share the state of reading.
#[derive(Clone, Debug)]
pub(super) struct Source {
    path: PathBuf,
    /// Whether the start is over: until then it may be a pipe, which is read to its end.
    is_read: Arc<AtomicBool>,
}

impl Source {
    /// The file at a path, not read yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, is_read: Arc::default() }
    }

    /// The current text. After the first time only a regular file is read: an idle pipe would block the service, and a
    /// device has no end.
    pub(super) fn read(&self) -> Result<String> {
        let origin = self.path.display();
        let is_reload = self.is_read.load(Ordering::Relaxed);
        let text = read(&self.path, is_reload).with_context(|| format!("read {origin}"))?;
        self.is_read.store(true, Ordering::Relaxed);
        Ok(text)
    }
}

/// A text of at most [`LONGEST`] bytes from a regular file or, unless it is a reload, from a pipe.
fn read(path: &Path, is_reload: bool) -> Result<String> {
    // Without the flag opening a pipe blocks until somebody writes to it.
    let flags = if is_reload { libc::O_NONBLOCK } else { 0 };
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    match kind {
        kind if kind.is_file() || kind.is_fifo() && !is_reload => {}
        kind if kind.is_fifo() => {
            bail!("it is a pipe, which can be read only at the start. Restart, or write the configuration to a file.")
        }
        kind if kind.is_dir() => bail!("it is a directory. Name the file in it."),
        _ => bail!("it is not a regular file. Write the configuration to one."),
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        bail!("it is longer than 16 MiB. Check the name of the file.");
    }
    String::from_utf8(bytes).map_err(|error| anyhow!("byte {} is not UTF-8", error.utf8_error().valid_up_to()))
}

/// No real configuration is longer.
pub(super) const LONGEST: u64 = 16 << 20;
