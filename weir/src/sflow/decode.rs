//! `weir sflow decode`: what is in sFlow datagrams.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use weir_dgram::Socket;
use weir_program::output::{complain, say};
use weir_program::stop::Stop;
use weir_sflow::decode::{self, Decoder, Form, Only, Settings, Totals};

use crate::{Outcome, usage};

/// `weir sflow decode`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir sflow decode capture.pcap
  tcpdump -U -w - udp port 6343 | weir sflow decode - --only drops
  weir sflow decode 0.0.0.0:6343 --csv > samples.csv
  weir sflow decode capture.pcapng --count

Prints one JSON object a sample, with everything that is in it under the names that the
specification gives it, the headers of the sampled packet decoded, and what is unknown as bytes.
Ends with the capture, or at Ctrl-C. docs/sflow.md explains every key and column.")]
pub(super) struct Decode {
    /// A capture (pcap or pcapng), `-` for one on standard input, or an address to listen on.
    #[arg(value_name = "FILE|-|ADDR:PORT")]
    input: String,
    /// Print a row a sample instead, of what most of them have.
    #[arg(long)]
    csv: bool,
    /// Print samples of one kind alone.
    #[arg(long, value_enum)]
    only: Option<Kind>,
    /// Print no samples but, at the end, how many there were of which kind, and what was malformed.
    #[arg(long, conflicts_with_all = ["csv", "only"])]
    count: bool,
}

/// A kind of samples.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Sampled packets.
    Flows,
    /// Counters.
    Counters,
    /// Discarded packets.
    Drops,
}

/// Where datagrams come from.
#[derive(Debug)]
enum Input {
    Capture(File),
    Network(SocketAddr),
}

impl Decode {
    pub(super) fn run(self) -> Result<Outcome> {
        let input = usage(self.open())?;
        let stop = Stop::on_signals().context("watch for Ctrl-C")?;
        let form = if self.csv { Form::Csv } else { Form::Json };
        let only = self.only.map(|kind| match kind {
            Kind::Flows => Only::Flows,
            Kind::Counters => Only::Counters,
            Kind::Drops => Only::Drops,
        });
        let settings = Settings { form: (!self.count).then_some(form), only };
        let mut decoder = Decoder::new(settings, io::stdout().lock());
        let name = if self.input == "-" { "standard input" } else { &self.input };
        let read = match &input {
            Input::Capture(file) => decode::read(file, &mut decoder, &stop).with_context(|| name.to_owned()),
            Input::Network(address) => listen(*address, &mut decoder, &stop),
        };
        let written = decoder.flush();
        let totals = decoder.totals;
        warn(&totals);
        if self.count {
            say!("{}", serde_json::to_string_pretty(&totals)?);
        }
        read?;
        let _ = written.context("write to standard output")?;
        if totals.datagrams == 0 && !matches!(input, Input::Network(_)) {
            bail!("{}: no datagram of sFlow version 5 in it", self.input);
        }
        Ok(Outcome::Done)
    }

    fn open(&self) -> Result<Input> {
        if self.input == "-" {
            return Ok(Input::Capture(io::stdin().as_fd().try_clone_to_owned()?.into()));
        }
        match File::open(&self.input) {
            Ok(file) if file.metadata().is_ok_and(|about| about.is_dir()) => {
                bail!("{}: a directory; name a capture in it", self.input)
            }
            Ok(file) => Ok(Input::Capture(file)),
            Err(error) => match self.input.parse() {
                Ok(address) => Ok(Input::Network(address)),
                Err(_) => {
                    Err(anyhow!("open {}: {error} (nor is it an address to listen on, e.g. 0.0.0.0:6343)", self.input))
                }
            },
        }
    }
}

fn listen(address: SocketAddr, decoder: &mut Decoder<io::StdoutLock<'_>>, stop: &Stop) -> Result<()> {
    let socket = Socket::bind(address, &decode::options())?;
    complain!("listening on {}", socket.local_addr());
    let drops = decode::listen(&socket, decoder, stop).with_context(|| format!("{address}"))?;
    if drops > 0 {
        complain!("weir: {drops} datagrams were dropped at the socket: they came faster than they could be printed");
    }
    Ok(())
}

/// Says what was not read, and why.
fn warn(totals: &Totals) {
    let packets = &totals.packets;
    for (count, what) in [
        (packets.cut_off, "packets are cut off: capture them whole (tcpdump -s 0)"),
        (packets.fragments, "fragments of IP packets were left out: they are not put together"),
        (
            packets.unknown_link,
            "packets are of a link type that is not read (Ethernet, raw IP, Linux cooked, BSD loopback are)",
        ),
    ] {
        if count > 0 {
            complain!("weir: {count} {what}");
        }
    }
    if packets.ends_early {
        complain!("weir: the capture ends in the middle of a packet");
    }
    for (fault, count) in totals.faults() {
        complain!("weir: malformed: {fault} ({count})");
    }
}
