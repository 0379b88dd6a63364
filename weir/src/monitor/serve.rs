//! `weir monitor serve`: signals received, watched and shown.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use clap::Args;
use weir_monitor::serve::config::begin;
use weir_monitor::serve::control;
use weir_program::config::{Address, Checked, Flags};
use weir_wire::signal::PORT;

use super::listens;
use crate::service::{Configured, address, given};
use crate::{Outcome, usage};

/// `weir monitor serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor serve
  weir monitor serve --listen 239.192.77.1:5110 --listen 192.0.2.7:5110 --http 0.0.0.0:5180
  weir monitor serve -c monitor.toml --check && weir monitor serve -c monitor.toml

Without a file it joins group 239.192.77.1, port 5110, to which stations send. SIGHUP reads the file
again (limits, times, peers, derived channels and outputs change at once), SIGUSR1 prints the ledger as JSON, SIGTERM and Ctrl-C
end with the ledger. docs/monitor.md explains every key of the file.")]
pub(super) struct Serve {
    #[command(flatten)]
    configured: Configured,
    /// A group to join, or an address of this machine [default: 239.192.77.1:5110]. May be given again.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = listened, conflicts_with = "config")]
    listen: Vec<SocketAddr>,
    /// Join groups on this interface [default: where a route leads].
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    interface: Option<String>,
    /// Serve the page here [default: 127.0.0.1:5180].
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    http: Option<SocketAddr>,
}

impl Serve {
    pub(super) fn run(self) -> Result<Outcome> {
        let listen = usage(listens(&self.listen, self.interface.as_deref(), None))?;
        let flags =
            Flags::default().with("--listen", "listen", given(&listen)).with("--http", "http", self.http.map(Address));
        let origin = self.configured.origin(flags);
        let run = |config, verbosity| control::run(&origin, config, verbosity);
        self.configured.run(begin(&origin, self.configured.check), |config| (&[], config.to_toml()), run)
    }
}

/// Without a port it is [`PORT`].
fn listened(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    bare.map_or_else(|_| address(text), |ip| Ok(SocketAddr::new(ip, PORT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_no_port() {
        for (text, address) in [
            ("239.192.77.1", "239.192.77.1:5110"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[ff15::77]", "[ff15::77]:5110"),
            ("ff15::77", "[ff15::77]:5110"),
        ] {
            assert_eq!(listened(text), Ok(address.parse().unwrap()), "{text}");
        }
        assert!(listened("coil").is_err());
    }
}
