//! What counts for one name, given the answers of the past: pure, on the caller's clock.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use hickory_resolver::proto::rr::Name;

use super::ResolverOptions;

/// What a lookup brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Addresses, at least one.
    Found(Found),
    /// Servers say that there are none.
    None,
    /// No answer, or one of no use: the reason.
    Failed(String),
}

/// Addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The full name that has them: the name with one of the search domains, or none.
    pub(super) origin: Name,
    /// The addresses, in any order.
    pub(super) addresses: Vec<IpAddr>,
    /// How long they hold.
    pub(super) ttl: Duration,
    /// The lookup for the addresses of this family failed: nothing new is known of them.
    pub(super) unknown: Option<Family>,
}

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// What is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Resolved,
    Failing(String),
    Withdrawn,
}

/// The state of a name.
#[derive(Debug, Default)]
pub(super) struct Record {
    addresses: Vec<IpAddr>,
    origin: Option<Name>,
    /// Lookups since the last that found addresses.
    failures: u32,
    /// Since when servers have said that there are none.
    none_since: Option<Instant>,
}

impl Record {
    /// The addresses that count.
    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The full name that they belong to.
    pub(super) fn origin(&self) -> Option<&Name> {
        self.origin.as_ref()
    }

    /// Takes an answer: says how long to wait before asking again, and what is to be told.
    pub(super) fn take(
        &mut self,
        answer: Answer,
        now: Instant,
        options: &ResolverOptions,
        has_route: impl Fn(IpAddr) -> bool,
    ) -> (Duration, Option<Told>) {
        let reason = match answer {
            Answer::Found(found) => {
                let ttl = found.ttl.clamp(options.shortest, options.longest.max(options.shortest));
                let changed = self.replace(found, has_route);
                let again = std::mem::take(&mut self.failures) > 0;
                self.none_since = None;
                return (ttl, (changed || again).then_some(Told::Resolved));
            }
            Answer::None => {
                let since = *self.none_since.get_or_insert(now);
                if !self.addresses.is_empty() && now.duration_since(since) >= options.hold {
                    self.addresses.clear();
                    self.origin = None;
                    self.failures = self.failures.saturating_add(1);
                    return (self.backoff(options), Some(Told::Withdrawn));
                }
                "no addresses".to_owned()
            }
            Answer::Failed(reason) => {
                // Not knowing ends a time of knowing that there are none.
                self.none_since = None;
                reason
            }
        };
        self.failures = self.failures.saturating_add(1);
        let told = (self.failures == 1).then_some(Told::Failing(reason));
        (self.backoff(options), told)
    }

    /// Puts new addresses in place. Says whether anything changed.
    fn replace(&mut self, found: Found, has_route: impl Fn(IpAddr) -> bool) -> bool {
        let same_origin = self.origin.as_ref() == Some(&found.origin);
        let mut kept = self.addresses.clone();
        kept.retain(|address| {
            found.addresses.contains(address) || same_origin && found.unknown == Some(family(*address))
        });
        let mut new: Vec<IpAddr> = found.addresses.into_iter().filter(|address| !kept.contains(address)).collect();
        new.sort_unstable();
        new.dedup();
        new.sort_by_key(|&address| !has_route(address));
        kept.append(&mut new);
        self.origin = Some(found.origin);
        let changed = kept != self.addresses;
        self.addresses = kept;
        changed
    }

    fn backoff(&self, options: &ResolverOptions) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        options.first_retry.saturating_mul(1 << doublings).min(options.last_retry)
    }
}

