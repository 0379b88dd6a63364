//! What precedes payloads, for destinations that want to be told the source there.

use std::net::SocketAddr;

use weir_dgram::Received;
use weir_wire::proxy;

use crate::settings::Source;

/// The headers of a batch's messages.
#[derive(Default)]
pub(super) struct Headers {
    /// By message; empty if no destination wants any.
    proxy: Vec<proxy::Header>,
}

impl Headers {
    pub(super) fn clear(&mut self) {
        self.proxy.clear();
    }

    /// Adds those of the next message. The listener's own address stands for one that the kernel does not tell.
    pub(super) fn add(&mut self, message: &Received<'_>, listener: SocketAddr) {
        let local = message.local.map_or(listener, |local| SocketAddr::new(local, listener.port()));
        self.proxy.push(proxy::encode(message.source, local));
    }

    /// What precedes each datagram of a message for a destination of this kind.
    pub(super) fn before(&self, message: usize, source: Source) -> &[u8] {
        match source {
            Source::Own | Source::Preserved => &[],
            Source::Proxy => self.proxy.get(message).map_or(&[], |header| header),
        }
    }
}
