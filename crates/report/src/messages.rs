//! The times of single messages, as CSV.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use crate::store::{self, StoreError};

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

/// A file that takes messages.
pub struct MessageTable {
    lines: Lines,
    /// It cannot be written any more.
    is_broken: bool,
    path: std::path::PathBuf,
    /// Messages that it was given.
    given: u64,
}

/// A file of whole lines: one that is written in part is taken back.
struct Lines {
    file: File,
    waiting: Vec<u8>,
    /// Messages that wait.
    rows: u64,
    /// Messages, and all bytes, in the file.
    written: u64,
    bytes: u64,
}

impl MessageTable {
    /// Fills a file that was made at `path`.
    ///
    /// # Errors
    /// It could not be made.
    pub fn create(path: &Path, file: io::Result<File>) -> Result<Self, StoreError> {
        let file = file.map_err(|error| StoreError::new("create", path, error))?;
        let lines = Lines { file, waiting: HEAD.as_bytes().to_vec(), rows: 0, written: 0, bytes: 0 };
        Ok(Self { lines, is_broken: false, path: path.to_owned(), given: 0 })
    }

    /// The same in the directory of a result, in place of an earlier one: a link of that name is not followed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn of_result(path: &Path) -> Result<Self, StoreError> {
        Self::create(path, store::fresh(path))
    }

    /// Adds messages. Once it has failed it takes no more, and only counts them.
    ///
    /// # Errors
    /// They cannot be written: said once.
    pub fn write(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        self.given += messages.len() as u64;
        self.unless_broken(|lines| messages.iter().try_for_each(|message| lines.add(message)))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The rest cannot be written.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        self.unless_broken(Lines::flush)
    }

    /// Messages that it was given and that are not in the file, once it has [ended](Self::finish).
    pub fn not_written(&self) -> u64 {
        self.given - self.lines.written
    }

    fn unless_broken(&mut self, write: impl FnOnce(&mut Lines) -> io::Result<()>) -> Result<(), StoreError> {
        if self.is_broken {
            return Ok(());
        }
        let written = write(&mut self.lines);
        self.is_broken = written.is_err();
        written.map_err(|error| StoreError::new("write", &self.path, error))
    }
}

impl Lines {
    fn add(&mut self, message: &Message) -> io::Result<()> {
        row(&mut self.waiting, message)?;
        self.rows += 1;
        if self.waiting.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Writes what waits, or as many whole lines of it as there is room for.
    fn flush(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.waiting.len() {
            match self.file.write(&self.waiting[done..]) {
                Ok(0) => return self.take_back(done, io::ErrorKind::WriteZero.into()),
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.take_back(done, error),
            }
        }
        self.bytes += done as u64;
        self.written += self.rows;
        self.rows = 0;
        self.waiting.clear();
        Ok(())
    }

    /// So many bytes of what waits could be written.
    fn take_back(&mut self, done: usize, error: io::Error) -> io::Result<()> {
        let ends = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let whole = self.waiting[..done].iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        // The head, if it waits, is a line, too.
        let heads = ends(&self.waiting) - self.rows;
        self.written += ends(&self.waiting[..whole]).saturating_sub(heads);
        // What is no plain file cannot be cut; its reader has had the rest.
        let _ = self.file.set_len(self.bytes + whole as u64);
        Err(error)
    }
}

fn row(file: &mut impl Write, message: &Message) -> io::Result<()> {
    let Message { peer, session, incarnation, number, .. } = message;
    write!(file, "{peer},{session},{incarnation},{number}")?;
    for time in [message.intended, message.sent, message.received] {
        match time {
            Some(time) => write!(file, ",{time}")?,
            None => file.write_all(b",")?,
        }
    }
    file.write_all(b"\n")
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
    fn a_line_that_was_written_in_part_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.csv");
        let mut table = MessageTable::create(&path, File::create(&path)).unwrap();
        table.write(&[message(0, Some(15)), message(1, None)]).unwrap();
        let lines = &mut table.lines;
        // As if the disk had taken all but the last ten bytes.
        let done = lines.waiting.len() - 10;
        let waiting = lines.waiting.clone();
        lines.file.write_all(&waiting[..done]).unwrap();
        assert!(lines.take_back(done, io::ErrorKind::StorageFull.into()).is_err());
        assert_eq!(table.not_written(), 1);
        let told = std::fs::read_to_string(&path).unwrap();
        assert_eq!(told, format!("{HEAD}[::1]:7,9,4294967295,0,,0,15\n"));
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let error = MessageTable::of_result(Path::new("/nowhere/m.csv")).err().unwrap().to_string();
        assert!(error.starts_with("create /nowhere/m.csv: No such file"), "{error}");
    }
}
