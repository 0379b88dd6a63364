//! What happened: a bounded ring of records with growing numbers, whose readers are woken at once.
//!
//! Threshold crossings and completed flows are both kept so. A worker pushes; whoever waits for a number that is not there
//! yet sleeps on a [`tokio::sync::watch`], not on the ring's lock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
pub use weir_flows::events::{Crossings, Dropped, Event, Short, short};

impl Crossings for Log<Event> {
    fn crossed(&self, event: Event) {
        self.push(|id| Event { id, ..event });
    }
}

/// The newest records, as many as were stated; older ones are gone, and counted.
#[derive(Debug)]
pub struct Log<T> {
    ring: Mutex<Ring<T>>,
    /// The newest record's number.
    newest: watch::Sender<u64>,
    limit: usize,
}

#[derive(Debug)]
struct Ring<T> {
    records: VecDeque<Arc<T>>,
    last: u64,
    evicted: u64,
}

impl<T> Ring<T> {
    /// Those with a greater number, which grows by one a record.
    fn behind(&self, number: u64) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        let newer = usize::try_from(self.last.saturating_sub(number)).unwrap_or(usize::MAX);
        self.records.range(self.records.len().saturating_sub(newer)..)
    }
}

/// Events kept by a [`Log`] of them, unless told.
pub const EVENTS: usize = 10_000;

impl<T> Log<T> {
    /// An empty one that keeps so many records, one at least.
    pub fn new(limit: usize) -> Self {
        let ring = Ring { records: VecDeque::new(), last: 0, evicted: 0 };
        Self { ring: Mutex::new(ring), newest: watch::Sender::new(0), limit: limit.max(1) }
    }

    /// Adds the record that `make` makes of its number, and wakes who waits for one.
    pub fn push(&self, make: impl FnOnce(u64) -> T) -> u64 {
        let mut ring = self.lock();
        let id = ring.last + 1;
        let record = Arc::new(make(id));
        ring.last = id;
        if ring.records.len() == self.limit {
            ring.records.pop_front();
            ring.evicted += 1;
        }
        ring.records.push_back(record);
        // Within the lock, so that numbers are never told out of order.
        self.newest.send_replace(id);
        id
    }

    /// The newest records after a number for which `wanted` holds, newest first, at most so many.
    pub fn after(&self, number: u64, most: usize, mut wanted: impl FnMut(&T) -> bool) -> Vec<Arc<T>> {
        let ring = self.lock();
        ring.behind(number).rev().filter(|record| wanted(record)).take(most).cloned().collect()
    }

    /// As [`Log::after`], oldest first: what a reader that must miss nothing takes.
    pub fn next(&self, number: u64, most: usize, mut wanted: impl FnMut(&T) -> bool) -> Vec<Arc<T>> {
        let ring = self.lock();
        ring.behind(number).filter(|record| wanted(record)).take(most).cloned().collect()
    }

    /// Waits until there are records after a number for which `wanted` holds, not longer than `patience`, and returns them
    /// as [`Log::after`]; none when the time is over.
    pub async fn wait(
        &self,
        number: u64,
        most: usize,
        patience: Duration,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Vec<Arc<T>> {
        let deadline = Instant::now() + patience;
        let mut news = self.newest.subscribe();
        loop {
            // Seen before the ring is read: what comes in between wakes at once.
            news.borrow_and_update();
            let records = self.after(number, most, &mut wanted);
            if !records.is_empty() || !matches!(timeout_at(deadline, news.changed()).await, Ok(Ok(()))) {
                return records;
            }
        }
    }

    /// The newest record's number, which wakes whoever awaits its change.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// How many records were pushed out by newer ones.
    pub fn evicted(&self) -> u64 {
        self.lock().evicted
    }

    /// A panic of another thread leaves the ring whole: each of its changes is one push or pop.
    fn lock(&self) -> MutexGuard<'_, Ring<T>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Record(u64);

    fn numbers(records: &[Arc<Record>]) -> Vec<u64> {
        records.iter().map(|record| record.0).collect()
    }

    #[test]
    fn old_records_are_pushed_out_and_counted() {
        let log = Log::new(3);
        for id in 1..=5 {
            assert_eq!(log.push(Record), id);
        }
        assert_eq!(numbers(&log.after(0, 10, |_| true)), [5, 4, 3]);
        assert_eq!(numbers(&log.next(0, 10, |_| true)), [3, 4, 5]);
        assert_eq!(numbers(&log.after(0, 2, |_| true)), [5, 4]);
        assert_eq!(numbers(&log.next(3, 1, |_| true)), [4]);
        assert_eq!(numbers(&log.after(0, 10, |record| record.0 % 2 == 0)), [4]);
        assert!(log.after(5, 10, |_| true).is_empty() && log.next(9, 10, |_| true).is_empty());
        assert_eq!(log.evicted(), 2);
    }

    proptest! {
        /// Both orders show the same records, and a reader that goes on from its last number misses none that are kept.
        #[test]
        fn readers_see_each_kept_record_once(limit in 1..20_usize, pushed in 0..60_u64, step in 1..7_usize) {
            let log = Log::new(limit);
            for _ in 0..pushed {
                log.push(Record);
            }
            let mut newest_first = numbers(&log.after(0, usize::MAX, |_| true));
            newest_first.reverse();
            let mut read = Vec::new();
            loop {
                let more = numbers(&log.next(read.last().copied().unwrap_or(0), step, |_| true));
                if more.is_empty() {
                    break;
                }
                read.extend(more);
            }
            let kept: Vec<u64> = (pushed.saturating_sub(limit as u64) + 1..=pushed).collect();
            prop_assert_eq!(&read, &kept);
            prop_assert_eq!(newest_first, kept);
            prop_assert_eq!(log.evicted() + log.after(0, usize::MAX, |_| true).len() as u64, pushed);
        }
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_the_record_it_wants() {
        let log = Arc::new(Log::new(8));
        log.push(Record);
        // What is there already needs no waiting, and no patience.
        assert_eq!(numbers(&log.wait(0, 8, Duration::ZERO, |_| true).await), [1]);
        assert!(log.wait(1, 8, Duration::ZERO, |_| true).await.is_empty());
        let pusher = thread::spawn({
            let log = log.clone();
            move || (0..3).for_each(|_| assert!(log.push(Record) > 1))
        });
        // Record 2 may wake it as well, and is not what it waits for.
        assert_eq!(numbers(&log.wait(1, 8, Duration::from_secs(1000), |record| record.0 == 4).await), [4]);
        pusher.join().unwrap();
    }
}
