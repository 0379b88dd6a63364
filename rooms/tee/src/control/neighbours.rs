//! The next hops of all destinations, as the kernel tells of them: a thread that listens, and what it tells.
//!
//! ```text
//! plan -> follow: each address -> its way (route) -> its next hop -> how that stands in the kernel's table
//! thread: neighbour answers, fails, is forgotten -> Health (the gate) -> workers look, groups ask those that are silent
//!         routes have changed                    -> all ways anew
//! ```

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_kernel::next_hops::{Neighbour, NextHop, NextHops, Way};
use weir_program::stop::Stop;

use crate::health::{Gate, Health, News};
use crate::plan::{Outlet, Plan};
use crate::worker::Workers;

/// Follows the next hops of a plan. Dropped, it follows none.
pub(super) struct Neighbours {
    followed: Arc<Mutex<Followed>>,
    stop: Option<(Stop, JoinHandle<()>)>,
    /// Whether somebody was silent at the last look.
    any_silent: bool,
}

/// What is followed; `None` in place of the conversation: the kernel does not tell, and every gate stays open.
struct Followed {
    hops: Option<NextHops>,
    /// Whether they have told something; `None`: out of file descriptors.
    news: Option<Arc<News>>,
    plan: Option<Arc<Plan>>,
    /// By what decides about them.
    ways: HashMap<Question, Way>,
    /// Who is behind each.
    by_hop: HashMap<NextHop, Behind>,
    /// Next hops that are asked anew, and when the kernel is about to give them up.
    doubts: HashMap<NextHop, Instant>,
}

/// Who is behind a next hop.
#[derive(Debug, Default)]
struct Behind {
    /// As in [`Way::Via`].
    patience: Duration,
    outlets: Vec<Arc<Health>>,
}

/// What decides about a way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    to: IpAddr,
    /// Of a link-local address.
    scope: u32,
    from: Option<IpAddr>,
    interface: Option<String>,
}

impl Neighbours {
    /// Follows nobody yet. In the calling thread's network namespace.
    pub(super) fn new() -> Self {
        let hops = NextHops::open().inspect_err(|error| {
            tracing::warn!("{error}: destinations whose next hop does not answer are not noticed (allow AF_NETLINK)");
        });
        let hops = hops.ok();
        let events = hops.as_ref().and_then(|hops| hops.neighbour_events().try_clone_to_owned().ok());
        let followed = Followed {
            hops,
            news: events.map(|events| Arc::new(News::new(events))),
            plan: None,
            ways: HashMap::new(),
            by_hop: HashMap::new(),
            doubts: HashMap::new(),
        };
        Self { followed: Arc::new(Mutex::new(followed)), stop: None, any_silent: false }
    }

    /// Follows the next hops of this plan and no others. When it returns, what the kernel knows of them is known to whoever
    /// sends there.
    pub(super) fn follow(&self, plan: &Arc<Plan>) {
        let mut followed = lock(&self.followed);
        followed.plan = Some(Arc::clone(plan));
        followed.find_ways();
    }

    /// Starts the thread that listens; it has the workers look where something has changed.
    pub(super) fn start(&mut self, workers: Arc<Workers>) -> io::Result<()> {
        let (stop, followed) = (Stop::new()?, Arc::clone(&self.followed));
        let events = {
            let followed = lock(&followed);
            let Some(hops) = &followed.hops else { return Ok(()) };
            [hops.neighbour_events().try_clone_to_owned()?, hops.network_events().try_clone_to_owned()?]
        };
        let stopped = stop.clone();
        let listen = move || listen(&followed, &stopped, &events, &workers);
        self.stop = Some((stop, thread::Builder::new().name("neighbours".into()).spawn(listen)?));
        Ok(())
    }

    /// Sees to it that those that are silent are asked again; to be called every second or so.
    pub(super) fn ask_silent(&mut self, workers: &Workers) {
        let plan = workers.plan();
        let any = plan.outlets.iter().any(|outlet| outlet.health.hop().gate != Gate::Open);
        if any {
            plan.ask_silent();
        }
        // Once more after the last has answered: a worker may have found that without the others.
        if std::mem::replace(&mut self.any_silent, any) || any {
            workers.look();
        }
    }

    /// Looks at the kernel's table, so that what it knows at this moment is known.
    pub(super) fn refresh(&self, workers: &Workers) {
        let mut followed = lock(&self.followed);
        if followed.listen(Instant::now()) | followed.refresh() {
            drop(followed);
            workers.look();
        }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.stop.take() {
            stop.set();
            // Its panic has been told.
            let _ = thread.join();
        }
    }
}

