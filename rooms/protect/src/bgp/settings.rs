//! Whom to speak to, and who its neighbours are.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::Instance;
use super::marker::Marker;

/// A speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where gobgpd's gRPC interface is, as `host:port`.
    pub gobgp: String,
    /// By which own routes are known: what has it and is local to gobgpd is ours, whatever else it has.
    pub instance: Instance,
    /// A community that all own routes have besides, AS:NN, for people and for filters of routers.
    pub marker: Option<(u16, u16)>,
    /// Neighbours that gobgpd is given after the routes, when it lacks them. Those that it has stay as they are.
    pub neighbours: Vec<Neighbour>,
    /// What becomes of routes when the [`super::Speaker`] is dropped.
    pub on_stop: OnStop,
}

impl Settings {
    pub(super) fn marker(&self) -> Marker {
        Marker { community: self.marker, instance: Some(self.instance) }
    }
}

/// What becomes of routes when Weir stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStop {
    /// They stay until Weir is back, or gobgpd ends.
    #[default]
    Keep,
    /// They are withdrawn.
    Withdraw,
}

/// A neighbour of gobgpd, with all four families (IPv4, IPv6; unicast, FlowSpec).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its AS.
    pub asn: u32,
    /// Its port: 179.
    pub port: u16,
    /// From which address it is spoken to; `None`: the kernel chooses.
    pub local_address: Option<IpAddr>,
    /// Hops that it may be away, where it is of another AS; `None`: none.
    pub multihop: Option<u8>,
    /// The password of TCP MD5 (RFC 2385).
    pub password: Option<Password>,
    /// After so long without a word the session ends (RFC 4271, section 4.2); whole seconds.
    pub hold_time: Duration,
    /// How long it is asked to keep routes while gobgpd is away (RFC 4724); whole seconds; zero: it is not asked.
    pub restart_time: Duration,
}

impl Neighbour {
    /// One with the usual values: port 179, hold time 90 s, restart time 120 s.
    pub fn new(address: IpAddr, asn: u32) -> Self {
        Self {
            address,
            asn,
            port: 179,
            local_address: None,
            multihop: None,
            password: None,
            hold_time: Duration::from_secs(90),
            restart_time: Duration::from_secs(120),
        }
    }
}

/// A password, which no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
