//! What workers count, and its sum by value.
//!
//! Every worker has cells of its own, so that a count is a load and a store on a line that nobody else writes. Each term
//! of the account has a counter of its own; none is computed from the others. A worker marks the stretches in which its
//! cells disagree (a batch is taken but not yet sent); a reader takes its copy between them, so that an account closes
//! at any moment, not only at the end.

use std::array;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::ledger::{Count, DestinationCount, Drops, Ledger, ListenerCount, RuleCount};

/// All counts since the start, also of things that a reload removed.
#[derive(Debug)]
pub struct Books {
    start: Instant,
    phases: Box<[Phase]>,
    entries: Mutex<Entries>,
}

/// The counts of a listener.
#[derive(Debug)]
pub struct ListenerBook {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
    cells: Box<[ListenerCell]>,
}

/// The counts of a rule.
#[derive(Debug)]
pub struct RuleBook {
    /// Its name.
    pub name: String,
    cells: Box<[RuleCell]>,
}

/// The counts of one address of a destination.
#[derive(Debug)]
pub struct OutletBook {
    /// The destination's name.
    pub name: String,
    /// The address; `None`: the name did not resolve.
    pub address: Option<SocketAddr>,
    asked: Box<[AskedCell]>,
    carried: Box<[CarriedCell]>,
}

/// One number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// What a worker counts of a listener.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ListenerCell {
    /// Datagrams taken from the socket.
    pub received: Counter,
    /// Their payload bytes.
    pub received_bytes: Counter,
    /// Taken by at least one rule.
    pub matched: Counter,
    /// Taken by no rule.
    pub unmatched: Counter,
    /// Longer than the buffer.
    pub truncated: Counter,
    /// Dropped by the kernel at sockets that are closed by now.
    pub kernel_drops: Counter,
}

/// What a worker counts of a rule.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RuleCell {
    /// Datagrams that it took.
    pub matched: Counter,
    /// Their payload bytes.
    pub matched_bytes: Counter,
    /// Of them, those that it led nowhere.
    pub discarded: Counter,
    /// Copies that it asked for and no rule before it.
    pub copies: Counter,
}

/// What the receiving worker counts of an outlet.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct AskedCell {
    /// Copies asked for.
    pub copies: Counter,
    /// Their payload bytes.
    pub copies_bytes: Counter,
    /// Copies given to another worker to be sent.
    pub lent: Counter,
    /// Copies dropped before they came near the socket.
    pub drops: DropCounters,
}

/// What the worker that holds a lane counts of its outlet. It has one holder at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CarriedCell {
    /// Who counts here. The lower 16 bits: 0 is the worker whose lane it is, else the worker of this number, the first
    /// being 1. The others count the changes.
    hold: AtomicU64,
    /// Copies taken over from the worker that received them.
    pub taken: Counter,
    /// Datagrams that the kernel took.
    pub sent: Counter,
    /// Their payload bytes.
    pub sent_bytes: Counter,
    /// Datagrams that wait.
    pub queued: Counter,
    /// Bytes of memory that they take.
    pub queued_bytes: Counter,
    /// System calls that sent.
    pub calls: Counter,
    /// Datagrams that left in joined sends.
    pub joined: Counter,
    /// ICMP errors that came back.
    pub icmp_errors: Counter,
    /// Copies dropped at the socket.
    pub drops: DropCounters,
}

/// Why a copy was not sent; see [`Drops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is a field of Drops and explained there")]
pub enum Reason {
    QueueFull,
    SampledOut,
    RateLimited,
    TooLong,
    Unreachable,
    Refused,
    NoBuffers,
    OtherError,
    Unresolved,
    Family,
    Abandoned,
}

/// One counter a reason.
#[derive(Debug, Default)]
pub struct DropCounters([Counter; REASONS]);

