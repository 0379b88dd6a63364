//! Sessions by the thousand, at invented times.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::time::Duration;

use weir_program::clock;
use weir_wire::probe::{Extension, Kind, Probe};

use super::Sessions;
use crate::{Exchange, Interval, Machine, ReceiveReport, ReceiverSettings, Transport};

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
fn received(most: usize, count: impl FnOnce(&mut Sessions<'_>)) -> ReceiveReport {
    let exchange = Exchange::new(Duration::ZERO).unwrap();
    let settings = ReceiverSettings { sessions: NonZeroUsize::new(most).unwrap(), ..ReceiverSettings::new(peer(0)) };
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
        let told: Vec<_> =
            report.sessions.iter().map(|s| (s.announced, s.delivered, s.incarnation, s.duplicates)).collect();
        let late = u64::from(first > 0);
        assert_eq!(told, [(Some(250), 250, first, late), (Some(63), 63, second, 0)]);
    }
}

#[test]
fn forged_senders_lock_nobody_out() {
    let report = received(256, |sessions| {
        // Two that send all the time, among ever new ones of a message each.
        for tick in 0..20_000_u64 {
            let at = SECOND + tick * 1_000_000;
            for genuine in [1, 2] {
                sessions.count(&probe(Kind::Message, genuine, tick as u32, at, 9), 40, peer(genuine.into()), at);
            }
            sessions.count(&probe(Kind::Message, 3, 77, at, 1 + tick as u32), 40, peer(1000 + tick as u32), at);
        }
        // One that comes when the list is full, and whose neighbours have fallen silent since.
        let at = 23 * SECOND;
        (0..100).for_each(|n| sessions.count(&probe(Kind::Message, 4, n, at, 5), 40, peer(4), at + u64::from(n)));
        sessions.count(&probe(Kind::End, 4, 100, at, 5), 40, peer(4), at + 100);
    });
    let of = |session: u16| report.sessions.iter().find(|s| s.session == session && s.delivered > 1).unwrap();
    assert_eq!((of(1).delivered, of(2).delivered, of(4).delivered), (20_000, 20_000, 100));
    assert_eq!(report.sessions.len(), 256);
    // Every message is in exactly one of the counts.
    let listed: u64 = report.sessions.iter().map(|s| s.delivered + s.announcements).sum();
    assert_eq!(listed + report.evicted_messages + report.unlisted, 60_101);
    assert!(report.evicted > 4000 && report.evicted_open == report.evicted, "{}", report.evicted);
}

#[test]
fn what_has_been_silent_for_long_gives_way_too() {
    let report = received(4, |sessions| {
        for sender in 0..4 {
            for number in 0..100 {
                let at = SECOND * u64::from(1 + sender);
                sessions.count(&probe(Kind::Message, 1, number, at, 1), 40, peer(sender), at);
            }
        }
        let mut another =
            |sender: u32, at: u64| sessions.count(&probe(Kind::Message, 1, 0, at, 1), 40, peer(sender), at);
        another(10, 60 * SECOND);
        another(11, 62 * SECOND);
    });
    // At 60 s none had been silent for a minute, at 62 s the first had.
    assert_eq!((report.unlisted, report.evicted, report.evicted_messages), (1, 1, 100));
    assert!(report.sessions.iter().all(|session| session.peer != peer(0)));
}

