//! Host names to addresses, found as every program of this machine finds them, and looked up again every 5 s.
//!
//! getaddrinfo(3) says where a name is looked up (nsswitch.conf, hosts, resolv.conf) and in which order its addresses come.
//! It blocks, so it has threads of its own: eight at most. A name server that does not answer holds up further names once
//! eight wait for it, and nothing else: whoever sends to another destination, a reload and the end of the program go on.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dns_lookup::LookupErrorKind;

use crate::Target;

/// Follows host names. Dropped, it follows none.
#[derive(Debug)]
pub struct HostNames(Arc<Shared>);

/// What the threads share.
#[derive(Debug)]
struct Shared {
    table: Mutex<NameTable>,
    /// Something may be due, or the end has come.
    due: Condvar,
    answered: Condvar,
    look_up: fn(&str) -> Answer,
}

/// What a lookup brought.
#[derive(Debug)]
enum Answer {
    /// At least one address, in the order in which they are to be used.
    Found(Vec<IpAddr>),
    /// There is no such name, or it has no address.
    None,
    /// No answer, or one of no use: the reason.
    Failed(String),
}

/// What the names mean, and when each is due: pure, told the time.
#[derive(Debug, Default)]
struct NameTable {
    names: BTreeMap<Arc<str>, NameState>,
    /// What nobody looks up at present, the first due first. A name that is not followed any more goes once it is due.
    due: VecDeque<(Instant, Arc<str>)>,
    /// News came since somebody asked.
    changed: bool,
    threads: usize,
    ended: bool,
}

#[derive(Debug, Default)]
struct NameState {
    addresses: Vec<IpAddr>,
    /// The last lookup found none.
    failing: bool,
    /// Since when there is no such name.
    none_since: Option<Instant>,
}

impl HostNames {
    /// Follows the names among these.
    pub fn new<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Self {
        Self::asking(look_up, targets)
    }

    fn asking<'a>(look_up: fn(&str) -> Answer, targets: impl IntoIterator<Item = &'a Target>) -> Self {
        let (table, due, answered) = Default::default();
        let names = Self(Arc::new(Shared { table, due, answered, look_up }));
        names.follow(targets);
        names
    }

    /// Follows the names among these and no others. Those that it followed already keep their addresses; for the first answer
    /// about others it waits a moment: else whoever sends would begin by dropping what is known a millisecond later.
    pub fn follow<'a>(&self, targets: impl IntoIterator<Item = &'a Target>) {
        let mut table = self.0.lock();
        table.follow(targets.into_iter().filter_map(Target::host), Instant::now());
        while table.threads < table.names.len().min(MOST_LOOKUPS) {
            let shared = Arc::clone(&self.0);
            // The end of the program does not wait for it.
            if let Err(error) = thread::Builder::new().name("names".into()).spawn(move || shared.work()) {
                tracing::error!("start a thread for names: {error}");
                break;
            }
            table.threads += 1;
        }
        self.0.due.notify_all();
        drop(self.0.answered.wait_timeout_while(table, FIRST_ANSWERS, |table| table.is_unanswered()));
    }

    /// Whether addresses may be others than before the last call.
    pub fn changed(&self) -> bool {
        std::mem::take(&mut self.0.lock().changed)
    }

    /// The addresses that count now; of a name none, while it does not resolve or is not followed.
    ///
    /// Addresses keep their order as long as they are there, so that the first stays the first; new ones come after them.
    pub fn addresses(&self, target: &Target) -> Vec<SocketAddr> {
        match target {
            Target::Address(address) => vec![*address],
            Target::Name(host, port) => {
                let table = self.0.lock();
                let known = table.names.get(host.as_str()).map_or(&[][..], |state| &state.addresses);
                known.iter().map(|&address| SocketAddr::new(address, *port)).collect()
            }
        }
    }
}

