//! Asks destinations whether they live: a TCP connection, or an ICMP echo, every so often.
//!
//! Probes leave through the interface and from the address that datagrams for the destination leave by. They are tasks
//! on a tokio runtime beside the data plane; what they find goes into [`Health`], which everybody reads.

pub(crate) mod ping;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpSocket;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use weir_forward::health::{Evidence, Health};
use weir_forward::settings::{Destination, Probe};

use ping::Ping;

/// Probes whatever it is told to. Dropped, it probes nothing.
pub(crate) struct Prober {
    runtime: Handle,
    tasks: Vec<(Target, JoinHandle<()>)>,
}

/// An address to be probed.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The destination's name, for messages.
    pub name: String,
    /// The address that datagrams go to. A TCP probe goes to the same host, but to a port of its own.
    pub address: SocketAddr,
    /// What is tried.
    pub probe: Probe,
    /// The local address to probe from; its port does not matter.
    pub from: Option<SocketAddr>,
    /// The interface to probe through (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// Who is told.
    pub health: Arc<Health>,
}

impl Prober {
    /// Probes nothing yet. Probes will run on `runtime`, which must drive I/O and time.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, tasks: Vec::new() }
    }

    /// Probes these targets and no others; first at once, then in their intervals. Those that it probed already go on
    /// undisturbed. Returns a line for each that is new here and cannot be probed.
    pub(crate) fn follow(&mut self, targets: impl IntoIterator<Item = Target>) -> Vec<String> {
        let mut before: HashMap<_, _> =
            self.tasks.drain(..).map(|probed| (Arc::as_ptr(&probed.0.health), probed)).collect();
        let mut unprobed = Vec::new();
        for target in targets {
            match before.remove(&Arc::as_ptr(&target.health)) {
                Some(probed) if probed.0.is_same(&target) => {
                    self.tasks.push(probed);
                    continue;
                }
                Some((_, task)) => task.abort(),
                None => {}
            }
            let task = match target.probe.tcp {
                Some(port) => self.runtime.spawn(probe_tcp(target.clone(), port)),
                None => match Ping::open(&target) {
                    Ok(ping) => self.runtime.spawn(probe_ping(target.clone(), ping)),
                    Err(error) => {
                        unprobed.push(unprobed_line(&target, &error));
                        // Held like the others, so that it is told once.
                        self.runtime.spawn(pending())
                    }
                },
            };
            self.tasks.push((target, task));
        }
        before.values().for_each(|(_, task)| task.abort());
        unprobed
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
    }
}

impl Target {
    /// What there is to probe for this address of a destination; `None`: it has no probe, or the address is a group's,
    /// from which nobody answers.
    pub(crate) fn of(destination: &Destination, address: SocketAddr, health: &Arc<Health>) -> Option<Self> {
        let probe = destination.probe.clone().filter(|_| !address.ip().is_multicast())?;
        Some(Self {
            name: destination.name.clone(),
            address,
            probe,
            from: destination.local(),
            interface: destination.interface.clone(),
            health: Arc::clone(health),
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.address == other.address
            && self.probe == other.probe
            && self.from == other.from
            && self.interface == other.interface
            && Arc::ptr_eq(&self.health, &other.health)
    }
}

async fn probe_tcp(target: Target, port: u16) {
    let mut turns = turns(&target.probe);
    loop {
        turns.tick().await;
        let answered = matches!(timeout(target.probe.timeout().duration(), connect(&target, port)).await, Ok(Ok(())));
        target.health.note(if answered { Evidence::ProbeAnswered } else { Evidence::ProbeFailed });
    }
}

async fn probe_ping(target: Target, mut ping: Ping) {
    let mut turns = turns(&target.probe);
    loop {
        turns.tick().await;
        let answered = matches!(timeout(target.probe.timeout().duration(), ping.echo()).await, Ok(Ok(())));
        target.health.note(if answered { Evidence::HostAnswered } else { Evidence::ProbeFailed });
    }
}

/// When it is time: at once, and then in the interval. A probe that takes longer than that delays the next.
fn turns(probe: &Probe) -> Interval {
    let mut turns = interval(probe.interval.duration());
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns
}

/// Opens a connection and closes it.
async fn connect(target: &Target, port: u16) -> io::Result<()> {
    let to = SocketAddr::new(target.address.ip(), port);
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(interface) = &target.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(from) = target.from {
        socket.bind(SocketAddr::new(from.ip(), 0))?;
    }
    socket.connect(to).await.map(drop)
}

/// Why an address cannot be probed at all. It goes on without: ICMP and send errors still tell.
pub(super) fn unprobed_line(target: &Target, error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => " (set net.ipv4.ping_group_range to include this process's group)",
        _ => "",
    };
    format!("destination {}: ping {}: {error}{remedy}", target.name, target.address.ip())
}
