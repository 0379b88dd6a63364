//! What reads along.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_dgram::Steering;

use super::fixture::*;
use crate::counters::Counter;
use crate::plan::Plan;
use crate::sockets::Sockets;
use crate::worker::{Tap, Tapped, Workers};

/// Counts what it reads, and how much of that is another's.
struct Counting {
    worker: u32,
    seen: Arc<[(Counter, Counter)]>,
}

const STEERING: Steering = Steering { selector: 0, layouts: &[(7, &[4])] };

impl Tap for Counting {
    fn read(&mut self, batch: Tapped<'_>) {
        let (seen, strange) = &self.seen[self.worker as usize];
        for message in batch.messages() {
            assert!(message.segment.is_none(), "a run");
            seen.add(1);
            strange.add(u64::from(STEERING.choose(message.bytes, 3) != self.worker));
        }
    }
}

/// Three workers, one sender with one port, a destination that takes nothing: each tap sees its share, and what taps and
/// listeners count agrees at every moment.
#[test]
fn taps_see_all_of_it_once_and_wait_for_no_destination() {
    let nobody = closed_port();
    let mut settings = settings(&[nobody.local_addr().unwrap()]);
    (settings.workers, settings.steering) = (3, Some(STEERING));
    let plan = Plan::build(Arc::new(settings), &Default::default(), None);
    let sockets = Sockets::open(&plan, Vec::new(), None).unwrap();
    let seen: Arc<[(Counter, Counter)]> = (0..3).map(|_| Default::default()).collect();
    let taps = (0..3).map(|worker| Box::new(Counting { worker, seen: seen.clone() }) as Box<dyn Tap>);
    let workers = Workers::start_tapped(plan, sockets, taps.collect()).unwrap();

    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = address(&workers, 0);
    let agreed = || {
        let seen = seen.clone();
        let both = workers
            .agreed(move |plan, worker| (plan.listeners[0].book.copy(worker).received.datagrams, seen[worker].0.get()));
        assert!(both.iter().all(|(received, seen)| received == seen), "{both:?}");
        both.iter().map(|(received, _)| *received).collect::<Vec<_>>()
    };
    for key in 0..3000_u32 {
        let payload = [7_u32.to_be_bytes(), key.to_be_bytes()].concat();
        sender.send_to(&payload, to).unwrap();
        if key % 100 == 0 {
            agreed();
        }
    }
    let until = Instant::now() + Duration::from_secs(30);
    while agreed().iter().sum::<u64>() < 3000 {
        assert!(Instant::now() < until, "{:?}", agreed());
        std::thread::yield_now();
    }
    assert!(agreed().iter().all(|&share| share > 500), "{:?}", agreed());
    assert!(seen.iter().all(|(_, strange)| strange.get() == 0), "{seen:?}");
    workers.stop(Duration::ZERO);
}
