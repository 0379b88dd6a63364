//! Errors before traffic runs, and counts of errors while it runs.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;

use serde::Serialize;
use weir_dgram::reason;

use crate::Transport;

/// Why a sender or receiver could not be created.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// Creating a socket failed.
    #[error("open a {transport} socket for {address}: {}", reason(.source))]
    Socket {
        /// Transport protocol.
        transport: Transport,
        /// Address to listen on or to send to.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Setting a socket option failed.
    #[error("set {option} to {value}: {}{hint}", reason(.source))]
    Option {
        /// Its name, e.g. `TCP_CONGESTION`.
        option: &'static str,
        /// The requested value.
        value: String,
        /// What to do about it.
        hint: Cow<'static, str>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A socket could not be bound, a UDP socket not be created, or a group not be joined.
    #[error(transparent)]
    Datagrams(#[from] weir_dgram::Error),
    /// Invalid settings, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// A kind of error, and its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// The operation: `connect`, `send`, `receive`, `accept`.
    pub operation: &'static str,
    /// The kernel's answer, as text.
    pub error: String,
    /// Its count.
    pub count: u64,
}

/// Errors by operation and kind, in the order of first occurrence.
#[derive(Debug, Default)]
pub struct ErrorLog(Vec<ErrorCount>);

impl ErrorLog {
    /// Counts an error.
    pub fn count(&mut self, operation: &'static str, error: &io::Error) {
        self.extend([ErrorCount { operation, error: reason(error), count: 1 }]);
    }

    /// The counts.
    pub fn into_counts(self) -> Vec<ErrorCount> {
        self.0
    }
}

impl Extend<ErrorCount> for ErrorLog {
    fn extend<T: IntoIterator<Item = ErrorCount>>(&mut self, counts: T) {
        for one in counts {
            match self.0.iter_mut().find(|other| (other.operation, &other.error) == (one.operation, &one.error)) {
                Some(other) => other.count += one.count,
                None => self.0.push(one),
            }
        }
    }
}

/// The error that a socket option could not be set to a value, with a hint.
pub(super) fn cannot_set(option: &'static str, value: &dyn Display) -> impl FnOnce(io::Error) -> TrafficError + use<> {
    let hint = match option {
        "SO_BINDTODEVICE" => " (check the interface's name; before Linux 5.7 this needs CAP_NET_RAW)",
        _ => "",
    };
    let value = value.to_string();
    move |source| TrafficError::Option { option, value, hint: hint.into(), source }
}

/// The error that a socket of any kind could not be bound to `address`.
pub(super) fn cannot_bind(address: SocketAddr) -> impl Fn(io::Error) -> TrafficError {
    move |source| weir_dgram::Error::Bind { address, source }.into()
}
