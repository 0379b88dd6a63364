//! Datagrams as text: what `weir sflow decode` prints.
//!
//! ```text
//! capture, socket -> Arrived -> Decoder -> json or csv, a line a sample -> out
//!                                  |
//!                                  +-> totals
//! ```

mod capture;
mod csv;
mod json;
mod layers;
mod live;
mod text;
mod totals;

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::AsFd;
use std::time::{Duration, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_program::stop::Stop;
use weir_wire::sflow::{Datagram, Malformed, PORT, Sample};

use crate::escape;
pub(crate) use capture::datagram;
pub use capture::read;
pub use live::{listen, options};
pub use totals::{Packets, Totals};

/// What is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How samples are printed; `None`: not at all, they are only counted.
    pub form: Option<Form>,
    /// Only samples of one kind; the others are only counted.
    pub only: Option<Only>,
}

/// How a sample is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JSON object with everything that is in it.
    Json,
    /// A row.
    Csv,
}

/// A kind of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Flow samples.
    Flows,
    /// Counter samples.
    Counters,
    /// Discarded packets.
    Drops,
}

impl Only {
    fn takes(self, sample: &Sample<'_>) -> bool {
        match sample {
            Sample::Flow(_) => self == Self::Flows,
            Sample::Counters(_) => self == Self::Counters,
            Sample::Discarded(_) => self == Self::Drops,
            Sample::Unknown { .. } => false,
        }
    }
}

/// A UDP datagram, sFlow or not.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// When, ns since 1970-01-01 UTC; `None`: unknown.
    pub time: Option<u64>,
    /// From where.
    pub source: SocketAddr,
    /// To which port.
    pub port: u16,
    /// What.
    pub payload: &'a [u8],
}

/// Prints samples, and counts everything.
pub struct Decoder<W> {
    settings: Settings,
    /// What was counted.
    pub totals: Totals,
    /// Not written yet: whole lines.
    lines: Vec<u8>,
    out: W,
}

impl<W: Write> Decoder<W> {
    /// Prints to `out`; CSV begins with its header.
    pub fn new(settings: Settings, out: W) -> Self {
        let mut lines = Vec::with_capacity(2 * FULL);
        if settings.form == Some(Form::Csv) {
            csv::write_header(&mut lines);
        }
        Self { settings, totals: Totals::default(), lines, out }
    }

    /// Takes a datagram; `Break`: the reader of the lines has gone. Lines are written when many have come together; see
    /// [`Self::flush`].
    ///
    /// # Errors
    /// Lines cannot be written.
    pub fn take(&mut self, arrived: &Arrived<'_>) -> io::Result<ControlFlow<()>> {
        let datagram = match Datagram::parse(arrived.payload) {
            Ok(datagram) => datagram,
            // Another protocol, where nobody said that this is sFlow.
            Err(Malformed::Version(_)) if arrived.port != PORT && arrived.source.port() != PORT => {
                self.totals.packets.other += 1;
                return Ok(Continue(()));
            }
            Err(malformed) => {
                self.totals.malformed(malformed);
                return Ok(Continue(()));
            }
        };
        self.totals.datagram(&datagram);
        let time = arrived.time.filter(|_| self.settings.form.is_some());
        let time =
            time.map(|time| humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(time)).to_string());
        for sample in datagram.samples() {
            match &sample {
                Ok(sample) => self.totals.sample(sample),
                Err(malformed) => self.totals.malformed(*malformed),
            }
            let wanted = match (&sample, self.settings.only) {
                (_, None) => true,
                (Ok(sample), Some(only)) => only.takes(sample),
                (Err(_), Some(_)) => false,
            };
            let Some(form) = self.settings.form.filter(|_| wanted) else { continue };
            let line = Line { time: time.as_deref(), arrived, datagram: &datagram, sample: &sample };
            match form {
                Form::Json => {
                    escape::write_json(&mut self.lines, &line)?;
                    self.lines.push(b'\n');
                }
                Form::Csv if sample.is_ok() => csv::write(&mut self.lines, &line)?,
                Form::Csv => {}
            }
        }
        if self.lines.len() >= FULL { self.flush() } else { Ok(Continue(())) }
    }

    /// Writes all lines that there are; `Break`: their reader has gone.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn flush(&mut self) -> io::Result<ControlFlow<()>> {
        let written = self.out.write_all(&self.lines).and_then(|()| self.out.flush());
        self.lines.clear();
        match written {
            Ok(()) => Ok(Continue(())),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Break(())),
            Err(error) => Err(error),
        }
    }
}

/// What a line tells of.
struct Line<'a> {
    /// `None`: unknown.
    time: Option<&'a str>,
    arrived: &'a Arrived<'a>,
    datagram: &'a Datagram<'a>,
    sample: &'a Result<Sample<'a>, Malformed>,
}

/// Waits for something to be read; `false`: it shall stop.
fn wait(source: &impl AsFd, stop: &Stop) -> io::Result<bool> {
    let mut events = [PollFd::new(source.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    match poll(&mut events, PollTimeout::NONE) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(!stop.is_set()),
        Err(error) => Err(error.into()),
    }
}

/// What fails where lines cannot be written.
const WRITE: &str = "write to standard output";

/// Bytes that are written at once.
const FULL: usize = 64 * 1024;

/// The name of a kind of samples.
fn name(sample: &Sample<'_>) -> &'static str {
    match sample {
        Sample::Flow(sample) if sample.expanded => "flow_sample_expanded",
        Sample::Flow(_) => "flow_sample",
        Sample::Counters(sample) if sample.expanded => "counters_sample_expanded",
        Sample::Counters(_) => "counters_sample",
        Sample::Discarded(_) => "discarded_packet",
        Sample::Unknown { .. } => "unknown",
    }
}
