//! `weir monitor replay`: an archive as datagrams again.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use weir_dgram::{Options, Socket};
use weir_monitor::archive::replay::{self, Settings};
use weir_program::output::complain;
use weir_program::stop::Stop;
use weir_wire::signal::PORT;

use super::{account_for_files, number};
use crate::{Outcome, usage};

/// `weir monitor replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor replay weir-20261123T0*.mcap
  weir monitor replay run.mcap --speed 10 --to 239.192.77.9:5110 --interface eth0
  weir monitor replay run.mcap --speed max --to 127.0.0.1:5110

Sends what was recorded as it was sent once, gaps as gaps, each stream of a station as a new session.
Samples get the times of now, so that screens show them, unless --keep-times. Viewers, servers and
tests take it for the station.")]
pub(super) struct Replay {
    /// Files of `weir monitor record`, in any order.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// So many times as fast as it was; `max`: as fast as it goes.
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed)]
    speed: f64,
    /// Group or address.
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "239.192.77.1:5110", value_parser = address)]
    to: SocketAddr,
    /// Of a group: the interface to send through [default: where a route leads].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Of a group: routers that it may pass, and one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    ttl: u8,
    /// Leave samples the times that they had.
    #[arg(long)]
    keep_times: bool,
}

impl Replay {
    pub(super) fn run(self) -> Result<Outcome> {
        if !self.to.ip().is_multicast() && self.interface.is_some() {
            return usage(Err(anyhow!("--interface: {} is no group (leave it out)", self.to)));
        }
        let stop = Stop::on_signals().context("watch for Ctrl-C")?;
        let options =
            Options { multicast_interface: self.interface, multicast_ttl: Some(self.ttl), ..Options::default() };
        let socket = Socket::connect(None, self.to, &options)?;
        let settings = Settings { files: self.files, speed: self.speed, keep_times: self.keep_times, to: self.to };
        let replayed = replay::replay(&settings, &socket, &stop)?;
        complain!(
            "{} samples and {} missing ones in {} datagrams, of which the kernel did not take {}",
            number(replayed.samples),
            number(replayed.missing),
            number(replayed.datagrams),
            number(replayed.refused),
        );
        account_for_files(&replayed.damaged, "was sent")
    }
}

fn speed(text: &str) -> Result<f64, String> {
    if text == "max" {
        return Ok(0.0);
    }
    let speed: Option<f64> = text.trim_end_matches('x').parse().ok();
    speed
        .filter(|speed| speed.is_finite() && *speed > 0.0)
        .ok_or_else(|| "write a number above 0, e.g. 10, or max".into())
}

/// Without a port it is [`PORT`].
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let address = bare.map_or_else(|_| text.parse(), |ip| Ok(SocketAddr::new(ip, PORT)));
    address
        .ok()
        .filter(|address| address.port() != 0 && !address.ip().is_unspecified())
        .ok_or_else(|| "write ADDR or ADDR:PORT, e.g. 239.192.77.1:5110 or [ff15::77]:5110".into())
}
