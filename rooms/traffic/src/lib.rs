//! Numbered, timestamped messages from a [`Sender`] to a [`Receiver`], over UDP, TCP or QUIC.
//!
//! Every message starts with a probe header ([`weir_wire::probe`]): session, sequence number, intended and actual send
//! time. The sender paces them for a *window* that starts with the first one; the receiver tells what arrived, within
//! the window and in the *drain* behind it, in which order, how often and after which delay. Where both ends live in
//! one process (the lab), an [`Exchange`] tells the receiver the window and the number of messages sent, so that
//! nothing about the experiment travels through the impaired path.
//!
//! Sockets are created by [`Sender::open`] and [`Receiver::bind`] in the network namespace of the calling thread, and
//! stay there; `run` may be called on any thread. Plain threads, non-blocking sockets, `ppoll`; nothing is allocated
//! per message. QUIC alone works otherwise, see [`quic`].

pub mod bulk;
mod congestion;
mod error;
mod exchange;
mod flights;
#[doc(hidden)]
pub mod foreign;
mod quic;
pub(crate) mod receiver;
mod report;
mod sender;
mod sequence;
mod settings;

pub use congestion::check as check_congestion;
pub use error::{ErrorCount, ErrorLog, TrafficError};
pub use exchange::{Exchange, Window};
pub use flights::{Flight, Flights};
pub use quic::{QuicSettings, longest_datagram};
pub use receiver::{Gauge, Level, Receiver};
pub use report::{Ended, Machine, ReceiveReport, SendReport, SessionReport, in_words};
pub use sender::Sender;
pub use sequence::SequenceSet;
pub use settings::{Pacing, ReceiverSettings, SenderSettings, Stall, TcpSettings, Transport, Until};

#[cfg(test)]
mod tests;
