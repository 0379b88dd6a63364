//! Numbered, timestamped messages from a [`Sender`] to a [`Receiver`], over UDP, TCP or QUIC.
//!
//! Every message starts with a probe header ([`weir_wire::probe`]): session, sequence number, intended and actual send
//! time. The sender paces them for a *window* that starts with the first one; the receiver reports what arrived, within
//! the window and in the *drain* after it, in which order, how often and with which delay. If both ends are in
//! one process (the lab), an [`Exchange`] gives the receiver the window and the number of messages sent, so that
//! no control data travels through the impaired path.
//!
//! Sockets are created by [`Sender::open`] and [`Receiver::bind`] in the network namespace of the calling thread, and
//! stay there; `run` may be called on any thread. Plain threads, non-blocking sockets, `ppoll`; nothing is allocated
//! per message. QUIC alone allocates.
//!
//! ```
//! use std::{thread, time::Duration};
//!
//! use weir_program::stop::Stop;
//! use weir_traffic::{Exchange, Receiver, ReceiverSettings, Sender, SenderSettings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (exchange, stop) = (Exchange::new(Duration::from_secs(10))?, Stop::new()?);
//! let receiver = Receiver::bind(&ReceiverSettings::new("127.0.0.1:0".parse()?))?;
//! let settings = SenderSettings {
//!     interval: Duration::from_millis(1),
//!     duration: Duration::from_millis(20),
//!     ..SenderSettings::new(receiver.local_addr())
//! };
//! let sender = Sender::open(&settings)?;
//! let (sent, received) = thread::scope(|scope| {
//!     let received = scope.spawn(|| receiver.run(&exchange, &stop));
//!     (sender.run(&exchange, &stop), received.join().expect("it does not panic"))
//! });
//! let session = received.main_session().expect("something has arrived");
//! assert_eq!(session.delivered, sent.sent);
//! # Ok(())
//! # }
//! ```

mod account;
pub mod bulk;
mod congestion;
mod error;
mod exchange;
pub mod flags;
mod flights;
#[doc(hidden)]
pub mod foreign;
mod quic;
pub(crate) mod receiver;
mod report;
mod reverse;
mod sender;
mod sequence;
mod settings;

pub use account::{Account, Direction, rates};
pub use congestion::check as check_congestion;
pub use error::{ErrorCount, ErrorLog, TrafficError};
pub use exchange::{Exchange, Window};
pub use flights::{Departure, Flight};
pub use quic::longest_datagram;
pub use receiver::{Gauge, Level, Receiver};
pub use report::{Ended, Interval, ReceiveReport, SendReport, SessionReport, Total, in_words};
pub use reverse::{Client, ClientReport, Flow, Parted};
pub use sender::{Sender, Source};
pub use sequence::SequenceSet;
pub use settings::{Pacing, ReceiverSettings, ReverseSettings, SenderSettings, Stall, Transport, Until};

#[cfg(test)]
mod tests;
