//! What is granted.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use weir_wire::control::{Refusal, Terms};
use weir_wire::probe::BASE_LEN;

use crate::{Pacing, ReverseSettings, SenderSettings, Transport};

/// What a receiver allows, and what of it is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    allowed: ReverseSettings,
    transport: Transport,
    rate: u64,
    flows: usize,
}

impl Limits {
    pub(crate) fn new(allowed: ReverseSettings, transport: Transport) -> Self {
        Self { allowed, transport, rate: 0, flows: 0 }
    }

    /// Takes what these terms need, until it is [given back](Self::give_back), and tells what the sender has to do.
    pub(crate) fn take(&mut self, terms: &Terms, session: u16, peer: SocketAddr) -> Result<SenderSettings, Refusal> {
        let longest = longest(self.transport, peer);
        if !(BASE_LEN as u64..=longest).contains(&terms.payload) {
            return Err(Refusal::Payload(longest));
        }
        let counted = if terms.count > 0 { terms.count.saturating_mul(terms.interval) } else { u64::MAX };
        let most = u64::try_from(self.allowed.duration.as_nanos()).unwrap_or(u64::MAX);
        if terms.duration.min(counted) > most {
            return Err(Refusal::Duration(most));
        }
        let rate = rate(terms, peer);
        if self.rate.checked_add(rate).is_none_or(|all| all > self.allowed.rate) {
            return Err(Refusal::Rate(self.allowed.rate));
        }
        if self.flows >= self.allowed.flows {
            return Err(Refusal::Flows(self.allowed.flows as u64));
        }
        self.rate += rate;
        self.flows += 1;
        // A sender by sleep may take a little longer for its count.
        let duration = Duration::from_nanos(terms.duration.min(most));
        Ok(SenderSettings {
            transport: self.transport,
            payload_bytes: terms.payload as usize,
            interval: Duration::from_nanos(terms.interval),
            pacing: if terms.scheduled { Pacing::Schedule } else { Pacing::Sleep },
            duration,
            count: NonZeroU64::new(terms.count),
            overtime: (duration / 100).min(Duration::from_millis(100)),
            session,
            announce: true,
            ..SenderSettings::new(peer)
        })
    }

    /// A flow of these terms has ended.
    pub(crate) fn give_back(&mut self, terms: &Terms, peer: SocketAddr) {
        self.rate = self.rate.saturating_sub(rate(terms, peer));
        self.flows = self.flows.saturating_sub(1);
    }
}

/// Bits of IP packets a second, headers included: small messages are dear. Without an interval without bound.
fn rate(terms: &Terms, peer: SocketAddr) -> u64 {
    let headers = if peer.is_ipv4() { 28 } else { 48 };
    let bits = u128::from(terms.payload.saturating_add(headers)) * 8 * 1_000_000_000;
    bits.checked_div(terms.interval.into()).map_or(u64::MAX, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Payload bytes of the longest message: a sender keeps one in memory.
fn longest(transport: Transport, peer: SocketAddr) -> u64 {
    match (transport, peer) {
        (Transport::Udp, SocketAddr::V4(_)) => 65_507,
        (Transport::Udp, SocketAddr::V6(_)) => 65_527,
        _ => 1 << 20,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms() -> impl Strategy<Value = Terms> {
        let numbers = (0u64..70_000, 0u64..1 << 40, any::<u64>(), 0u64..1000, any::<bool>());
        numbers.prop_map(|(payload, interval, duration, count, scheduled)| Terms {
            payload,
            interval,
            duration,
            count,
            scheduled,
            both: false,
        })
    }

    proptest! {
        #[test]
        fn never_is_more_granted_than_allowed(asked in proptest::collection::vec((terms(), any::<bool>()), 1..40)) {
            let allowed = ReverseSettings { rate: 10_000_000, duration: Duration::from_secs(60), flows: 3 };
            let mut limits = Limits::new(allowed, Transport::Udp);
            let peer = SocketAddr::from(([10, 0, 0, 1], 7));
            let mut open = Vec::new();
            for (terms, ends) in asked {
                if let Ok(settings) = limits.take(&terms, 1, peer) {
                    prop_assert!(settings.duration <= allowed.duration && settings.validate().is_ok());
                    open.push(terms);
                }
                let bits = |terms: &Terms| (terms.payload + 28) as f64 * 8e9 / terms.interval as f64;
                prop_assert!(open.iter().map(bits).sum::<f64>() <= allowed.rate as f64 + open.len() as f64);
                prop_assert!(open.len() <= allowed.flows);
                if ends && !open.is_empty() {
                    limits.give_back(&open.swap_remove(0), peer);
                }
            }
            open.iter().for_each(|terms| limits.give_back(terms, peer));
            prop_assert_eq!((limits.rate, limits.flows), (0, 0));
        }
    }

    #[test]
    fn each_limit_says_what_it_is() {
        let allowed = ReverseSettings { rate: 1_000_000, duration: Duration::from_secs(60), flows: 1 };
        let mut limits = Limits::new(allowed, Transport::Udp);
        let peer = SocketAddr::from(([10, 0, 0, 1], 7));
        let good = Terms {
            payload: 1000,
            interval: 10_000_000,
            duration: 1_000_000_000,
            count: 0,
            scheduled: true,
            both: false,
        };
        let take = |limits: &mut Limits, terms: Terms| limits.take(&terms, 1, peer).map(drop);
        assert_eq!(take(&mut limits, Terms { payload: 15, ..good }), Err(Refusal::Payload(65_507)));
        assert_eq!(
            take(&mut limits, Terms { duration: 61_000_000_000, ..good }),
            Err(Refusal::Duration(60_000_000_000))
        );
        assert_eq!(take(&mut limits, Terms { interval: 0, ..good }), Err(Refusal::Rate(1_000_000)));
        assert_eq!(take(&mut limits, Terms { interval: 8_000_000, ..good }), Err(Refusal::Rate(1_000_000)));
        // Whoever counts may leave the duration open.
        assert_eq!(take(&mut limits, Terms { duration: u64::MAX, count: 10, ..good }), Ok(()));
        let second = Terms { interval: 1_000_000_000, ..good };
        assert_eq!(take(&mut limits, second), Err(Refusal::Flows(1)));
    }
}
