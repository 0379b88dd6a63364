//! Files of /proc/net.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::Error;
use crate::error::During;
use crate::legible;

/// A file of a network namespace that is read again and again.
#[derive(Debug)]
pub(crate) struct NetFile {
    file: File,
    path: String,
}

impl NetFile {
    /// Opens a file of the calling thread's network namespace; it goes on to tell of that.
    pub(crate) fn open(name: impl fmt::Display) -> Result<NetFile, Error> {
        let path = path(name);
        let file = File::open(&path).during(|| format!("open {path}"))?;
        Ok(NetFile { file, path })
    }

    /// The whole file, now.
    pub(crate) fn read(&self) -> Result<String, Error> {
        let mut text = Vec::with_capacity(CHUNK);
        let mut chunk = [0; CHUNK];
        loop {
            let length = self.file.read_at(&mut chunk, text.len() as u64).during(|| format!("read {}", self.path))?;
            if length == 0 {
                return Ok(legible::text(&text));
            }
            text.extend_from_slice(&chunk[..length]);
        }
    }
}

/// A file of the calling thread's network namespace.
pub(crate) fn read(name: impl fmt::Display) -> Result<String, Error> {
    let path = path(name);
    // It may name interfaces, whose names may be no UTF-8.
    fs::read(&path).map(|bytes| legible::text(&bytes)).during(|| format!("read {path}"))
}

pub(crate) fn path(name: impl fmt::Display) -> String {
    format!("/proc/thread-self/net/{name}")
}

const CHUNK: usize = 8192;
