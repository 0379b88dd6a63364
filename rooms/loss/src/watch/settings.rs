//! What is watched, and how.

use std::time::Duration;

use weir_trace::Detail;

use crate::subject::Process;

/// What whoever started it wants to see.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Ports of sockets; empty: all.
    pub ports: Vec<u16>,
    /// Where.
    pub namespaces: Where,
    /// Sockets of this program alone.
    pub process: Option<Process>,
    /// How much is traced; `None`: nothing.
    pub trace: Option<Detail>,
    /// From one reading to the next.
    pub interval: Duration,
}

/// Network namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// That of this process.
    Own,
    /// Every one that has a name or a process in it, those that come later included.
    All,
    /// By name, process id or path.
    Named(Vec<String>),
}
