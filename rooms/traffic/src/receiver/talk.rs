//! What is said on a socket of messages besides them.

use std::net::{IpAddr, SocketAddr};

use weir_program::clock::Nanos;
use weir_wire::control::Control;

use super::sessions::Sessions;
use crate::{Ended, ReceiveReport};

/// Whoever takes part in it, on the thread that receives.
pub(crate) trait Talk {
    /// A control message came.
    fn hear(&mut self, control: &Control, from: Origin, sessions: &mut Sessions<'_>, at: Nanos);

    /// What was sent before was refused (ICMP).
    fn refused(&mut self, at: Nanos);

    /// Does what is due.
    fn tick(&mut self, sessions: &mut Sessions<'_>, at: Nanos) -> Due;

    /// What is left when receiving has ended.
    fn finish(&mut self, report: &mut ReceiveReport);
}

/// Where a control message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) peer: SocketAddr,
    /// The address of this host that it was sent to; `None`: the socket has only one, or does not tell.
    pub(crate) local: Option<IpAddr>,
}

/// Whether receiving goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// As if nobody talked.
    Free,
    /// At least until something is to be done at this time.
    At(Nanos),
    /// No longer.
    Over(Ended),
}

impl Due {
    /// Whether to end now, or when to look again, given what is to be said of messages alone.
    pub(super) fn with(self, messages: Result<Option<Nanos>, Ended>) -> Result<Option<Nanos>, Ended> {
        match (self, messages) {
            (Self::Over(ended), Ok(_)) => Err(ended),
            (Self::At(next), Ok(other)) => Ok(Some(other.map_or(next, |other| other.min(next)))),
            // There is more to come.
            (Self::At(next), Err(Ended::Complete | Ended::Idle | Ended::Closed)) => Ok(Some(next)),
            (_, messages) => messages,
        }
    }
}
