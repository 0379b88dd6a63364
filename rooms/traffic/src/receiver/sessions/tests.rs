//! Sessions by the thousand, at invented times.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::time::Duration;

use weir_program::clock;
use weir_wire::probe::{Extension, Kind, Probe};

use super::Sessions;
use crate::reverse::OtherWay;
use crate::{Exchange, Interval, ReceiveReport, ReceiverSettings};

const SECOND: u64 = 1_000_000_000;

/// A message of a sender with our clock, or with no extension if it has no incarnation.
fn probe(kind: Kind, session: u16, sequence: u32, sent: u64, incarnation: u32) -> Probe {
    let clock = clock::id().unwrap().get();
    let extension = Extension { intended: sent, clock, incarnation, length: 40 };
    Probe { kind, session, sequence, sent, extension: (incarnation > 0).then_some(extension) }
}

fn peer(number: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + number), 5000))
}

/// What is told of what was counted by a receiver of so many sessions.
fn received(max: usize, count: impl FnOnce(&mut Sessions<'_>)) -> ReceiveReport {
    let exchange = Exchange::new(Duration::ZERO).unwrap();
    let settings = ReceiverSettings { sessions: NonZeroUsize::new(max).unwrap(), ..ReceiverSettings::new(peer(0)) };
    let mut sessions = Sessions::new(&settings, &exchange);
    count(&mut sessions);
    sessions.into_report()
}

#[test]
fn a_sender_that_was_started_again_is_another() {
    for (first, second) in [(1, 2), (0, 0)] {
        let report = received(10, |sessions| {
            let mut count = |kind, sequence, sent, incarnation| {
                sessions.count(&probe(kind, 7, sequence, sent, incarnation), 40, peer(1), sent + 5);
            };
            (0..250).for_each(|number| count(Kind::Message, number, 100 + u64::from(number), first));
            count(Kind::End, 250, 400, first);
            (0..63).for_each(|number| count(Kind::Message, number, 500 + u64::from(number), second));
            count(Kind::End, 63, 600, second);
            // What was late of the first run belongs to that.
            if first > 0 {
                count(Kind::Message, 10, 110, first);
            }
        });
        let reported: Vec<_> =
            report.sessions.iter().map(|s| (s.announced, s.delivered, s.incarnation, s.duplicates)).collect();
        let late = u64::from(first > 0);
        assert_eq!(reported, [(Some(250), 250, first, late), (Some(63), 63, second, 0)]);
    }
}

#[test]
fn a_delay_below_zero_is_told_and_not_taken_for_none() {
    let report = received(1, |sessions| {
        sessions.count(&probe(Kind::Message, 1, 0, 100, 1), 40, peer(1), 50);
        sessions.count(&probe(Kind::Message, 1, 1, 100, 1), 40, peer(1), 130);
    });
    let session = report.main_session().unwrap();
    assert_eq!((session.same_machine, session.negative, session.delivered), (Some(true), 1, 2));
    assert_eq!((session.delays.n(), session.delays.delays().sum_ns()), (1, 30));
}

#[test]
fn jitter_is_that_of_rfc_3550() {
    // Transit times of 5, 15, 5 and 5 us by clocks that are a day apart.
    let day = 86_400 * SECOND;
    let report = received(1, |sessions| {
        for (number, transit) in (0..).zip([5_000, 15_000, 5_000, 5_000]) {
            let sent = day + u64::from(number) * 20_000;
            sessions.count(&probe(Kind::Message, 1, number, sent, 1), 40, peer(1), sent - day + transit);
        }
    });
    let expected = [10_000.0, 10_000.0, 0.0].iter().fold(0.0, |jitter, change| jitter + (change - jitter) / 16.0);
    let jitter = report.main_session().unwrap().jitter_ns;
    assert!((jitter - expected).abs() < 1e-6, "{jitter} {expected}");
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[test]
fn intervals_tell_what_came_in_each() {
    let (to, reported) = mpsc::channel();
    received(10, |sessions| {
        sessions.tell(Duration::from_secs(1), to);
        let mut count = |sequence, sent, at| {
            sessions.tick(at);
            sessions.count(&probe(Kind::Message, 1, sequence, sent, 1), 40, peer(1), at);
            // Whole ones from the first message on.
            assert_eq!(sessions.tick(at), Some(300 + ((at - 300) / SECOND + 1) * SECOND));
        };
        count(0, 100, 300);
        count(3, 200, 300);
        count(3, 200, 300);
        // One of those that were missing, in an interval of its own; then none for two, and a last one.
        count(1, 250, SECOND + 350);
        count(4, 4 * SECOND + 300, 4 * SECOND + 307);
    });
    let reported: Vec<Interval> = reported.iter().collect();
    let counts: Vec<_> =
        reported.iter().map(|i| (ns(i.start_s), ns(i.end_s), i.received, i.lost, i.duplicated, i.reordered)).collect();
    let fourth = 4 * SECOND;
    assert_eq!(counts, [(0, SECOND, 2, 2, 1, 0), (SECOND, fourth, 1, -1, 0, 1), (fourth, fourth + 7, 1, 0, 0, 0)]);
    assert_eq!(
        (reported[0].delay_mean_us, reported[0].delay_max_us, reported[2].delay_max_us),
        (Some(0.15), Some(0.2), Some(0.007))
    );
    assert!(reported[0].jitter_us.is_some());
}

#[test]
fn what_comes_at_one_time_is_told_as_an_interval() {
    let (to, reported) = mpsc::channel();
    received(10, |sessions| {
        sessions.tell(Duration::from_secs(1), to);
        assert_eq!(sessions.tick(2 * SECOND), None);
        sessions.count(&probe(Kind::Message, 1, 0, 1, 1), 40, peer(1), 2 * SECOND + 7);
    });
    let reported: Vec<_> = reported.iter().map(|i: Interval| (ns(i.start_s), ns(i.end_s), i.received)).collect();
    assert_eq!(reported, [(0, SECOND, 1)]);
}

#[test]
fn an_end_that_what_came_contradicts_is_none() {
    for (forged, incarnation) in [(50, 0), (129, 0), (130, 0), (100_000, 0), (50, 4)] {
        let report = received(10, |sessions| {
            let mut count = |kind, sequence: u32, sent| {
                sessions.count(&probe(kind, 7, sequence, sent, incarnation), 32, peer(1), sent + 5);
            };
            (0..130).for_each(|number| count(Kind::Message, number, 1000 + u64::from(number)));
            count(Kind::End, forged, 1130);
            (130..200).for_each(|number| count(Kind::Message, number, 1010 + u64::from(number)));
            count(Kind::End, 200, 2000);
            // It has come as it was announced: nobody makes it incomplete afterwards.
            count(Kind::End, 100_000, 3000);
        });
        let reported: Vec<_> =
            report.sessions.iter().map(|s| (s.announced, s.delivered, s.announcements, s.contradicted)).collect();
        assert_eq!(reported, [(Some(200), 200, 1, 2)], "{forged}");
    }
}

#[test]
fn a_source_port_that_changes_loses_nothing() {
    let report = received(10, |sessions| {
        for number in 0..4000 {
            let from = peer(if number < 2000 { 1 } else { 2 });
            sessions.count(&probe(Kind::Message, 7, number, SECOND, 9), 40, from, SECOND);
        }
        sessions.count(&probe(Kind::End, 7, 4000, SECOND, 9), 40, peer(2), SECOND);
    });
    let [session] = &report.sessions[..] else { panic!("{:?}", report.sessions) };
    assert_eq!((session.delivered, session.announced, session.peer), (4000, Some(4000), peer(2)));
    // Short messages carry no incarnation: another address is another session.
    let report = received(10, |sessions| {
        (1..3).for_each(|from| sessions.count(&probe(Kind::Message, 7, from, SECOND, 0), 32, peer(from), SECOND));
    });
    assert_eq!(report.sessions.len(), 2);
}

#[test]
fn who_was_heard_least_lately_gives_way_and_stays_in_the_sum() {
    let report = received(3, |sessions| {
        let mut count = |kind, sender: u32, number, second: u64| {
            let at = second * SECOND;
            sessions.count(&probe(kind, 1, number, at, sender), 40, peer(sender), at);
        };
        (1..4).for_each(|sender| count(Kind::Message, sender, 0, 1));
        count(Kind::End, 2, 1, 2);
        count(Kind::Message, 1, 1, 3);
        count(Kind::Message, 3, 1, 4);
        // 2 gives way to 4, then 1 to 5.
        count(Kind::Message, 4, 0, 5);
        count(Kind::Message, 5, 0, 6);
        assert!(!sessions.all_announced());
    });
    let left: Vec<u32> = report.sessions.iter().map(|session| session.incarnation).collect();
    assert_eq!((left, report.evicted, report.evicted_messages, report.evicted_total.open), (vec![3, 4, 5], 2, 3, 1));
    let total = report.total();
    assert_eq!((total.sessions, total.received, total.sent_at_least, total.open), (5, 7, 7, 4));
}

/// Senders that take turns in too few places: nothing is lost, and each is counted once.
#[test]
fn one_that_gave_way_and_comes_back_has_lost_nothing() {
    for (max, senders) in [(1, 2), (3, 10), (10, 11)] {
        let (to, reported) = mpsc::channel();
        let report = received(max, |sessions| {
            sessions.tell(Duration::from_secs(1), to);
            let mut count = |kind, sender, number: u32| {
                let at = SECOND + u64::from(number);
                sessions.count(&probe(kind, 1, number, at, sender), 40, peer(sender), at);
            };
            for number in 0..100 {
                (1..=senders).for_each(|sender| count(Kind::Message, sender, number));
            }
            (1..=senders).for_each(|sender| count(Kind::End, sender, 100));
        });
        let (total, all) = (report.total(), u64::from(senders) * 100);
        assert_eq!((total.sessions, total.received, total.lost), (u64::from(senders), all, 0), "{max}");
        assert_eq!((total.sent_at_least, reported.iter().map(|interval| interval.lost).sum::<i64>()), (all, 0));
        let losses: Vec<_> = report.sessions.iter().map(|session| crate::Account::new(session).lost).collect();
        assert!(losses.contains(&None) && losses.iter().flatten().all(|&lost| lost == 0), "{losses:?}");
        assert!(total.open > 0);
    }
}

/// Each forged source takes a place, and none that is heard in between loses its own.
#[test]
fn whoever_is_heard_among_forged_sources_keeps_its_place() {
    let report = received(256, |sessions| {
        for tick in 0..20_000_u32 {
            let at = SECOND + u64::from(tick);
            sessions.count(&probe(Kind::Message, 1, tick, at, 1), 40, peer(1), at);
            sessions.count(&probe(Kind::Message, 3, 77, at, 2 + tick), 40, peer(1000 + tick), at);
        }
    });
    assert_eq!((report.sessions[0].delivered, report.sessions.len()), (20_000, 256));
    assert_eq!((report.evicted, report.evicted_messages), (20_001 - 256, 20_001 - 256));
}

#[test]
fn an_announced_end_alone_is_no_session() {
    let report = received(10, |sessions| {
        for claimed in [0, 1, u32::MAX] {
            sessions.count(&probe(Kind::End, 3, claimed, SECOND, 7), 40, peer(50), SECOND);
        }
        assert_eq!((sessions.last_arrival(), sessions.over_since(1, true)), (None, None));
        let mut count = |kind, sequence, at| sessions.count(&probe(kind, 3, sequence, at, 7), 40, peer(51), at);
        count(Kind::Message, 0, 2 * SECOND);
        count(Kind::End, 1, 3 * SECOND);
        assert_eq!((sessions.over_since(1, false), sessions.over_since(2, false)), (Some(3 * SECOND), None));
        // Another one, whose end was not announced, is over only if its connection is closed.
        sessions.count(&probe(Kind::Message, 4, 0, 3 * SECOND, 5), 40, peer(60), 3 * SECOND);
        assert_eq!((sessions.over_since(1, false), sessions.over_since(2, true)), (None, Some(3 * SECOND)));
    });
    let total = report.total();
    assert_eq!((report.ends_alone, report.foreign), (3, 0));
    assert_eq!((total.sessions, total.sent_at_least, total.received, total.lost), (2, 2, 2, 0));
}

#[test]
fn a_flow_the_other_way_counts_as_a_session_and_what_ends_it_as_a_message() {
    let other = std::sync::Arc::new(OtherWay::default());
    let exchange = Exchange::new(Duration::ZERO).unwrap();
    let settings = ReceiverSettings::new(peer(0));
    let sessions = Sessions::new(&settings, &exchange).beside(other.clone());
    other.touch(5);
    assert_eq!((sessions.last_arrival(), sessions.over_since(1, false)), (Some(5), None));
    other.begin();
    assert!(sessions.other_way().is_some_and(OtherWay::is_open));
    other.end(50);
    assert_eq!((sessions.other_way().is_some_and(OtherWay::is_open), sessions.over_since(1, false)), (false, Some(50)));
}

#[test]
fn only_the_networks_that_are_given_have_sessions() {
    let exchange = Exchange::new(Duration::ZERO).unwrap();
    let from = vec!["10.0.0.0/30".parse().unwrap()];
    let settings = ReceiverSettings { from, ..ReceiverSettings::new(peer(0)) };
    let mut sessions = Sessions::new(&settings, &exchange);
    for (number, from) in [(0, "[::ffff:10.0.0.2]:5"), (1, "10.0.0.4:5"), (2, "10.0.0.3:5")] {
        sessions.count(&probe(Kind::Message, 1, 0, SECOND, 1 + number), 40, from.parse().unwrap(), SECOND);
    }
    let report = sessions.into_report();
    assert_eq!((report.sessions.len(), report.foreign), (2, 1));
}
