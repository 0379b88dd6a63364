//! The times of single messages, for those who must know what happened during each.

use std::net::SocketAddr;

use weir_program::clock::Nanos;

/// A delivered message on its way, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Its number.
    pub number: u64,
    /// When it was due to be sent; without the probe's extension, when it was sent.
    pub intended: Nanos,
    /// The send call.
    pub sent: Nanos,
    /// The receive call's return.
    pub received: Nanos,
}

impl Flight {
    /// From when it was due to when it was received.
    pub fn late(&self) -> Nanos {
        self.received.saturating_sub(self.intended)
    }
}

/// The flights of a session in the order of arrival, the first ones if there are more than were wanted.
#[derive(Clone, Debug, Default)]
pub struct Flights {
    list: Vec<Flight>,
    more: u64,
}

impl Flights {
    /// Room for so many. Untouched room costs no memory, and keeping one allocates nothing.
    pub(super) fn new(most: usize) -> Flights {
        Flights { list: Vec::with_capacity(most), more: 0 }
    }

    pub(super) fn keep(&mut self, flight: Flight) {
        if self.list.len() < self.list.capacity() {
            self.list.push(flight);
        } else {
            self.more += 1;
        }
    }

    /// Those that were kept.
    pub fn list(&self) -> &[Flight] {
        &self.list
    }

    /// How many were not.
    pub fn more(&self) -> u64 {
        self.more
    }
}

impl FromIterator<Flight> for Flights {
    fn from_iter<T: IntoIterator<Item = Flight>>(flights: T) -> Flights {
        Flights { list: flights.into_iter().collect(), more: 0 }
    }
}

/// A message that was sent, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When it was due.
    pub intended: Nanos,
    /// The send call.
    pub sent: Nanos,
}

/// A message that was received, for whoever keeps all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Where it came from.
    pub peer: SocketAddr,
    /// Its session.
    pub session: u16,
    /// What its sender drew at its start; 0: unknown.
    pub incarnation: u32,
    /// Its number.
    pub number: u64,
    /// When it was due, by the sender's clock; `None`: a message without extension.
    pub intended: Option<Nanos>,
    /// The send call, by that clock.
    pub sent: Nanos,
    /// The receive call's return, by ours.
    pub received: Nanos,
}
