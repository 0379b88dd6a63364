//! The times of single messages, as CSV.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use crate::store::StoreError;

/// A message. Times are ns of CLOCK_MONOTONIC: send times of the sender's machine, receive times of the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its sender, or if unknown its receiver.
    pub peer: SocketAddr,
    /// The sender's session.
    pub session: u16,
    /// Random number of the sender's run; 0: unknown.
    pub incarnation: u32,
    /// Its number, from 0.
    pub number: u64,
    /// When it was due. `None`: unknown, messages below 40 bytes do not carry it.
    pub intended: Option<u64>,
    /// When it was sent. `None`: unknown.
    pub sent: Option<u64>,
    /// When it was received. `None`: it was not, or it is unknown.
    pub received: Option<u64>,
}

/// Writes messages to a file created at `path`, in whole lines. Returns how many, and the error that ended it.
pub fn write_all(
    path: &Path,
    mut file: File,
    messages: impl IntoIterator<Item = Message>,
) -> (u64, Result<(), StoreError>) {
    let (mut messages, mut waiting) = (messages.into_iter(), HEAD.as_bytes().to_vec());
    let (mut given, mut written, mut bytes) = (0, 0, 0);
    loop {
        while waiting.len() < BUFFER
            && let Some(message) = messages.next()
        {
            row(&mut waiting, &message);
            given += 1;
        }
        if waiting.is_empty() {
            return (written, Ok(()));
        }
        if let Err(error) = file.write_all(&waiting) {
            // A pipe cannot be truncated; its reader has the rest already.
            let _ = file.set_len(bytes);
            return (written, Err(StoreError::new("write", path, error)));
        }
        (written, bytes) = (given, bytes + waiting.len() as u64);
        waiting.clear();
    }
}

fn row(into: &mut Vec<u8>, message: &Message) {
    let Message { peer, session, incarnation, number, .. } = message;
    let [intended, sent, received] = [message.intended, message.sent, message.received]
        .map(|time| time.map(|time| time.to_string()).unwrap_or_default());
    // Writing to a vector cannot fail.
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
        let messages = [message(0, Some(15)), message(1, None)];
        let (written, failed) = write_all(&path, File::create(&path).unwrap(), messages);
        assert_eq!((written, failed.is_ok()), (2, true));
        let rows = "[::1]:7,9,4294967295,0,,0,15\n[::1]:7,9,4294967295,1,,10,\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEAD}{rows}"));
    }

    #[test]
    fn what_is_more_than_a_buffer_is_written_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.csv");
        let many = (0..100_000).map(|number| message(number, None));
        let (written, failed) = write_all(&path, File::create(&path).unwrap(), many);
        assert_eq!((written, failed.is_ok()), (100_000, true));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 100_001);
    }

    #[test]
    fn a_full_disk_takes_no_message() {
        let path = Path::new("/dev/full");
        let many = (0..100_000).map(|number| message(number, None));
        let (written, failed) = write_all(path, File::create(path).unwrap(), many);
        assert_eq!((written, failed.unwrap_err().is_full()), (0, true));
    }
}