impl Drop for HostNames {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.due.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        let mut table = self.lock();
        while !table.ended {
            match table.next(Instant::now()) {
                Ok(name) => {
                    drop(table);
                    let answer = (self.look_up)(&name);
                    table = self.lock();
                    match table.take(&name, answer, Instant::now()) {
                        Some(Ok(good)) => tracing::info!("resolve {name}: {good}"),
                        Some(Err(bad)) => tracing::warn!("resolve {name}: {bad}"),
                        None => {}
                    }
                    self.answered.notify_all();
                }
                Err(wait) => table = self.due.wait_timeout(table, wait).unwrap_or_else(PoisonError::into_inner).0,
            }
        }
    }

    /// Nobody panics while holding it.
    fn lock(&self) -> MutexGuard<'_, NameTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameTable {
    fn follow<'a>(&mut self, names: impl Iterator<Item = &'a str>, now: Instant) {
        let mut before = std::mem::take(&mut self.names);
        for name in names {
            if let Some((name, state)) = before.remove_entry(name) {
                self.names.insert(name, state);
            } else if !self.names.contains_key(name) {
                let name: Arc<str> = name.into();
                self.due.push_front((now, Arc::clone(&name)));
                self.names.insert(name, NameState::default());
            }
        }
    }

    /// A name to look up now; else how long there is none.
    fn next(&mut self, now: Instant) -> Result<Arc<str>, Duration> {
        while let Some((due, name)) = self.due.pop_front() {
            if due > now {
                self.due.push_front((due, name));
                return Err(due - now);
            }
            if self.follows(&name) {
                return Ok(name);
            }
        }
        Err(INTERVAL)
    }

    /// Takes the answer for a name that was to be looked up. Returns what is news for the log, good or bad.
    fn take(&mut self, name: &Arc<str>, answer: Answer, now: Instant) -> Option<Result<String, String>> {
        if !self.follows(name) {
            return None;
        }
        self.due.push_back((now + INTERVAL, Arc::clone(name)));
        let news = self.names.get_mut(name)?.take(answer, now);
        self.changed |= news.is_some();
        news
    }

    /// Whether it is this one: a name that was left out meanwhile and followed anew is another.
    fn follows(&self, name: &Arc<str>) -> bool {
        self.names.get_key_value(name).is_some_and(|(known, _)| Arc::ptr_eq(known, name))
    }

    fn is_unanswered(&self) -> bool {
        self.names.values().any(|state| state.addresses.is_empty() && !state.failing)
    }
}

impl NameState {
    fn take(&mut self, answer: Answer, now: Instant) -> Option<Result<String, String>> {
        let since = self.none_since.take();
        let reason = match answer {
            Answer::Found(found) => {
                let before = self.addresses.clone();
                self.addresses.retain(|address| found.contains(address));
                for address in found {
                    if !self.addresses.contains(&address) {
                        self.addresses.push(address);
                    }
                }
                let is_news = std::mem::take(&mut self.failing) || self.addresses != before;
                let all: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
                return is_news.then(|| Ok(all.join(", ")));
            }
            Answer::None => {
                let since = *self.none_since.insert(since.unwrap_or(now));
                if now - since >= HOLD && !self.addresses.is_empty() {
                    self.addresses.clear();
                    return Some(Err("no addresses any more (nothing is sent there)".into()));
                }
                "no such name, or it has no address".into()
            }
            Answer::Failed(reason) => reason,
        };
        let is_news = !std::mem::replace(&mut self.failing, true);
        is_news.then(|| match self.addresses.len() {
            0 => Err(format!("{reason} (still trying)")),
            kept => Err(format!("{reason} (its last {kept} addresses stay in use)")),
        })
    }
}

fn look_up(name: &str) -> Answer {
    match dns_lookup::lookup_host(name) {
        Ok(addresses) => Answer::Found(addresses.collect()),
        Err(error) => match error.kind() {
            LookupErrorKind::NoName | LookupErrorKind::NoData => Answer::None,
            _ => Answer::Failed(error.to_string()),
        },
    }
}

/// From an answer to the next lookup; Envoy's `dns_refresh_rate` is as long.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long addresses stay in use while there is no such name; HAProxy's `hold nx` is as long.
const HOLD: Duration = Duration::from_secs(30);

/// Lookups at a time.
const MOST_LOOKUPS: usize = 8;