#[test]
fn ends_when_all_have_announced_and_nothing_comes_any_more() {
    received(2, |sessions| {
        let (grace, idle) = (SECOND, Some(10 * SECOND));
        let count = |sessions: &mut Sessions<'_>, kind, session, sequence, at| {
            sessions.count(&probe(kind, session, sequence, at, 1), 40, peer(1), at);
        };
        assert_eq!(sessions.end(grace, idle, 0), None);
        count(sessions, Kind::Message, 1, 0, SECOND);
        assert_eq!(sessions.end(grace, None, 2 * SECOND), None);
        // Silent for the idle time, it holds nobody up.
        assert_eq!(sessions.end(grace, idle, 2 * SECOND), Some(11 * SECOND));
        count(sessions, Kind::End, 1, 1, 2 * SECOND);
        assert_eq!(sessions.end(grace, idle, 2 * SECOND), Some(2 * SECOND));
        assert!(sessions.all_announced());
        let tenth = SECOND / 10;
        count(sessions, Kind::Message, 2, 1, 22 * tenth);
        assert!(!sessions.all_announced());
        // It is looked at again when the first would have been silent for so long; it has said one thing, late.
        assert_eq!(sessions.end(grace, idle, 22 * tenth), Some(110 * tenth));
        assert_eq!(sessions.end(grace, idle, 110 * tenth), Some(120 * tenth));
        count(sessions, Kind::End, 2, 2, 24 * tenth);
        // One is missing, which may yet come.
        assert_eq!(sessions.end(grace, idle, 24 * tenth), Some(34 * tenth));
        // A third finds no room: it is not known when it will end, but it sends.
        count(sessions, Kind::Message, 3, 0, 25 * tenth);
        assert_eq!(sessions.end(grace, idle, 25 * tenth), Some(35 * tenth));
    });
}