/// Whether a worker's cells agree at the moment, and who wants to know.
#[derive(Default)]
#[repr(align(128))]
pub struct Phase {
    /// Odd: they don't.
    number: AtomicU64,
    /// Whether there is a job.
    asked: AtomicBool,
    /// What the worker is to do when its cells agree: copy them for somebody.
    job: Mutex<Option<Job>>,
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug, Default)]
struct Entries {
    listeners: Vec<Arc<ListenerBook>>,
    rules: Vec<Arc<RuleBook>>,
    outlets: Vec<Arc<OutletBook>>,
    /// What was removed so long ago that its name is forgotten.
    forgotten: Ledger,
}

impl Books {
    /// Empty books for so many workers.
    pub fn new(workers: usize) -> Self {
        Self { start: Instant::now(), phases: cells(workers), entries: Mutex::default() }
    }

    /// How many workers write.
    pub fn workers(&self) -> usize {
        self.phases.len()
    }

    /// The mark of one worker.
    pub fn phase(&self, worker: usize) -> &Phase {
        &self.phases[worker]
    }

    /// The book of a listener: the one there is, or a new one.
    pub fn listener(&self, name: &str, address: SocketAddr) -> Arc<ListenerBook> {
        find(
            &mut self.entries().listeners,
            |book| book.name == name && book.address == address,
            || ListenerBook { name: name.to_owned(), address, cells: cells(self.workers()) },
        )
    }

    /// The book of a rule.
    pub fn rule(&self, name: &str) -> Arc<RuleBook> {
        let make = || RuleBook { name: name.to_owned(), cells: cells(self.workers()) };
        find(&mut self.entries().rules, |book| book.name == name, make)
    }

    /// The book of a destination's address.
    pub fn outlet(&self, name: &str, address: Option<SocketAddr>) -> Arc<OutletBook> {
        find(
            &mut self.entries().outlets,
            |book| book.name == name && book.address == address,
            || OutletBook {
                name: name.to_owned(),
                address,
                asked: cells(self.workers()),
                carried: cells(self.workers()),
            },
        )
    }

    /// The account now. What only sockets and health know (buffers, `healthy`, `not_joined`, drops at open sockets) is
    /// left at its default.
    pub fn ledger(&self) -> Ledger {
        let mut entries = self.entries();
        entries.forget(self);
        let mut ledger = entries.forgotten.clone();
        let listeners = self.each(&entries.listeners, |book, worker| book.copy(worker));
        let rules = self.each(&entries.rules, |book, worker| book.copy(worker));
        ledger.listeners.extend(entries.listeners.iter().zip(listeners).map(|(book, counts)| book.sum(&counts)));
        ledger.rules.extend(entries.rules.iter().zip(rules).map(|(book, counts)| book.sum(&counts)));
        ledger.destinations.extend(self.destinations(&entries.outlets));
        ledger.elapsed_s = self.start.elapsed().as_secs_f64();
        ledger.close();
        ledger
    }

    /// Copies of books, by worker, each taken while that worker's cells agreed.
    fn each<B, T>(&self, books: &[Arc<B>], copy: fn(&B, usize) -> T) -> Vec<Vec<T>>
    where
        B: Send + Sync + 'static,
        T: Send + 'static,
    {
        let books: Arc<[Arc<B>]> = books.into();
        let mut copies: Vec<Vec<T>> = books.iter().map(|_| Vec::new()).collect();
        for (worker, phase) in self.phases.iter().enumerate() {
            let books = Arc::clone(&books);
            let all = phase.between(move || books.iter().map(|book| copy(book, worker)).collect::<Vec<T>>());
            copies.iter_mut().zip(all).for_each(|(copies, copy)| copies.push(copy));
        }
        copies
    }

