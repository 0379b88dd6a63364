//! Samples that a program of this machine writes to a ring in shared memory, a file of /dev/shm.
//!
//! All numbers are little-endian. The writer puts frames (a value of each channel) at `number % capacity`, then stores `written`. It puts
//! at most a quarter of the ring at a time: what is older than three quarters counts as overwritten.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `WEIRRING` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | element: 0 f32, 1 f64, 2 i16, 3 i32 |
//! | 16 | 4 | channels, 1 to 1,024 |
//! | 20 | 4 | capacity in frames, at least 4 |
//! | 24 | 4 | ticks per second |
//! | 28 | 4 | ticks per frame |
//! | 32 | 8 | time of frame 0, ns since 1970 UTC, signed |
//! | 40 | 8 | written: frames so far |
//! | 48 | 16 | 0 |
//! | 64 | | frames |

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use weir_wire::signal::{Element, Rate};

use super::{Next, Source};
use crate::station::board::{Board, Id, Opening};
use crate::station::settings::Source as Settings;

/// A ring that is read.
#[derive(Debug)]
pub(super) struct Ring {
    number: usize,
    path: PathBuf,
    file: File,
    head: Head,
    names: Vec<String>,
    channels: Option<Vec<Option<Id>>>,
    /// Number of the next frame.
    next: u64,
    bytes: Vec<u8>,
    values: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    element: Element,
    channels: u32,
    capacity: u32,
    rate: Rate,
    origin: i64,
    written: u64,
}

impl Ring {
    pub(super) fn open(number: usize, settings: &Settings, path: &Path, names: &[String]) -> Result<Self> {
        let during = || format!("ring {}", path.display());
        let file = File::open(path).with_context(during)?;
        let head = Head::read(&file).with_context(during)?;
        let prefix = if settings.name.is_empty() { String::new() } else { format!("{}.", settings.name) };
        let name = |at: u32| match names.get(at as usize) {
            Some(name) => format!("{prefix}{name}"),
            None => format!("{prefix}{at}"),
        };
        Ok(Self {
            number,
            path: path.to_owned(),
            file,
            head,
            names: (0..head.channels).map(name).collect(),
            channels: None,
            next: 0,
            bytes: Vec::new(),
            values: Vec::new(),
        })
    }

    fn channels(&mut self, board: &mut Board) -> Vec<Option<Id>> {
        let Head { rate, element, origin, .. } = self.head;
        let open = |name: &String| {
            board.channel(&Opening {
                source: self.number,
                name,
                unit: "",
                description: "",
                rate,
                element,
                origin,
                own_times: true,
            })
        };
        self.names.iter().map(open).collect()
    }
}

impl Source for Ring {
    fn take(&mut self, board: &mut Board) -> Result<Next> {
        let channels = match self.channels.take() {
            Some(channels) => channels,
            None => self.channels(board),
        };
        let head = Head::read(&self.file).with_context(|| format!("ring {}", self.path.display()))?;
        let same = Head { written: 0, ..head } == Head { written: 0, ..self.head } && head.written >= self.next;
        ensure!(same, "ring {}: it was made anew (restart the station to read it)", self.path.display());
        let safe = u64::from(head.capacity) * 3 / 4;
        let each = head.element.size();
        let frame = head.channels as usize * each;
        while self.next < head.written {
            let from = self.next.max(head.written.saturating_sub(safe));
            let missed = from - self.next;
            // Up to the end of the ring, and no more at a time than is soon read.
            let at = from % u64::from(head.capacity);
            let most = (u64::from(head.capacity) - at).min(((PART / frame).max(1)) as u64);
            let frames = (head.written - from).min(most);
            self.bytes.resize(frames as usize * frame, 0);
            self.file.read_exact_at(&mut self.bytes, HEAD_LEN as u64 + at * frame as u64)?;
            // What was overwritten meanwhile is none of the frames that were asked for.
            let oldest = Head::read(&self.file)?.written.saturating_sub(safe);
            let torn = oldest.saturating_sub(from).min(frames);
            for (channel, id) in channels.iter().enumerate() {
                let Some(id) = *id else { continue };
                if missed + torn > 0 {
                    board.skip(id, missed + torn);
                }
                self.values.clear();
                let values = self.bytes.chunks_exact(frame).skip(torn as usize);
                self.values.extend(values.map(|frame| head.element_at(frame, channel * each)));
                board.samples(id, &self.values);
            }
            self.next = from + frames;
        }
        self.channels = Some(channels);
        let period = u64::try_from(head.rate.nanos(1)).unwrap_or(u64::MAX);
        Ok(Next::At(board.now.elapsed + period.clamp(SHORTEST, LONGEST)))
    }
}

impl Head {
    fn read(file: &File) -> Result<Self> {
        let mut bytes = [0; HEAD_LEN];
        file.read_exact_at(&mut bytes, 0).context("it has no header of 64 bytes")?;
        ensure!(bytes.starts_with(b"WEIRRING"), "it does not begin with WEIRRING");
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        ensure!(word(8) == 1, "version {}: this is version 1", word(8));
        let code = u8::try_from(word(12)).unwrap_or(u8::MAX);
        let element = Element::from_code(code).with_context(|| format!("element {}: there are 0 to 3", word(12)))?;
        let (channels, capacity) = (word(16), word(20));
        ensure!((1..=1024).contains(&channels), "{channels} channels: it must be 1 to 1024");
        ensure!(capacity >= 4, "a capacity of {capacity} frames: it must be 4 or more");
        let rate = Rate { per_second: word(24), per_sample: word(28) };
        ensure!(rate.per_second > 0 && rate.per_sample > 0, "a clock without ticks");
        ensure!(rate.per_s() <= 1e6, "{} frames a second: it must be 1,000,000 or less", rate.per_s());
        Ok(Self { element, channels, capacity, rate, origin: long(32).cast_signed(), written: long(40) })
    }

    fn element_at(&self, frame: &[u8], at: usize) -> f64 {
        match self.element {
            Element::F32 => f32::from_le_bytes(std::array::from_fn(|byte| frame[at + byte])).into(),
            Element::F64 => f64::from_le_bytes(std::array::from_fn(|byte| frame[at + byte])),
            Element::I16 => i16::from_le_bytes(std::array::from_fn(|byte| frame[at + byte])).into(),
            Element::I32 => i32::from_le_bytes(std::array::from_fn(|byte| frame[at + byte])).into(),
        }
    }
}

const HEAD_LEN: usize = 64;
const PART: usize = 1 << 18;
const SHORTEST: u64 = 1_000_000;
const LONGEST: u64 = 100_000_000;
