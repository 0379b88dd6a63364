//! The limits of reverse sending.

use std::net::SocketAddr;
use std::time::Duration;

use weir_program::clock::nanos;
use weir_units::Span;

use super::lines::{Request, VERSION};
use crate::{ReceiverSettings, SenderSettings};

/// The limits of a receiver, and how much of them is in use.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    settings: ReceiverSettings,
    rate: u64,
    flows: usize,
}

impl Limits {
    pub(crate) fn new(settings: &ReceiverSettings) -> Self {
        Self { settings: settings.clone(), rate: 0, flows: 0 }
    }

    /// Reserves what this request needs, until it is [given back](Self::give_back), and returns the sender's settings, or
    /// why it is refused.
    pub(crate) fn take(&mut self, asked: &Request, peer: SocketAddr) -> Result<SenderSettings, String> {
        let Some(allowed) = self.settings.reverse else {
            return Err("it does not allow that. Start it with `weir recv --allow-reverse`.".to_owned());
        };
        if !self.settings.admits(peer) {
            return Err(format!("it does not serve {}. Check its --from.", peer.ip().to_canonical()));
        }
        if asked.version != VERSION {
            return Err(format!(
                "its protocol has version {VERSION}, not {}. Use the same weir at both ends.",
                asked.version
            ));
        }
        let transport = self.settings.transport;
        if asked.transport != transport {
            return Err(format!("it listens over {transport}. Use --transport {transport}."));
        }
        if asked.payload > LONGEST {
            return Err(format!("it sends messages of at most {LONGEST}B. Lower --payload."));
        }
        let counted = asked.count.map_or(u64::MAX, |count| count.get().saturating_mul(asked.interval_ns));
        let max = nanos(allowed.duration);
        if asked.duration_ns.min(counted) > max {
            return Err(format!(
                "it sends for at most {}. Lower --duration or --count, or raise its --reverse-duration.",
                Span { nanos: max }
            ));
        }
        let rate = rate(asked, peer);
        if self.rate.checked_add(rate).is_none_or(|all| all > allowed.rate.bits_per_second) {
            return Err(format!(
                "it sends at most {} of IP packets to all clients, headers included. Lower --rate, or raise its --reverse-rate.",
                allowed.rate
            ));
        }
        if self.flows >= allowed.flows.into() {
            return Err(format!(
                "it sends to at most {} clients at once. Try again later, or raise its --reverse-flows.",
                allowed.flows
            ));
        }
        // Pacing by sleep may take a little longer for its count.
        let duration = Duration::from_nanos(asked.duration_ns.min(max));
        let settings = SenderSettings {
            transport,
            payload_bytes: asked.payload,
            interval: Duration::from_nanos(asked.interval_ns),
            pacing: asked.pacing,
            duration,
            count: asked.count,
            overtime: (duration / 100).min(Duration::from_millis(100)),
            session: asked.session,
            announce: true,
            ..SenderSettings::new(peer)
        };
        settings.validate().map_err(|error| error.to_string())?;
        self.rate += rate;
        self.flows += 1;
        Ok(settings)
    }

    /// The flow of this request has ended.
    pub(crate) fn give_back(&mut self, asked: &Request, peer: SocketAddr) {
        self.rate = self.rate.saturating_sub(rate(asked, peer));
        self.flows = self.flows.saturating_sub(1);
    }
}