    /// The sums of outlets. What one worker lends another has two writers: what the holder has taken is read before what
    /// was lent, so that nothing is on the way less than zero times, and anew if it has changed hands in between.
    fn destinations(&self, books: &[Arc<OutletBook>]) -> Vec<DestinationCount> {
        let start = Instant::now();
        loop {
            let lent = books.iter().any(|book| book.carried.iter().any(|cell| cell.holder().is_some()));
            let held = if lent { self.each(books, OutletBook::copy_held) } else { Vec::new() };
            let own = self.each(books, OutletBook::copy_own);
            let sums: Vec<_> = books
                .iter()
                .zip(&own)
                .enumerate()
                .map(|(at, (book, own))| book.sum(own, held.get(at).map_or(&[][..], Vec::as_slice)))
                .collect();
            if sums.iter().all(Option::is_some) || start.elapsed() > PATIENCE {
                let named = |(book, sum): (&Arc<OutletBook>, Option<_>)| sum.unwrap_or_else(|| book.empty());
                return books.iter().zip(sums).map(named).collect();
            }
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counter {
    /// Adds. Only the one writer may call this.
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// Takes away, from a count of what is there now. Only the one writer may call this.
    pub fn sub(&self, n: u64) {
        self.0.store(self.get().wrapping_sub(n), Ordering::Relaxed);
    }

    /// Says how much there is now. Only the one writer may call this.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl DropCounters {
    /// Counts so many datagrams dropped for this reason.
    pub fn add(&self, reason: Reason, datagrams: u64) {
        self.0[reason as usize].add(datagrams);
    }

    fn copy(&self) -> Drops {
        let [
            queue_full,
            sampled_out,
            rate_limited,
            too_long,
            unreachable,
            refused,
            no_buffers,
            other_error,
            unresolved,
            family,
            abandoned,
        ] = array::from_fn(|reason| self.0[reason].get());
        Drops {
            queue_full,
            sampled_out,
            rate_limited,
            too_long,
            unreachable,
            refused,
            no_buffers,
            other_error,
            unresolved,
            family,
            abandoned,
        }
    }
}

impl Phase {
    /// From here on the worker's cells disagree.
    pub fn begin(&self) {
        self.number.store(self.number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// From here on they agree again.
    pub fn end(&self) {
        self.number.store(self.number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        // A worker with much to do begins anew at once: whoever waits for a copy gets it made.
        if self.asked.load(Ordering::Relaxed) {
            let job = self.job().take();
            self.asked.store(false, Ordering::Relaxed);
            if let Some(job) = job {
                job();
            }
        }
    }

    /// A copy taken while they agreed: by the caller from a worker that rests, else by the worker.
    fn between<T: Send + 'static>(&self, copy: impl Fn() -> T + Send + Sync + 'static) -> T {
        let copy = Arc::new(copy);
        let start = Instant::now();
        loop {
            let before = self.number.load(Ordering::Acquire);
            // A worker that has ended or is stuck in the middle is not waited for.
            let stuck = start.elapsed() > PATIENCE;
            if before.is_multiple_of(2) || stuck {
                let value = copy();
                fence(Ordering::Acquire);
                if self.number.load(Ordering::Relaxed) == before || stuck {
                    return value;
                }
            }
            let (reply, answer) = mpsc::channel();
            let theirs = Arc::clone(&copy);
            *self.job() = Some(Box::new(move || drop(reply.send(theirs()))));
            self.asked.store(true, Ordering::Relaxed);
            // It may have gone to rest meanwhile.
            if let Ok(value) = answer.recv_timeout(REST) {
                return value;
            }
            self.job().take();
        }
    }

    fn job(&self) -> MutexGuard<'_, Option<Job>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phase").field("number", &self.number).finish_non_exhaustive()
    }
}

impl ListenerBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &ListenerCell {
        &self.cells[worker]
    }

    /// The sum, once nobody counts any more.
    fn total(&self, workers: usize) -> ListenerCount {
        self.sum(&(0..workers).map(|worker| self.copy(worker)).collect::<Vec<_>>())
    }

    fn sum(&self, counts: &[ListenerCount]) -> ListenerCount {
        let mut sum = ListenerCount {
            name: self.name.clone(),
            address: self.address.to_string(),
            kernel_drops: Some(0),
            ..ListenerCount::default()
        };
        counts.iter().for_each(|count| sum.absorb(count));
        sum
    }

    fn copy(&self, worker: usize) -> ListenerCount {
        let cell = &self.cells[worker];
        ListenerCount {
            received: Count { datagrams: cell.received.get(), bytes: cell.received_bytes.get() },
            matched: cell.matched.get(),
            unmatched: cell.unmatched.get(),
            truncated: cell.truncated.get(),
            kernel_drops: Some(cell.kernel_drops.get()),
            ..ListenerCount::default()
        }
    }
}

impl RuleBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &RuleCell {
        &self.cells[worker]
    }

    /// The sum, once nobody counts any more.
    fn total(&self, workers: usize) -> RuleCount {
        self.sum(&(0..workers).map(|worker| self.copy(worker)).collect::<Vec<_>>())
    }

    fn sum(&self, counts: &[RuleCount]) -> RuleCount {
        let mut sum = RuleCount { name: self.name.clone(), ..RuleCount::default() };
        counts.iter().for_each(|count| sum.absorb(count));
        sum
    }

    fn copy(&self, worker: usize) -> RuleCount {
        let cell = &self.cells[worker];
        RuleCount {
            name: String::new(),
            matched: Count { datagrams: cell.matched.get(), bytes: cell.matched_bytes.get() },
            discarded: cell.discarded.get(),
            copies: cell.copies.get(),
        }
    }
}

impl OutletBook {
    /// What this worker counts when it receives.
    pub fn asked(&self, worker: usize) -> &AskedCell {
        &self.asked[worker]
    }

    /// What the holder of this worker's lane counts.
    pub fn carried(&self, worker: usize) -> &CarriedCell {
        &self.carried[worker]
    }

    fn empty(&self) -> DestinationCount {
        DestinationCount { name: self.name.clone(), address: self.address, ..DestinationCount::default() }
    }

    /// What a worker counts of its own lane; the far part only if it holds that itself.
    fn copy_own(&self, worker: usize) -> OwnCopy {
        let carried = &self.carried[worker];
        let hold = carried.hold.load(Ordering::Acquire);
        OwnCopy { asked: self.asked[worker].copy(), carried: carried.copy(), hold }
    }

    /// What a worker counts of the lanes that it holds for others, and whose they are.
    fn copy_held(&self, worker: usize) -> Vec<HeldCopy> {
        let others = self.carried.iter().enumerate().filter(|(_, cell)| cell.holder() == Some(worker));
        others
            .map(|(owner, cell)| {
                let hold = cell.hold.load(Ordering::Acquire);
                HeldCopy { owner, carried: cell.copy(), hold }
            })
            .collect()
    }

    /// The sum, once nobody counts any more.
    fn total(&self, workers: usize) -> DestinationCount {
        let own: Vec<_> = (0..workers).map(|worker| self.copy_own(worker)).collect();
        self.sum(&own, &[]).unwrap_or_else(|| self.empty())
    }

    /// The sum; `None`: a lane has changed hands between the copies.
    fn sum(&self, own: &[OwnCopy], held: &[Vec<HeldCopy>]) -> Option<DestinationCount> {
        let mut sum = self.empty();
        let mut on_the_way = 0_u64;
        for (worker, own) in own.iter().enumerate() {
            let (carried, taken) = if holder_of(own.hold).is_none() {
                &own.carried
            } else {
                let is_this = |held: &&HeldCopy| held.owner == worker && held.hold == own.hold;
                &held.iter().flatten().find(is_this)?.carried
            };
            sum.absorb(&own.asked.0);
            sum.absorb(carried);
            on_the_way = on_the_way.wrapping_add(own.asked.1).wrapping_sub(*taken);
        }
        sum.queued = sum.queued.wrapping_add(on_the_way);
        Some(sum)
    }
}

/// What a worker counted of its own lane to an outlet: what was asked and how many were lent, what was carried and how
/// many were taken over.
struct OwnCopy {
    asked: (DestinationCount, u64),
    carried: (DestinationCount, u64),
    hold: u64,
}

/// What a worker counted of another's lane.
struct HeldCopy {
    owner: usize,
    carried: (DestinationCount, u64),
    hold: u64,
}

/// Who holds a lane, by the number in its cell.
fn holder_of(hold: u64) -> Option<usize> {
    (hold as u16).checked_sub(1).map(usize::from)
}

impl AskedCell {
    fn copy(&self) -> (DestinationCount, u64) {
        let count = DestinationCount {
            copies: Count { datagrams: self.copies.get(), bytes: self.copies_bytes.get() },
            drops: self.drops.copy(),
            ..DestinationCount::default()
        };
        (count, self.lent.get())
    }
}

impl CarriedCell {
    /// Says that another worker counts here from now on; `None`: the lane's own. Only who gives or takes it may call
    /// this.
    pub fn hold(&self, worker: Option<usize>) {
        // The upper bits count: a lane that went there and back again is another hold.
        let turns = self.hold.load(Ordering::Relaxed) >> 16;
        let worker = worker.map_or(0, |worker| worker as u64 + 1);
        self.hold.store((turns + 1) << 16 | worker, Ordering::Release);
    }

    fn holder(&self) -> Option<usize> {
        holder_of(self.hold.load(Ordering::Acquire))
    }

    fn copy(&self) -> (DestinationCount, u64) {
        let count = DestinationCount {
            sent: Count { datagrams: self.sent.get(), bytes: self.sent_bytes.get() },
            queued: self.queued.get(),
            queued_bytes: self.queued_bytes.get(),
            drops: self.drops.copy(),
            calls: self.calls.get(),
            joined: self.joined.get(),
            icmp_errors: self.icmp_errors.get(),
            ..DestinationCount::default()
        };
        (count, self.taken.get())
    }
}

impl Entries {
    /// Folds what nobody counts any more, beyond the newest few, into one entry of each kind: a tee that is reloaded
    /// every minute with other addresses must not grow for ever.
    fn forget(&mut self, books: &Books) {
        let workers = books.workers();
        // What never counted anything is no loss: a plan that could not be carried out leaves no trace.
        self.listeners.retain(|book| {
            Arc::strong_count(book) > 1 || {
                let count = book.total(workers);
                count.received.datagrams > 0 || count.kernel_drops != Some(0)
            }
        });
        self.rules.retain(|book| Arc::strong_count(book) > 1 || book.total(workers).matched.datagrams > 0);
        self.outlets.retain(|book| {
            Arc::strong_count(book) > 1 || {
                let count = book.total(workers);
                count.copies.datagrams > 0 || count.icmp_errors > 0
            }
        });
        for book in surplus(&mut self.listeners) {
            let count = ListenerCount { address: String::new(), ..book.total(workers) };
            fold(&mut self.forgotten.listeners, count, |all, name| all.name = name, ListenerCount::absorb);
        }
        for book in surplus(&mut self.rules) {
            fold(&mut self.forgotten.rules, book.total(workers), |all, name| all.name = name, RuleCount::absorb);
        }
        for book in surplus(&mut self.outlets) {
            let count = DestinationCount { address: None, ..book.total(workers) };
            fold(&mut self.forgotten.destinations, count, |all, name| all.name = name, DestinationCount::absorb);
        }
    }
}

/// Takes out the oldest of those that only the books still hold.
fn surplus<T>(books: &mut Vec<Arc<T>>) -> Vec<Arc<T>> {
    let removed = books.iter().filter(|book| Arc::strong_count(book) == 1).count();
    let mut surplus = removed.saturating_sub(REMEMBERED);
    books
        .extract_if(.., |book| {
            let out = surplus > 0 && Arc::strong_count(book) == 1;
            surplus -= usize::from(out);
            out
        })
        .collect()
}

fn fold<T>(into: &mut Vec<T>, count: T, rename: impl Fn(&mut T, String), absorb: impl Fn(&mut T, &T)) {
    match into.first_mut() {
        Some(all) => absorb(all, &count),
        None => {
            let mut count = count;
            rename(&mut count, FORGOTTEN.to_owned());
            into.push(count);
        }
    }
}

fn find<T>(books: &mut Vec<Arc<T>>, is: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Arc<T> {
    if let Some(book) = books.iter().find(|book| is(book)) {
        return Arc::clone(book);
    }
    let book = Arc::new(make());
    books.push(Arc::clone(&book));
    book
}

fn cells<T: Default>(workers: usize) -> Box<[T]> {
    (0..workers).map(|_| T::default()).collect()
}

/// As many as there are variants of [`Reason`].
const REASONS: usize = Reason::Abandoned as usize + 1;

/// The entry of the ledger that sums up what was removed long ago.
pub const FORGOTTEN: &str = "(removed)";

/// Removed things of one kind that keep an entry of their own.
const REMEMBERED: usize = 256;

/// Longest wait for a worker whose cells disagree.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest wait for a worker to make a copy before another look whether it rests.
const REST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_account_closes_at_any_moment() {
        let books = Books::new(2);
        let outlet = books.outlet("sink", None);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for worker in 0..2 {
                let (books, outlet, stop) = (&books, &outlet, &stop);
                scope.spawn(move || {
                    let (asked, carried) = (outlet.asked(worker), outlet.carried(worker));
                    while !stop.load(Ordering::Relaxed) {
                        books.phase(worker).begin();
                        asked.copies.add(3);
                        asked.drops.add(Reason::SampledOut, 1);
                        carried.sent.add(2);
                        books.phase(worker).end();
                        thread::yield_now();
                    }
                });
            }
            for _ in 0..2_000 {
                let ledger = books.ledger();
                assert!(ledger.closed, "{ledger:?}");
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_ne!(books.ledger().destinations[0].copies.datagrams, 0);
    }

    #[test]
    fn what_is_on_the_way_to_another_worker_is_queued() {
        let books = Books::new(2);
        let outlet = books.outlet("sink", None);
        outlet.asked(0).copies.add(10);
        outlet.asked(0).lent.add(10);
        outlet.carried(0).hold(Some(1));
        outlet.carried(0).taken.add(4);
        outlet.carried(0).sent.add(4);
        let count = &books.ledger().destinations[0];
        assert_eq!((count.queued, count.unexplained), (6, 0));
    }

    #[test]
    fn a_count_that_is_missing_shows() {
        let books = Books::new(1);
        books.outlet("sink", None).asked(0).copies.add(5);
        let ledger = books.ledger();
        assert!(!ledger.closed);
        assert_eq!(ledger.destinations[0].unexplained, 5);
    }

    #[test]
    fn what_was_removed_stays_in_the_totals() {
        let books = Books::new(1);
        for port in 0..1_000 {
            let outlet = books.outlet("sink", Some(SocketAddr::from(([127, 0, 0, 1], port))));
            outlet.asked(0).copies.add(2);
            outlet.carried(0).sent.add(2);
            drop(outlet);
            if port % 100 == 0 {
                books.ledger();
            }
        }
        let ledger = books.ledger();
        assert_eq!(ledger.destinations.len(), REMEMBERED + 1);
        assert_eq!(ledger.destinations.iter().map(|to| to.copies.datagrams).sum::<u64>(), 2_000);
        assert_eq!(ledger.destinations[0].name, FORGOTTEN);
        // One that comes back goes on from where it was.
        let last = books.outlet("sink", Some(SocketAddr::from(([127, 0, 0, 1], 999))));
        assert_eq!(last.asked(0).copies.get(), 2);
    }

    #[test]
    fn what_was_removed_before_it_counted_leaves_no_trace() {
        let books = Books::new(1);
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        drop((books.listener("in", address), books.rule("rule"), books.outlet("sink", None)));
        let held = books.outlet("held", None);
        let ledger = books.ledger();
        assert_eq!((ledger.listeners.len(), ledger.rules.len(), ledger.destinations.len()), (0, 0, 1));
        assert_eq!(held.name, ledger.destinations[0].name);
    }
}
