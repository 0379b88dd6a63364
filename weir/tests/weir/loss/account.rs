//! `weir loss account --json`, run and read as anybody would.

use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{Ended, Started};

use super::weir;

/// A `weir loss account` that follows.
pub(super) struct Following(Started);

/// An account as JSON, looked up by names.
pub(super) struct Account(pub(super) Value);

/// One receiver's part of it.
pub(super) struct Ledger<'a>(pub(super) &'a Value);

impl Following {
    /// Follows a port in some namespaces, with everything that can be traced.
    #[track_caller]
    pub(super) fn port(port: u16, namespaces: &[&NetNs]) -> Following {
        Following::start(&["--port", &port.to_string()], namespaces)
    }

    /// `weir loss account FLAGS`, when all is attached.
    #[track_caller]
    pub(super) fn start(flags: &[&str], namespaces: &[&NetNs]) -> Following {
        let mut command = weir(&["loss", "account", "--json", "--duration", "120s"]);
        command.args(flags).args(namespaces.iter().flat_map(|ns| ["--netns".to_owned(), path(ns)]));
        Following::spawn(command)
    }

    /// A command that ends in `weir loss account ...`.
    #[track_caller]
    pub(super) fn spawn(mut command: Command) -> Following {
        command.stdin(Stdio::null());
        Following(Started::saying("following ", command))
    }

    /// Ends it as Ctrl-C does; its account.
    #[track_caller]
    pub(super) fn end(self) -> Account {
        Account(self.stop().json())
    }

    /// As [`Following::end`], of one without `--json`: what it prints.
    #[track_caller]
    pub(super) fn end_with_text(self) -> String {
        let ended = self.stop();
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        ended.stdout
    }

    fn stop(mut self) -> Ended {
        self.0.signal(Signal::SIGINT);
        self.0.wait()
    }
}

impl Account {
    /// The one ledger of the receivers of a port.
    #[track_caller]
    pub(super) fn of(&self, port: u16) -> Ledger<'_> {
        let ledgers = self.all_of(port);
        assert_eq!(ledgers.len(), 1, "ledgers of port {port} in {:#}", self.0);
        ledgers.into_iter().next().unwrap()
    }

    /// All ledgers of the receivers of a port.
    pub(super) fn all_of(&self, port: u16) -> Vec<Ledger<'_>> {
        let port_of = |ledger: &Value| {
            let address = ledger["receiver"]["address"].as_str()?;
            address.rsplit(':').next()?.parse().ok()
        };
        self.ledgers().iter().filter(|ledger| port_of(ledger) == Some(port)).map(Ledger).collect()
    }

    /// The one ledger, of traffic that nobody receives.
    #[track_caller]
    pub(super) fn without_receiver(&self) -> Ledger<'_> {
        let [ledger] = self.ledgers() else { panic!("not one ledger: {:#}", self.0) };
        assert_eq!(ledger["receiver"], Value::Null, "{ledger:#}");
        Ledger(ledger)
    }

    /// All ledgers.
    #[track_caller]
    pub(super) fn ledgers(&self) -> &[Value] {
        self.0["ledgers"].as_array().unwrap_or_else(|| panic!("no ledgers: {:#}", self.0))
    }

    /// All was traced that can be.
    #[track_caller]
    pub(super) fn traced(self) -> Account {
        assert_eq!(self.0["sources"]["trace"], "everything", "{:#}", self.0["sources"]);
        self
    }
}

impl Ledger<'_> {
    /// Places and their counts, in order.
    pub(super) fn places(&self) -> Vec<(&str, u64)> {
        let places = self.0["places"].as_array().unwrap().iter();
        places.map(|place| (place["place"].as_str().unwrap(), place["datagrams"].as_u64().unwrap())).collect()
    }

    /// It closes: so many were sent and received, the rest was lost at these places, and nothing is left over.
    #[track_caller]
    pub(super) fn closes(&self, sent: u64, received: u64, places: &[(&str, u64)]) {
        let number = |name: &str| self.0[name].as_u64();
        let found = (number("sent"), number("received"), self.places(), number("pending"), self.unexplained());
        let expected = (Some(sent), Some(received), places.to_vec(), Some(0), Some(0));
        assert_eq!(found, expected, "(sent, received, places, pending, unexplained) of {:#}", self.0);
    }

    /// As [`Ledger::closes`], from arrival on: what sent it is no UDP socket.
    #[track_caller]
    pub(super) fn closes_from_arrival(&self, arrived: u64, received: u64, places: &[(&str, u64)]) {
        let number = |name: &str| self.0[name].as_u64();
        let found = (number("arrived"), number("received"), self.places(), number("pending"), self.unexplained());
        let expected = (Some(arrived), Some(received), places.to_vec(), Some(0), Some(0));
        assert_eq!(found, expected, "(arrived, received, places, pending, unexplained) of {:#}", self.0);
    }

    /// So many were sent and received, and of these it does not know, at no place, where they are.
    #[track_caller]
    pub(super) fn leaves(&self, sent: u64, received: u64, unexplained: u64) {
        let number = |name: &str| self.0[name].as_u64();
        let found = (number("sent"), number("received"), self.places(), number("pending"), number("unexplained"));
        let expected = (Some(sent), Some(received), vec![], Some(0), Some(unexplained));
        assert_eq!(found, expected, "(sent, received, places, pending, unexplained) of {:#}", self.0);
    }

    /// What is left over; `None`: unknown.
    pub(super) fn unexplained(&self) -> Option<i64> {
        self.0["unexplained"].as_i64()
    }

    /// The receiver's namespace.
    pub(super) fn namespace(&self) -> u64 {
        self.0["receiver"]["namespace"].as_u64().unwrap()
    }
}

/// How `--netns` names a namespace that only the tests hold.
pub(super) fn path(ns: &NetNs) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), ns.as_fd().as_raw_fd())
}