/// Listens to the kernel until it is stopped.
fn listen(followed: &Mutex<Followed>, stop: &Stop, [neighbours, network]: &[OwnedFd; 2], workers: &Workers) {
    let mut last_change = None::<Instant>;
    while !stop.is_set() {
        let now = Instant::now();
        // Where routes change all the time, ways are asked for every now and then.
        let pause = last_change.map(|last| (last + CHANGES_APART).saturating_duration_since(now));
        let hears_network = pause.is_none_or(|pause| pause.is_zero());
        let mut descriptors = vec![readable(stop), readable(neighbours)];
        descriptors.extend(hears_network.then(|| readable(network)));
        let wait = [lock(followed).wait(now), pause.filter(|pause| !pause.is_zero())].into_iter().flatten().min();
        let wait = wait.map_or(PollTimeout::NONE, |wait| {
            PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let _ = poll(&mut descriptors, wait);
        let mut followed = lock(followed);
        let now = Instant::now();
        let mut changed = followed.listen(now);
        if hears_network && followed.network_has_changed() {
            last_change = Some(now);
            changed |= followed.find_ways();
        }
        changed |= followed.doubt(now);
        if followed.waits_for_answers() {
            changed |= followed.refresh();
        }
        if changed && let Some(plan) = &followed.plan {
            plan.ask_silent();
        }
        drop(followed);
        if changed {
            workers.look();
        }
    }
}

fn readable(descriptor: &impl AsFd) -> PollFd<'_> {
    PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)
}

impl Followed {
    /// Finds the way to every outlet of the plan, unless it is known, and how those stand whose way is new.
    fn find_ways(&mut self) -> bool {
        self.network_has_changed();
        let Self { hops: Some(hops), news, plan: Some(plan), ways, by_hop, doubts } = self else { return false };
        let known_ways = std::mem::take(ways);
        let was_behind: HashSet<(NextHop, *const Health)> = std::mem::take(by_hop)
            .into_iter()
            .flat_map(|(hop, behind)| behind.outlets.into_iter().map(move |health| (hop, Arc::as_ptr(&health))))
            .collect();
        let (mut table, mut changed) = (None, false);
        for outlet in &plan.outlets {
            let Some((question, interface)) = Question::about(outlet) else { continue };
            let way = ways.get(&question).or(known_ways.get(&question)).copied().unwrap_or_else(|| {
                // Who cannot be asked about is sent to as always.
                hops.way(question.to, question.from, interface).unwrap_or(Way::Unasked)
            });
            ways.insert(question, way);
            let Way::Via { hop, patience } = way else {
                changed |= outlet.health.free();
                continue;
            };
            if let Some(news) = news {
                outlet.health.follow(news);
            }
            if !was_behind.contains(&(hop, Arc::as_ptr(&outlet.health))) {
                let table = table.get_or_insert_with(|| hops.neighbours().unwrap_or_default());
                changed |= outlet.health.see(table.get(&hop).copied());
            }
            let behind = by_hop.entry(hop).or_default();
            behind.patience = patience;
            behind.outlets.push(Arc::clone(&outlet.health));
        }
        doubts.retain(|hop, _| by_hop.contains_key(hop));
        changed
    }

    /// Whether routes, addresses or interfaces have changed since the last call: what was known of ways is forgotten.
    fn network_has_changed(&mut self) -> bool {
        let changed = self.hops.as_mut().is_some_and(NextHops::network_has_changed);
        if changed {
            self.ways.clear();
        }
        changed
    }

    /// Takes in what the kernel has told; returns whether that changes anything.
    fn listen(&mut self, now: Instant) -> bool {
        match self.news.clone() {
            Some(news) => news.take_in(|| self.hear(now)),
            None => self.hear(now),
        }
    }

    fn hear(&mut self, now: Instant) -> bool {
        let Self { hops: Some(hops), by_hop, doubts, .. } = self else { return false };
        let mut changed = false;
        let missed = hops.changes(|hop, neighbour| {
            let Some(Behind { patience, outlets }) = by_hop.get(&hop) else { return };
            if neighbour == Some(Neighbour::Doubted) {
                doubts.entry(hop).or_insert(now + patience.saturating_sub(LAST_DOUBT.min(*patience / 2)));
            } else {
                doubts.remove(&hop);
            }
            for health in outlets {
                changed |= health.hear(neighbour);
            }
        });
        (missed && self.refresh()) | changed
    }

