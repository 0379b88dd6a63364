//! What is followed: ports, groups, sockets, processes.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use weir_kernel::processes;

/// Which traffic is followed; all of it, if nothing is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficFilter {
    /// Destination ports.
    pub ports: BTreeSet<u16>,
    /// Multicast groups.
    pub groups: Vec<IpAddr>,
    /// Receiving sockets, by the address they are bound to.
    pub sockets: Vec<SocketAddr>,
    /// A program, of which all sockets are followed.
    pub process: Option<Process>,
}

/// A program, by number or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// The process of this number.
    Pid(u32),
    /// All processes of this name (/proc/PID/comm, of which the kernel keeps 15 bytes).
    Name(String),
    /// A command that this process runs: its descendants, as far as they are known.
    Command(BTreeSet<u32>),
}

impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(pid) => Ok(Self::Pid(pid)),
            Err(_) if text.is_empty() => Err("write a process's number or name".to_owned()),
            Err(_) => Ok(Self::Name(text.chars().take(15).collect())),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => pid.fmt(f),
            Self::Name(name) => name.fmt(f),
            Self::Command(_) => f.write_str("the command"),
        }
    }
}

impl Process {
    /// Whether there is one such.
    pub fn runs(&self) -> bool {
        match self {
            Self::Pid(pid) => processes::runs(*pid),
            Self::Name(own) => processes::all().unwrap_or_default().into_iter().any(|pid| processes::name(pid) == *own),
            Self::Command(_) => true,
        }
    }

    /// Whether it is this one.
    pub fn is(&self, pid: u32, name: &str) -> bool {
        match self {
            Self::Pid(own) => *own == pid,
            Self::Name(own) => own == name,
            Self::Command(pids) => pids.contains(&pid),
        }
    }
}

impl TrafficFilter {
    /// Whether all ports are followed.
    pub fn is_everything(&self) -> bool {
        self.ports.is_empty() && self.groups.is_empty() && self.sockets.is_empty() && self.process.is_none()
    }

    /// The ports known before any socket was looked at.
    pub fn known_ports(&self) -> BTreeSet<u16> {
        self.ports.iter().copied().chain(self.sockets.iter().map(SocketAddr::port)).collect()
    }

    /// Whether the known ports are all, so that a filter in the kernel may know them.
    pub fn ports_are_known(&self) -> bool {
        let groups_have_ports = self.groups.is_empty() || !self.known_ports().is_empty();
        !self.is_everything() && self.process.is_none() && groups_have_ports
    }

    /// Whether a socket bound to `local` is a receiver that is followed.
    pub fn receives(&self, local: SocketAddr, process: Option<(u32, &str)>) -> bool {
        if let Some(chosen) = &self.process
            && !process.is_some_and(|(pid, name)| chosen.is(pid, name))
        {
            return self.known_ports().contains(&local.port());
        }
        if !self.sockets.is_empty() {
            let is = |socket: &SocketAddr| socket.port() == local.port() && same_host(socket.ip(), local.ip());
            return self.sockets.iter().any(is) || self.ports.contains(&local.port());
        }
        if !self.groups.is_empty() {
            // What is bound to an address of the host receives no group.
            let of_group = local.ip().is_unspecified() || self.groups.contains(&local.ip());
            return of_group && (self.ports.is_empty() || self.ports.contains(&local.port()));
        }
        self.ports.is_empty() || self.ports.contains(&local.port())
    }

    /// In words, for the line that says it is followed.
    pub fn in_words(&self) -> String {
        if self.is_everything() {
            return "all UDP ports".to_owned();
        }
        let mut words = Vec::new();
        if !self.ports.is_empty() {
            let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
            words.push(format!("port {}", ports.join(", ")));
        }
        words.extend(self.groups.iter().map(|group| format!("group {group}")));
        words.extend(self.sockets.iter().map(|socket| format!("socket {socket}")));
        match &self.process {
            Some(Process::Pid(pid)) => words.push(format!("process {pid}")),
            Some(Process::Name(name)) => words.push(format!("processes `{name}`")),
            Some(Process::Command(_)) => words.push("the command".to_owned()),
            None => {}
        }
        words.join(", ")
    }
}

/// Whether a socket bound to `bound` is the one meant: any address is written 0.0.0.0 or [::].
fn same_host(meant: IpAddr, bound: IpAddr) -> bool {
    meant == bound || meant.is_unspecified() && bound.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_is_followed() {
        let local: SocketAddr = "10.0.0.2:5000".parse().unwrap();
        assert!(TrafficFilter::default().receives(local, None));
        let port = TrafficFilter { ports: [5000].into(), ..TrafficFilter::default() };
        assert!(port.receives(local, None) && port.ports_are_known());
        assert!(!port.receives("10.0.0.2:5001".parse().unwrap(), None));
        let socket = TrafficFilter { sockets: vec![local], ..TrafficFilter::default() };
        assert!(socket.receives(local, None));
        assert!(!socket.receives("10.0.0.3:5000".parse().unwrap(), None));
        let process = TrafficFilter { process: Some("weir".parse().unwrap()), ..TrafficFilter::default() };
        assert!(process.receives(local, Some((1, "weir"))));
        assert!(!process.receives(local, Some((1, "other"))));
        assert!(!process.receives(local, None) && !process.ports_are_known());
        let group = TrafficFilter {
            groups: vec!["239.1.1.1".parse().unwrap()],
            ports: [5000].into(),
            ..TrafficFilter::default()
        };
        assert!(group.receives("239.1.1.1:5000".parse().unwrap(), None));
        assert!(!group.receives("239.1.1.2:5000".parse().unwrap(), None));
        assert!(group.receives("0.0.0.0:5000".parse().unwrap(), None));
        assert!(!group.receives("10.0.0.2:5000".parse().unwrap(), None));
    }

    #[test]
    fn a_process_is_a_number_or_a_name() {
        assert_eq!("17".parse(), Ok(Process::Pid(17)));
        assert_eq!("a-rather-long-name".parse(), Ok(Process::Name("a-rather-long-n".into())));
        assert!("".parse::<Process>().is_err());
    }
}