/// Bits of IP packets per second, headers included: small messages are expensive. Without an interval there is no bound.
fn rate(asked: &Request, peer: SocketAddr) -> u64 {
    let headers = if peer.is_ipv4() { 28 } else { 48 };
    let bits = (asked.payload as u128 + headers) * 8 * 1_000_000_000;
    bits.checked_div(asked.interval_ns.into()).map_or(u64::MAX, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Max payload bytes: a sender keeps one message in memory.
const LONGEST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::prelude::*;
    use weir_units::BitRate;

    use super::super::lines::Want;
    use super::*;
    use crate::{Pacing, ReverseSettings, Transport};

    const GOOD: Request = Request {
        version: VERSION,
        want: Want::Reverse,
        transport: Transport::Udp,
        session: 1,
        payload: 1000,
        interval_ns: 10_000_000,
        duration_ns: 1_000_000_000,
        count: None,
        pacing: Pacing::Schedule,
    };

    fn limits_of(reverse: Option<ReverseSettings>) -> Limits {
        let from = vec!["10.0.0.0/8".parse().unwrap()];
        Limits::new(&ReceiverSettings { reverse, from, ..ReceiverSettings::new("10.0.0.1:9".parse().unwrap()) })
    }

    fn requests() -> impl Strategy<Value = Request> {
        let numbers = (0usize..70_000, 0u64..1 << 40, any::<u64>(), 0u64..1000);
        numbers.prop_map(|(payload, interval_ns, duration_ns, count)| Request {
            payload,
            interval_ns,
            duration_ns,
            count: NonZeroU64::new(count),
            ..GOOD
        })
    }

    proptest! {
        #[test]
        fn never_is_more_granted_than_allowed(asked in proptest::collection::vec((requests(), any::<bool>()), 1..40)) {
            let allowed = ReverseSettings { rate: BitRate { bits_per_second: 10_000_000 }, duration: Duration::from_secs(60), flows: 3 };
            let mut limits = limits_of(Some(allowed));
            let peer = SocketAddr::from(([10, 0, 0, 1], 7));
            let mut open = Vec::new();
            for (asked, ends) in asked {
                if let Ok(settings) = limits.take(&asked, peer) {
                    prop_assert!(settings.duration <= allowed.duration && settings.validate().is_ok());
                    open.push(asked);
                }
                let bits = |asked: &Request| (asked.payload + 28) as f64 * 8e9 / asked.interval_ns as f64;
                prop_assert!(open.iter().map(bits).sum::<f64>() <= allowed.rate.bits_per_second as f64 + open.len() as f64);
                prop_assert!(open.len() <= allowed.flows.into());
                if ends && !open.is_empty() {
                    limits.give_back(&open.swap_remove(0), peer);
                }
            }
            open.iter().for_each(|asked| limits.give_back(asked, peer));
            prop_assert_eq!((limits.rate, limits.flows), (0, 0));
        }
    }

    #[test]
    fn each_limit_says_what_it_is() {
        let allowed = ReverseSettings {
            rate: BitRate { bits_per_second: 1_000_000 },
            duration: Duration::from_secs(60),
            flows: 1,
        };
        let peer = SocketAddr::from(([10, 0, 0, 1], 7));
        let mut limits = limits_of(Some(allowed));
        let count = NonZeroU64::new(10);
        for (asked, says) in [
            (Request { version: 2, ..GOOD }, "its protocol has version 1, not 2"),
            (Request { transport: Transport::Tcp, ..GOOD }, "it listens over udp. Use --transport udp."),
            (Request { payload: 15, ..GOOD }, "payload of 15B: a message over udp has 16B to 65507B"),
            (Request { payload: 2 << 20, ..GOOD }, "it sends messages of at most 1048576B"),
            (Request { duration_ns: 61_000_000_000, ..GOOD }, "it sends for at most 1m"),
            (Request { interval_ns: 0, ..GOOD }, "it sends at most 1mbit of IP packets"),
            (Request { interval_ns: 8_000_000, ..GOOD }, "it sends at most 1mbit of IP packets"),
            // Who counts may leave the duration open.
            (Request { duration_ns: u64::MAX, count, ..GOOD }, ""),
            (Request { interval_ns: 1_000_000_000, ..GOOD }, "it sends to at most 1 clients at once"),
        ] {
            let refused = limits.take(&asked, peer).map(drop).err().unwrap_or_default();
            assert!(refused.starts_with(says) && refused.is_empty() == says.is_empty(), "{refused}");
        }
        let refused = limits_of(Some(allowed)).take(&GOOD, "11.0.0.1:7".parse().unwrap()).unwrap_err();
        assert!(refused.contains("--from"), "{refused}");
        let refused = limits_of(None).take(&GOOD, peer).unwrap_err();
        assert!(refused.contains("--allow-reverse"), "{refused}");
    }
}