    /// Looks at the kernel's table; returns whether that changes anything.
    fn refresh(&mut self) -> bool {
        let Self { hops: Some(hops), by_hop, doubts, .. } = self else { return false };
        let Ok(known) = hops.neighbours() else { return false };
        let mut changed = false;
        for (hop, behind) in by_hop {
            let neighbour = known.get(hop).copied();
            if neighbour != Some(Neighbour::Doubted) {
                doubts.remove(hop);
            }
            for health in &behind.outlets {
                changed |= health.see(neighbour);
            }
        }
        changed
    }

    /// Closes the gates of those that the kernel is about to give up.
    fn doubt(&mut self, now: Instant) -> bool {
        let mut changed = false;
        for (hop, _) in self.doubts.extract_if(|_, end| *end <= now) {
            for health in self.by_hop.get(&hop).into_iter().flat_map(|behind| &behind.outlets) {
                changed |= health.doubt();
            }
        }
        changed
    }

    /// Whether somebody was asked, of which the kernel may not tell.
    fn waits_for_answers(&self) -> bool {
        self.by_hop.values().flat_map(|behind| &behind.outlets).any(|health| health.hop().is_awaited())
    }

    /// How long it may wait for the kernel to tell something; `None`: for ever.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let doubts = self.doubts.values().map(|end| end.saturating_duration_since(now)).min();
        doubts.into_iter().chain(self.waits_for_answers().then_some(LOOKS_APART)).min()
    }
}

impl Question {
    /// What decides about the way to an outlet, and the interface that it is to take; `None`: it has no address.
    fn about(outlet: &Outlet) -> Option<(Self, Option<u32>)> {
        let address = outlet.address?;
        let to = address.ip().to_canonical();
        if to.is_multicast() || to.is_unspecified() {
            return None;
        }
        let scope = match address {
            SocketAddr::V6(address) => address.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let interface = outlet.settings.interface.clone();
        let named = interface.as_deref().and_then(|name| if_nametoindex(name).ok());
        let from = outlet.settings.from.map(|from| from.ip().to_canonical()).filter(|from| !from.is_unspecified());
        Some((Self { to, scope, from, interface }, named.or((scope != 0).then_some(scope))))
    }
}

/// Nobody panics while holding it.
fn lock(followed: &Mutex<Followed>) -> MutexGuard<'_, Followed> {
    followed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long before the kernel gives up a neighbour that used to answer nothing more is sent there.
const LAST_DOUBT: Duration = Duration::from_millis(500);

/// From one look at the kernel's table to the next while somebody is asked.
const LOOKS_APART: Duration = Duration::from_millis(250);

/// Least time between two searches for all ways.
const CHANGES_APART: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::UdpSocket;

    use weir_testbed::await_that;
    use weir_testbed::network::cable;

    use super::*;
    use crate::drops::Reason;
    use crate::ledger::DestinationCount;
    use crate::sockets::Sockets;

    fn of(workers: &Workers) -> DestinationCount {
        workers.ledger().destinations.remove(0)
    }

    fn is_told_as_failed_when_that_is_heard() {
        fs::write("/proc/sys/net/ipv4/neigh/eth0/retrans_time_ms", "50").unwrap();
        let text = "workers = 1\nlistener = [{ address = \"127.0.0.1:5000\" }]\n\
                    destination = [{ to = \"10.0.0.99:5000\" }]";
        let plan = Arc::new(super::super::plan(text, None));
        // It has no thread: as if that stood still.
        let neighbours = Neighbours::new();
        neighbours.follow(&plan);
        let sockets = Sockets::open(&plan, Vec::new(), None).unwrap();
        let workers = Workers::start(plan, sockets).unwrap();
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = || assert_eq!(source.send_to(b"x", "127.0.0.1:5000").unwrap(), 1);
        send();
        let mut hops = NextHops::open().unwrap();
        await_that("the neighbour to fail", || {
            hops.neighbours().unwrap().values().any(|state| *state == Neighbour::Failed)
        });
        // Looks enough to see twice that the socket has nothing left to send.
        for _ in 0..10 {
            send();
            workers.look();
            thread::sleep(Duration::from_millis(100));
        }
        await_that("all to be asked for", || of(&workers).copies.datagrams == 11);
        assert_eq!((of(&workers).sent.datagrams, of(&workers).queued), (0, 11));
        neighbours.refresh(&workers);
        await_that("all to be told as lost", || of(&workers).drops[Reason::Unreachable] == 11);
        assert_eq!(of(&workers).sent.datagrams, 0);
        workers.stop(Duration::ZERO);
    }

    #[test]
    fn what_a_next_hop_was_asked_for_is_not_told_as_sent_while_nobody_has_heard_that_it_failed() {
        let Some([near, _far]) = cable(1500) else { return };
        near.run(is_told_as_failed_when_that_is_heard);
    }
}
