//! The times of single messages, as CSV.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::store::StoreError;

/// A message. Times are ns of CLOCK_MONOTONIC: those of sending of the sender's machine, that of receiving of the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its sender, or where that is not known its receiver.
    pub peer: SocketAddr,
    /// The sender's session.
    pub session: u16,
    /// What the sender drew at its start; 0: unknown.
    pub incarnation: u32,
    /// Its number, from 0.
    pub number: u64,
    /// When it was due; `None`: unknown, messages below 40 bytes do not tell.
    pub intended: Option<u64>,
    /// When it was sent; `None`: unknown.
    pub sent: Option<u64>,
    /// When it was received; `None`: it was not, or nobody knows.
    pub received: Option<u64>,
}

/// A file that takes messages, in whole lines.
pub struct MessageTable {
    file: File,
    path: PathBuf,
    waiting: Vec<u8>,
    /// Messages that it was given, and those in the file.
    given: u64,
    written: u64,
    /// Bytes in the file.
    bytes: u64,
    is_broken: bool,
}

impl MessageTable {
    /// Fills a file that was made at `path`.
    ///
    /// # Errors
    /// It could not be made.
    pub fn create(path: &Path, file: io::Result<File>) -> Result<Self, StoreError> {
        let file = file.map_err(|error| StoreError::new("create", path, error))?;
        let waiting = HEAD.as_bytes().to_vec();
        Ok(Self { file, path: path.to_owned(), waiting, given: 0, written: 0, bytes: 0, is_broken: false })
    }

    /// Adds messages. Once it has failed it takes no more, and only counts them.
    ///
    /// # Errors
    /// They cannot be written: said once.
    pub fn write(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        let mut written = Ok(());
        for message in messages {
            self.given += 1;
            if !self.is_broken {
                row(&mut self.waiting, message);
            }
            if self.waiting.len() >= BUFFER {
                written = written.and(self.finish());
            }
        }
        written
    }

    /// Writes what waits, all of it or nothing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut self.waiting);
        if self.is_broken {
            return Ok(());
        }
        let written = self.file.write_all(&waiting);
        self.is_broken = written.is_err();
        match written {
            Ok(()) => (self.written, self.bytes) = (self.given, self.bytes + waiting.len() as u64),
            // A pipe cannot be cut; its reader has had the rest.
            Err(_) => drop(self.file.set_len(self.bytes)),
        }
        written.map_err(|error| StoreError::new("write", &self.path, error))
    }

    /// Messages that it was given and that are not in the file, once it has [ended](Self::finish).
    pub fn not_written(&self) -> u64 {
        self.given - self.written
    }
}

fn row(into: &mut Vec<u8>, message: &Message) {
    let Message { peer, session, incarnation, number, .. } = message;
    let [intended, sent, received] = [message.intended, message.sent, message.received]
        .map(|time| time.map(|time| time.to_string()).unwrap_or_default());
    // A vector takes all.
    let _ = writeln!(into, "{peer},{session},{incarnation},{number},{intended},{sent},{received}");
}

const HEAD: &str = "peer,session,incarnation,number,intended_ns,sent_ns,received_ns\n";

const BUFFER: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64, received: Option<u64>) -> Message {
        let peer = "[::1]:7".parse().unwrap();
        Message { peer, session: 9, incarnation: u32::MAX, number, intended: None, sent: Some(number * 10), received }
    }

    #[test]
    fn a_message_is_a_row() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.csv");
        let mut table = MessageTable::create(&path, File::create(&path)).unwrap();
        table.write(&[message(0, Some(15)), message(1, None)]).unwrap();
        table.write(&[message(2, Some(29))]).unwrap();
        table.finish().unwrap();
        let rows = "[::1]:7,9,4294967295,0,,0,15\n[::1]:7,9,4294967295,1,,10,\n[::1]:7,9,4294967295,2,,20,29\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEAD}{rows}"));
    }

    #[test]
    fn a_full_disk_is_said_once_and_what_is_missing_is_counted() {
        let path = Path::new("/dev/full");
        let mut table = MessageTable::create(path, File::create(path)).unwrap();
        let many: Vec<Message> = (0..100_000).map(|number| message(number, None)).collect();
        let failures = (0..3).filter(|_| table.write(&many).is_err()).count();
        let ended = table.finish();
        assert_eq!(failures + usize::from(ended.is_err()), 1);
        assert_eq!(table.not_written(), 300_000);
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let error = MessageTable::create(Path::new("/nowhere/m.csv"), File::create("/nowhere/m.csv"))
            .err()
            .unwrap()
            .to_string();
        assert!(error.starts_with("create /nowhere/m.csv: No such file"), "{error}");
    }
}
