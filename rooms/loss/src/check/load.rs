//! What a machine is to receive without loss, and the receive buffer that takes.

use serde::Serialize;
use weir_units::{Frequency, Size, Span};

/// The stated load of one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Datagrams a second.
    pub rate: Frequency,
    /// Bytes of UDP payload in each.
    pub payload: Size,
    /// The longest time for which the reader does not read.
    pub stall: Span,
}

/// What of a load was stated; the rest is taken from what comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// As [`Load::rate`].
    pub rate: Option<Frequency>,
    /// As [`Load::payload`].
    pub payload: Option<Size>,
    /// As [`Load::stall`].
    pub stall: Option<Span>,
}

impl Stated {
    /// All of it; `None`: something is left to be seen.
    pub fn load(&self) -> Option<Load> {
        Some(Load { rate: self.rate?, payload: self.payload?, stall: self.stall? })
    }
}

impl Load {
    /// Datagrams a second.
    pub fn per_second(&self) -> f64 {
        self.rate.micro_hertz as f64 / 1e6
    }

    /// Datagrams that arrive within a time, rounded up.
    pub fn within(&self, time: Span) -> u64 {
        let product = u128::from(self.rate.micro_hertz) * u128::from(time.nanos);
        u64::try_from(product.div_ceil(MICRO_HERTZ_NANOS)).unwrap_or(u64::MAX)
    }

    /// Bits a second on an Ethernet with IPv4: headers, checksum, preamble and gap included.
    pub fn bits_on_wire(&self) -> f64 {
        self.per_second() * 8.0 * (self.payload.bytes + HEADERS).max(LEAST_FRAME).saturating_add(BETWEEN) as f64
    }

    /// What the receive buffer must hold, where a datagram takes so many bytes of it.
    pub fn need(&self, truesize: u64) -> Need {
        // At least one waits while it is read.
        let waiting = self.within(self.stall).max(1);
        let held = waiting.saturating_mul(truesize);
        // A third on top, so that the quarter that is released late leaves room enough; whole pages.
        let buffer = held.saturating_add(held.div_ceil(3)).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        Need { waiting, truesize, held, buffer, stated: false }
    }
}

/// The receive buffer that a load needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// Datagrams that wait at the end of the longest stall.
    pub waiting: u64,
    /// Bytes that each takes of the buffer: its memory in the kernel, not its payload.
    pub truesize: u64,
    /// Bytes that they take together.
    pub held: u64,
    /// Bytes of buffer with the margin: while a reader catches up, the kernel gives memory back in steps of a quarter of
    /// the buffer (net/ipv4/udp.c, udp_rmem_release), and decides on drops as if it were still taken.
    pub buffer: u64,
    /// Whether it was stated, and not computed of the load.
    pub stated: bool,
}

impl Need {
    /// What a program that asks for so much has, in place of what was computed.
    pub fn stated(asked: u64, computed: Need) -> Need {
        Need { buffer: asked.saturating_mul(2), stated: true, ..computed }
    }

    /// What a program must ask for (SO_RCVBUF), and what `net.core.rmem_max` must allow: the kernel doubles it.
    pub fn asked(&self) -> u64 {
        self.buffer.div_ceil(2)
    }
}

/// Micro-hertz times nanoseconds in one datagram.
const MICRO_HERTZ_NANOS: u128 = 1_000_000 * 1_000_000_000;

/// Ethernet, IPv4 and UDP headers, and the frame's checksum.
const HEADERS: u64 = 14 + 20 + 8 + 4;

/// The shortest Ethernet frame.
const LEAST_FRAME: u64 = 64;

/// Preamble and gap between frames.
const BETWEEN: u64 = 8 + 12;

const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(rate: &str, payload: &str, stall: &str) -> Load {
        Load { rate: rate.parse().unwrap(), payload: payload.parse().unwrap(), stall: stall.parse().unwrap() }
    }

    #[test]
    fn the_studys_load() {
        // A 100 Mbit/s line full of 64 B payloads.
        let study = load("96154/s", "64B", "40ms");
        assert!((study.bits_on_wire() - 100e6).abs() < 1e3, "{}", study.bits_on_wire());
        let need = study.need(832);
        assert_eq!(need, Need { waiting: 3847, truesize: 832, held: 3_200_704, buffer: 4_268_032, stated: false });
        assert_eq!(need.asked(), 2_134_016);
    }

    #[test]
    fn a_reader_that_never_stalls_needs_room_for_one() {
        assert_eq!(load("50k/s", "200B", "0").need(1280).waiting, 1);
        assert_eq!(load("1/s", "200B", "1ms").need(1280).waiting, 1);
        // The shortest frame.
        assert_eq!(load("1/s", "1B", "0").bits_on_wire(), 84.0 * 8.0);
    }

    proptest! {
        #[test]
        fn nothing_overflows_and_more_never_needs_less(
            rate in any::<u64>(), stall in any::<u64>(), truesize in any::<u64>(), more in any::<u64>(),
        ) {
            let load = |micro_hertz, nanos| Load {
                rate: Frequency { micro_hertz }, payload: Size { bytes: 1 }, stall: Span { nanos },
            };
            let (less, much) = (load(rate, stall).need(truesize), load(rate.saturating_add(more), stall).need(truesize));
            prop_assert!(less.buffer <= much.buffer && less.held <= less.buffer.saturating_add(PAGE));
        }
    }
}