#[test]
fn a_delay_below_zero_is_told_and_not_taken_for_none() {
    let report = received(1, |sessions| {
        sessions.count(&probe(Kind::Message, 1, 0, 100, 1), 40, peer(1), 50);
        sessions.count(&probe(Kind::Message, 1, 1, 100, 1), 40, peer(1), 130);
    });
    let session = report.main_session().unwrap();
    assert_eq!((session.machine, session.negative, session.delivered), (Machine::Same, 1, 2));
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

#[test]
fn intervals_tell_what_came_in_each() {
    let (to, told) = mpsc::channel();
    received(10, |sessions| {
        sessions.tell(Duration::from_secs(1), 0, to);
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
    let told: Vec<Interval> = told.iter().collect();
    let counts: Vec<_> = told.iter().map(|i| (i.start, i.end, i.received, i.lost, i.duplicated, i.reordered)).collect();
    let (second, fifth) = (SECOND + 300, 4 * SECOND + 300);
    assert_eq!(counts, [(300, second, 2, 2, 1, 0), (second, fifth, 1, -1, 0, 1), (fifth, fifth + 7, 1, 0, 0, 0)]);
    assert_eq!((told[0].delay_mean_ns, told[0].delay_max_ns, told[2].delay_max_ns), (Some(150.0), Some(200), Some(7)));
    assert!(told[0].jitter_ns.is_some());
}

#[test]
fn what_comes_at_one_time_is_told_as_an_interval() {
    let (to, told) = mpsc::channel();
    received(10, |sessions| {
        sessions.tell(Duration::from_secs(1), 0, to);
        sessions.tick(2 * SECOND);
        sessions.count(&probe(Kind::Message, 1, 0, 1, 1), 40, peer(1), 2 * SECOND + 7);
    });
    let told: Vec<_> = told.iter().map(|i: Interval| (i.start, i.end, i.received)).collect();
    assert_eq!(told, [(0, 2 * SECOND, 0), (2 * SECOND + 7, 3 * SECOND + 7, 1)]);
}

#[test]
fn a_forged_end_of_nothing_ends_nothing() {
    let report = received(10, |sessions| {
        let (grace, idle) = (SECOND, Some(10 * SECOND));
        for forged in 0..5 {
            sessions.count(&probe(Kind::End, 3, 0, SECOND, 77), 40, peer(50 + forged), SECOND);
        }
        assert_eq!((sessions.seen(), sessions.last_arrival()), (0, None));
        assert_eq!(sessions.end(grace, idle, 2 * SECOND), None);
        // Nor does it put off the end of a sender.
        sessions.count(&probe(Kind::Message, 1, 0, 3 * SECOND, 1), 40, peer(1), 3 * SECOND);
        sessions.count(&probe(Kind::End, 1, 1, 4 * SECOND, 1), 40, peer(1), 4 * SECOND);
        sessions.count(&probe(Kind::End, 3, 0, 5 * SECOND, 77), 40, peer(60), 5 * SECOND);
        assert_eq!((sessions.seen(), sessions.end(grace, idle, 5 * SECOND)), (1, Some(4 * SECOND)));
    });
    assert_eq!(report.total().delivered, 1);
}

/// Nor does one that claims messages of which none came, over any transport; with the first of them it is one.
#[test]
fn an_end_alone_ends_nothing() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let exchange = Exchange::new(Duration::ZERO).unwrap();
        let settings = ReceiverSettings { transport, ..ReceiverSettings::new(peer(0)) };
        let mut sessions = Sessions::new(&settings, &exchange);
        let (grace, idle) = (SECOND, Some(10 * SECOND));
        for claimed in [1, 100] {
            sessions.count(&probe(Kind::End, 3, claimed, SECOND, 77), 40, peer(50 + claimed), SECOND);
        }
        assert_eq!((sessions.seen(), sessions.last_arrival()), (0, None), "{transport}");
        assert_eq!(sessions.end(grace, idle, 30 * SECOND), None);
        // One that was overtaken by its end.
        sessions.count(&probe(Kind::Message, 3, 0, SECOND - 1, 77), 40, peer(51), 2 * SECOND);
        assert_eq!((sessions.seen(), sessions.end(grace, idle, 3 * SECOND)), (1, Some(2 * SECOND)));
        assert!(sessions.all_announced());
        let report = sessions.into_report();
        let told: Vec<_> = report.sessions.iter().map(|s| (s.announced, s.delivered)).collect();
        assert_eq!(told, [(Some(1), 1), (Some(100), 0)]);
    }
}

#[test]
fn strangers_do_not_put_the_end_off_for_ever() {
    for (each, bound) in [(1, 10), (3, 60)] {
        received(1000, |sessions| {
            let (grace, idle) = (SECOND, Some(10 * SECOND));
            (0..20).for_each(|n| sessions.count(&probe(Kind::Message, 1, n, SECOND, 1), 40, peer(1), SECOND));
            sessions.count(&probe(Kind::End, 1, 20, 2 * SECOND, 1), 40, peer(1), 2 * SECOND);
            let ended = (3_u64..200).find(|&second| {
                let at = second * SECOND;
                for number in (0..each).filter(|_| second % 3 == 0) {
                    let stranger = peer(100 + second as u32);
                    sessions.count(&probe(Kind::Message, 9, number, at, second as u32), 40, stranger, at);
                }
                sessions.end(grace, idle, at).is_some_and(|end| at >= end)
            });
            assert!(ended.is_some_and(|second| second >= 12 && second <= 2 + bound), "{each}: {ended:?}");
        });
    }
    // Another sender is waited for as ever.
    received(1000, |sessions| {
        sessions.count(&probe(Kind::Message, 1, 0, SECOND, 1), 40, peer(1), SECOND);
        sessions.count(&probe(Kind::End, 1, 1, 2 * SECOND, 1), 40, peer(1), 2 * SECOND);
        for second in 3..200 {
            let at = u64::from(second) * SECOND;
            sessions.count(&probe(Kind::Message, 2, second - 3, at, 2), 40, peer(2), at);
            assert!(sessions.end(SECOND, Some(10 * SECOND), at).is_some_and(|end| at < end), "{second}");
        }
    });
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
        let told: Vec<_> =
            report.sessions.iter().map(|s| (s.announced, s.delivered, s.announcements, s.contradicted)).collect();
        assert_eq!(told, [(Some(200), 200, 1, 2)], "{forged}");
    }
}

#[test]
fn short_messages_are_over_when_nothing_follows_their_end() {
    received(10, |sessions| {
        sessions.count(&probe(Kind::Message, 7, 0, SECOND, 0), 32, peer(1), SECOND);
        sessions.count(&probe(Kind::End, 7, 1, 2 * SECOND, 0), 40, peer(1), 2 * SECOND);
        assert_eq!(sessions.end(SECOND, None, 2 * SECOND), Some(3 * SECOND));
    });
}

