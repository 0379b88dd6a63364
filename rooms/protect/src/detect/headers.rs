//! First bytes of a few packets.

use super::classes::Classes;

/// Headers that are kept, and how much of each.
const HEADERS: usize = 4;
/// As above.
const HEADER: usize = 128;

/// First bytes of the newest packets.
#[derive(Debug)]
pub(super) struct Headers {
    all: Vec<Header>,
    /// Which is the oldest, once all places are taken.
    next: usize,
}

impl Default for Headers {
    fn default() -> Self {
        Self { all: Vec::with_capacity(HEADERS), next: 0 }
    }
}

#[derive(Debug)]
struct Header {
    time: u64,
    classes: Classes,
    length: u8,
    bytes: [u8; HEADER],
}

impl Headers {
    /// In the place of the oldest.
    #[inline]
    pub(super) fn note(&mut self, header: &[u8], time: u64, classes: Classes) {
        if self.all.len() < HEADERS {
            self.all.push(Header { time, classes, length: 0, bytes: [0; HEADER] });
        }
        if let Some(newest) = self.all.get_mut(self.next) {
            let known = header.len().min(HEADER);
            newest.bytes[..known].copy_from_slice(&header[..known]);
            (newest.time, newest.classes, newest.length) = (time, classes, known as u8);
        }
        self.next = (self.next + 1) % HEADERS;
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.next = 0;
    }

    /// Those that came since, of one of these classes.
    pub(super) fn of(&self, classes: Classes, since: u64) -> impl Iterator<Item = &[u8]> {
        let of_it = self.all.iter().filter(move |header| header.time >= since && header.classes & classes != 0);
        of_it.map(|header| &header.bytes[..usize::from(header.length)])
    }
}
