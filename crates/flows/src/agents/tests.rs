//! Streams with a known sequence of faults, and what is made of them; tables that are filled to the brim and over it.

mod admission;
mod corpus;
mod ledger;
mod standing;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Agents, Identity, Limits, Nanos, SECOND, Told, Verdict};

const WHO: Identity = Identity { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), sub_agent: 0 };
const MILLISECOND: Nanos = 1_000_000;

/// Where datagrams come from: a port for each sender.
fn from(port: u16) -> SocketAddr {
    SocketAddr::new(WHO.address, port)
}

fn who(number: u32) -> Identity {
    Identity { address: IpAddr::V4(Ipv4Addr::from_bits(number)), sub_agent: 0 }
}

/// One process of an agent, as it sends.
#[derive(Clone)]
struct Process {
    number: u32,
    /// When it booted.
    booted: Nanos,
    /// What it began its uptime with, ms.
    uptime: u32,
}

impl Process {
    fn send(&mut self, now: Nanos) -> Told {
        self.number = self.number.wrapping_add(1);
        let age = (now.saturating_sub(self.booted) / MILLISECOND) as u32;
        let told = told(self.number, self.uptime.wrapping_add(age));
        Told { content: told.content ^ self.booted as u32, ..told }
    }
}

/// What is in a datagram follows from its number and its uptime.
fn told(number: u32, uptime: u32) -> Told {
    Told { number, uptime, content: number.wrapping_mul(0x9e37_79b9) ^ uptime }
}

fn agents(limits: Limits) -> Agents<u32> {
    Agents::new(limits)
}