#[test]
fn what_has_ended_gives_way_and_stays_in_the_sum() {
    let report = received(20, |sessions| {
        // One behind the other, 20 messages and 5 announcements each, for 200 ms each.
        for sender in 0..60_u32 {
            let at = SECOND + u64::from(sender) * SECOND / 5;
            for number in 0..20 {
                sessions.count(&probe(Kind::Message, 1, number, at, 1 + sender), 40, peer(sender), at);
            }
            let ended = at + SECOND / 10;
            for _ in 0..5 {
                sessions.count(&probe(Kind::End, 1, 20, ended, 1 + sender), 40, peer(sender), ended);
            }
        }
        assert!(sessions.all_announced());
    });
    let total = report.total();
    assert_eq!((report.unlisted, report.unlisted_announcements, report.evicted_open), (0, 0, 0));
    assert_eq!((report.sessions.len(), report.evicted, total.sessions), (20, 40, 60));
    assert_eq!((total.sent_at_least, total.delivered, total.lost, total.open), (1200, 1200, 0, 0));
}

/// Whether it stays in the list or gives way.
#[test]
fn an_end_alone_is_in_no_sum() {
    for most in [1, 10] {
        let report = received(most, |sessions| {
            sessions.count(&probe(Kind::End, 9, u32::MAX, SECOND, 3), 40, peer(9), SECOND);
            (0..20).for_each(|n| sessions.count(&probe(Kind::Message, 1, n, 3 * SECOND, 1), 40, peer(1), 3 * SECOND));
            sessions.count(&probe(Kind::End, 1, 20, 3 * SECOND, 1), 40, peer(1), 3 * SECOND);
        });
        let total = report.total();
        assert_eq!(report.evicted, u64::from(most == 1));
        assert_eq!((total.sessions, total.sent_at_least, total.delivered, total.lost), (1, 20, 20, 0));
        assert_eq!((total.ends_alone, total.ends_alone_messages), (1, u64::from(u32::MAX)));
    }
}

#[test]
fn what_finds_no_place_is_counted_without_its_announcements() {
    let report = received(1, |sessions| {
        for sender in 0..2 {
            (0..20).for_each(|n| sessions.count(&probe(Kind::Message, 1, n, SECOND, 1), 40, peer(sender), SECOND));
            (0..5).for_each(|_| sessions.count(&probe(Kind::End, 1, 20, SECOND, 1), 40, peer(sender), SECOND));
        }
    });
    assert_eq!((report.unlisted, report.unlisted_announcements, report.evicted), (20, 5, 0));
}

#[test]
fn a_request_that_was_refused_starts_the_idle_time_until_one_is_granted() {
    received(1, |sessions| {
        sessions.refuse_reverse(5);
        assert_eq!(sessions.last_arrival(), Some(5));
        sessions.expect_reverse();
        assert_eq!(sessions.last_arrival(), None);
        // The idle time counts from the end of what was asked for.
        sessions.reverse_ended(50);
        assert_eq!(sessions.last_arrival(), Some(50));
    });
}

#[test]
fn numbers_that_no_sender_can_have_reached_count_as_contradicted() {
    let report = received(10, |sessions| {
        let mut count = |kind, sequence, at| {
            sessions.count(&probe(kind, 7, sequence, at, 0), 32, peer(1), at);
        };
        (0..300).for_each(|number| count(Kind::Message, number, SECOND + u64::from(number)));
        // 4 * 10^9 messages within 5 ms, an end of as many, and one behind that.
        count(Kind::Message, 4_000_000_000, SECOND + 5_000_000);
        count(Kind::End, 2_000_000_000, SECOND + 5_000_000);
        (300..600).for_each(|number| count(Kind::Message, number, SECOND + 6_000_000 + u64::from(number)));
        count(Kind::End, 600, 2 * SECOND);
        count(Kind::Message, 2_000_000_000, 2 * SECOND + 1);
    });
    let [session] = &report.sessions[..] else { panic!("{:?}", report.sessions) };
    assert_eq!((session.announced, session.delivered, session.sent_at_least()), (Some(600), 600, 600));
    assert!(session.contradicted > 0);
}
