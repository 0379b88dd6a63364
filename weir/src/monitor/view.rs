//! `weir monitor view`: signals on a terminal.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use weir_monitor::serve::control::opener;
use weir_monitor::serve::glance::Glance;
use weir_monitor::serve::settings::Keys;
use weir_monitor::view::{self, Look};
use weir_program::links::Links;
use weir_program::output::complain;
use weir_program::stop::Stop;
use weir_signal::history::Bounds;
use weir_signal::receive::{Listen, Receiver, Settings};
use weir_units::{Size, Span};
use weir_wire::signal::PORT;

use super::replay::address;
use crate::Outcome;

/// `weir monitor view`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor view
  weir monitor view 'coil 1' 'coil 2' --span 2s
  weir monitor view --listen 239.192.77.9 --interface eth1

Hears what stations and servers send, and shows every signal with its value, its state and what is
missing of it, and the curves of those that are chosen. Where samples are missing a curve is broken and
its ground shaded. Without a terminal it prints a line every five seconds.")]
pub(super) struct View {
    /// Signals whose curves are shown: a name, or a part of STATION/STREAM/NAME [default: the first two].
    #[arg(value_name = "SIGNAL")]
    signals: Vec<String>,
    /// A group, or an address of this machine [default: 239.192.77.1:5110 and 239.192.77.2:5110]. May be given again.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Of groups: the interface to join them on, one for all or one for each --listen [default: where a route leads].
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// How much time curves show; + and - change it.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    span: Span,
    /// File of the group's key, by which what is encrypted is read.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// File of the public key of a sender; from others nothing is taken. May be given again.
    #[arg(long, value_name = "FILE")]
    sender: Vec<PathBuf>,
    /// Count samples that are shown and missing in place of drawing them, until the end, and print one JSON object: what a
    /// test of a network compares with the ledgers of stations.
    #[arg(long, requires = "json")]
    count: bool,
    /// With --count: print one JSON object.
    #[arg(long, requires = "count")]
    json: bool,
    /// Receive buffer of each socket, as far as the kernel permits [default: 8MiB].
    #[arg(long, value_name = "SIZE")]
    buffer: Option<Size>,
    /// End by itself after this time.
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
}

impl View {
    pub(super) fn run(self) -> Result<Outcome> {
        let listen = if self.listen.is_empty() {
            [1, 2].map(|last| SocketAddr::from((Ipv4Addr::new(239, 192, 77, last), PORT))).to_vec()
        } else {
            self.listen
        };
        let source = listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        let interface = |index: usize| self.interface.get(index).or(self.interface.first()).cloned();
        let of = |(index, address): (usize, SocketAddr)| Listen {
            interface: interface(index).filter(|_| address.ip().is_multicast()),
            ..Listen::new(address)
        };
        let mut settings = Settings { listen: listen.into_iter().enumerate().map(of).collect(), ..Settings::default() };
        if let Some(buffer) = self.buffer {
            settings.receive_buffer = usize::try_from(buffer.bytes).unwrap_or(usize::MAX);
        }
        let mut receiver = Receiver::open(&settings)?;
        let keys = Keys { group: self.key, senders: self.sender };
        receiver.set_keys(opener(&keys)?);
        receiver.remarks().iter().for_each(|remark| complain!("weir: {remark}"));
        let stop = Stop::on_signals().context("watch for Ctrl-C")?;
        // The picture shows that nothing comes.
        let _links = Links::follow(|_| ());
        if let Some(duration) = self.duration {
            let stop = stop.clone();
            std::thread::spawn(move || {
                stop.wait(std::time::Instant::now() + duration.duration());
                stop.set();
            });
        }
        if self.count {
            println!("{}", serde_json::to_string(&view::count(receiver, &stop))?);
            return Ok(Outcome::Done);
        }
        let span_s = self.span.duration().as_secs_f64().clamp(0.01, 600.0);
        let history = Bounds { span: Duration::from_secs_f64(span_s * 4.0).max(KEPT), ..Bounds::default() };
        let glance = Glance::start(receiver, history)?;
        view::run(glance.shown(), Look { span_s, signals: self.signals, source }, &stop).context("show")?;
        Ok(Outcome::Done)
    }
}

/// Kept at least: what keys may have shown.
const KEPT: Duration = Duration::from_secs(120);