fn family(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn found(addresses: &[&str], ttl: u64) -> Answer {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let origin = Name::from_ascii("sink.example.").unwrap();
        Answer::Found(Found { origin, addresses, ttl: SECOND * ttl as u32, unknown: None })
    }

    fn failed() -> Answer {
        Answer::Failed("timed out".into())
    }

    struct Clock {
        record: Record,
        now: Instant,
    }

    impl Clock {
        fn new() -> Self {
            Self { record: Record::default(), now: Instant::now() }
        }

        /// Takes an answer, waits as long as it says, and returns both that and what was told.
        fn take(&mut self, answer: Answer) -> (u64, Option<Told>) {
            let (wait, told) = self.record.take(answer, self.now, &ResolverOptions::default(), |_| true);
            self.now += wait;
            (wait.as_secs(), told)
        }

        fn addresses(&self) -> Vec<String> {
            self.record.addresses().iter().map(IpAddr::to_string).collect()
        }
    }

    #[test]
    fn ttls_are_kept_within_bounds_and_only_changes_are_told() {
        let mut clock = Clock::new();
        assert_eq!(clock.take(found(&["10.0.0.1"], 20)), (20, Some(Told::Resolved)));
        assert_eq!(clock.take(found(&["10.0.0.1"], 0)), (1, None));
        assert_eq!(clock.take(found(&["10.0.0.1"], 86_400)), (300, None));
        assert_eq!(clock.take(found(&["10.0.0.2"], 5)), (5, Some(Told::Resolved)));
        assert_eq!(clock.addresses(), ["10.0.0.2"]);
    }

    #[test]
    fn the_order_is_stable_and_the_first_stays_first() {
        let mut clock = Clock::new();
        clock.take(found(&["fd00::1", "10.0.0.9", "10.0.0.5", "10.0.0.5"], 5));
        assert_eq!(clock.addresses(), ["10.0.0.5", "10.0.0.9", "fd00::1"]);
        assert_eq!(clock.take(found(&["10.0.0.9", "10.0.0.5", "fd00::1"], 5)), (5, None), "rotated by the server");
        clock.take(found(&["10.0.0.1", "10.0.0.9", "fd00::1"], 5));
        assert_eq!(clock.addresses(), ["10.0.0.9", "fd00::1", "10.0.0.1"]);
    }

    #[test]
    fn addresses_without_a_route_come_last() {
        let mut record = Record::default();
        let answer = found(&["10.0.0.1", "10.0.0.2", "fd00::1"], 5);
        record.take(answer, Instant::now(), &ResolverOptions::default(), |address| address.is_ipv6());
        assert_eq!(record.addresses()[0], "fd00::1".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn a_failing_name_keeps_its_addresses_and_says_so_once() {
        let mut clock = Clock::new();
        clock.take(found(&["10.0.0.1"], 5));
        assert_eq!(clock.take(failed()), (1, Some(Told::Failing("timed out".into()))));
        let waits: Vec<_> = (0..7).map(|_| clock.take(failed())).collect();
        assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30].map(|wait| (wait, None)));
        for _ in 0..1000 {
            clock.take(failed());
        }
        assert_eq!(clock.addresses(), ["10.0.0.1"]);
        assert_eq!(clock.take(found(&["10.0.0.1"], 5)), (5, Some(Told::Resolved)), "it recovers");
        assert_eq!(clock.take(failed()), (1, Some(Told::Failing("timed out".into()))));
    }

    #[test]
    fn addresses_are_withdrawn_when_servers_insist_that_there_are_none() {
        let mut clock = Clock::new();
        assert_eq!(clock.take(Answer::None), (1, Some(Told::Failing("no addresses".into()))));
        clock.take(found(&["10.0.0.1"], 5));
        let start = clock.now;
        assert_eq!(clock.take(Answer::None), (1, Some(Told::Failing("no addresses".into()))));
        loop {
            let asked = clock.now - start;
            let (_, told) = clock.take(Answer::None);
            assert_eq!(told.is_some(), asked >= 30 * SECOND);
            if told.is_some() {
                assert_eq!(told, Some(Told::Withdrawn));
                break;
            }
            assert_eq!(clock.addresses(), ["10.0.0.1"]);
        }
        assert!(clock.addresses().is_empty());
        assert_eq!(clock.take(Answer::None).1, None);
        assert_eq!(clock.take(found(&["10.0.0.1"], 5)), (5, Some(Told::Resolved)));
    }

    #[test]
    fn silence_in_between_starts_the_hold_anew() {
        let mut clock = Clock::new();
        clock.take(found(&["10.0.0.1"], 5));
        for _ in 0..20 {
            clock.take(Answer::None);
            clock.now += 25 * SECOND;
            clock.take(failed());
        }
        assert_eq!(clock.addresses(), ["10.0.0.1"]);
    }

    #[test]
    fn a_family_that_was_not_learnt_keeps_its_addresses() {
        let mut clock = Clock::new();
        clock.take(found(&["10.0.0.1", "fd00::1"], 5));
        let half = |origin: &str| {
            let Answer::Found(found) = found(&["10.0.0.2"], 5) else { unreachable!() };
            Answer::Found(Found { unknown: Some(Family::V6), origin: Name::from_ascii(origin).unwrap(), ..found })
        };
        clock.take(half("sink.example."));
        assert_eq!(clock.addresses(), ["fd00::1", "10.0.0.2"]);
        clock.take(half("sink.elsewhere."));
        assert_eq!(clock.addresses(), ["10.0.0.2"], "the old ones belong to another name");
    }

    proptest! {
        #[test]
        fn whatever_is_answered_waits_are_bounded_and_addresses_are_those_found(
            answers in vec((0u8..4, vec(0u8..6, 1..5), 0u64..1000), 1..40)
        ) {
            let mut clock = Clock::new();
            let mut last: Vec<String> = Vec::new();
            let mut told_failing = false;
            for (kind, octets, ttl) in answers {
                let addresses: Vec<String> = octets.iter().map(|octet| format!("10.0.0.{octet}")).collect();
                let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
                let answer = match kind {
                    0 => Answer::None,
                    1 => failed(),
                    _ => found(&addresses, ttl),
                };
                let (wait, told) = clock.take(answer);
                prop_assert!((1..=300).contains(&wait));
                match told {
                    Some(Told::Failing(_)) => {
                        prop_assert!(!told_failing, "said twice");
                        told_failing = true;
                    }
                    Some(Told::Withdrawn) => last.clear(),
                    _ => {}
                }
                if kind >= 2 {
                    told_failing = false;
                    last = addresses.iter().map(|address| (*address).to_owned()).collect();
                    last.sort_unstable();
                    last.dedup();
                }
                let mut now = clock.addresses();
                now.sort_unstable();
                prop_assert_eq!(&now, &last);
            }
        }
    }
}