/// Longest wait for first answers.
const FIRST_ANSWERS: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Names on a clock of the test's own.
    struct Clock {
        table: NameTable,
        start: Instant,
        now: Instant,
    }

    impl Clock {
        fn following(names: &[&str]) -> Self {
            let now = Instant::now();
            let mut clock = Self { table: NameTable::default(), start: now, now };
            clock.table.follow(names.iter().copied(), now);
            clock
        }

        /// So many seconds, in which each lookup brings this. Returns the news with their seconds.
        fn run(&mut self, seconds: u64, look_up: impl Fn(&str) -> Answer) -> Vec<(u64, String)> {
            let mut all = Vec::new();
            for _ in 0..seconds {
                while let Ok(name) = self.table.next(self.now) {
                    let news = self.table.take(&name, look_up(&name), self.now);
                    let second = (self.now - self.start).as_secs();
                    all.extend(news.map(|news| (second, format!("{name}: {}", news.unwrap_or_else(|bad| bad)))));
                }
                self.now += Duration::from_secs(1);
            }
            all
        }

        fn addresses(&self, name: &str) -> usize {
            self.table.names[name].addresses.len()
        }
    }

    fn found(addresses: &str) -> impl Fn(&str) -> Answer {
        move |_| Answer::Found(addresses.split(' ').map(|address| address.parse().unwrap()).collect())
    }

    fn none(_: &str) -> Answer {
        Answer::None
    }

    fn failed(_: &str) -> Answer {
        Answer::Failed("no answer".into())
    }

    #[test]
    fn each_name_is_looked_up_every_five_seconds_while_it_is_followed() {
        let asked = RefCell::new(Vec::new());
        let note = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            found("10.0.0.1")(name)
        };
        let mut clock = Clock::following(&["a", "b", "a"]);
        clock.run(11, note);
        assert_eq!(asked.take(), ["b", "a", "b", "a", "b", "a"]);
        // Left out and followed anew while somebody looks it up, and while nobody does.
        clock.now += INTERVAL;
        let before = clock.table.next(clock.now).unwrap();
        clock.table.follow([].into_iter(), clock.now);
        clock.table.follow(["a", "b"].into_iter(), clock.now);
        assert_eq!(clock.table.take(&before, none(""), clock.now), None);
        assert_eq!((clock.addresses("a"), clock.addresses("b")), (0, 0));
        clock.run(6, note);
        assert_eq!(asked.take(), ["b", "a", "b", "a"]);
    }

    #[test]
    fn what_stays_keeps_its_place_and_only_news_is_told() {
        let mut clock = Clock::following(&["a"]);
        let told = clock.run(5, found("fd00::1 10.0.0.9 10.0.0.5 10.0.0.9"));
        assert_eq!(told, [(0, "a: fd00::1, 10.0.0.9, 10.0.0.5".into())]);
        assert!(std::mem::take(&mut clock.table.changed));
        assert_eq!(clock.run(5, found("10.0.0.5 fd00::1 10.0.0.9")), []);
        assert!(!clock.table.changed);
        let told = clock.run(5, found("10.0.0.1 10.0.0.9 fd00::1"));
        assert_eq!(told, [(10, "a: fd00::1, 10.0.0.9, 10.0.0.1".into())]);
    }

    #[test]
    fn failures_keep_addresses_and_only_half_a_minute_without_the_name_withdraws_them() {
        let mut clock = Clock::following(&["a"]);
        assert_eq!(clock.run(3600, failed), [(0, "a: no answer (still trying)".into())]);
        assert!(!clock.table.is_unanswered());
        assert_eq!(clock.run(5, found("10.0.0.1")), [(3600, "a: 10.0.0.1".into())]);
        let told = clock.run(3600, failed);
        assert_eq!(told, [(3605, "a: no answer (its last 1 addresses stay in use)".into())]);
        // Not knowing ends a time of knowing that there is none.
        for _ in 0..10 {
            assert_eq!(clock.run(25, none), []);
            assert_eq!(clock.run(5, failed), []);
        }
        assert_eq!((clock.run(30, none), clock.addresses("a")), (vec![], 1));
        assert_eq!(clock.run(100, none), [(7535, "a: no addresses any more (nothing is sent there)".into())]);
        assert_eq!(clock.addresses("a"), 0);
        assert_eq!(clock.run(5, found("10.0.0.1")), [(7635, "a: 10.0.0.1".into())]);
    }

    #[test]
    fn eight_lookups_are_made_at_a_time_and_nobody_waits_for_them() {
        static STUCK: AtomicUsize = AtomicUsize::new(0);
        fn stuck(_: &str) -> Answer {
            STUCK.fetch_add(1, Ordering::Relaxed);
            loop {
                thread::park();
            }
        }
        let targets: Vec<Target> = (0..20).map(|number| Target::Name(format!("n{number}"), 9)).collect();
        let names = HostNames::asking(stuck, &targets);
        while STUCK.load(Ordering::Relaxed) < MOST_LOOKUPS {
            thread::yield_now();
        }
        names.follow(&targets[..10]);
        assert_eq!(names.addresses(&targets[0]), []);
        assert_eq!(names.0.lock().threads, MOST_LOOKUPS);
        drop(names);
        assert_eq!(STUCK.load(Ordering::Relaxed), MOST_LOOKUPS);
    }
}
