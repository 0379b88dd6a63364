//! The next hops of all destinations, as the kernel tells of them: a thread that listens, and what it tells.
//!
//! ```text
//! plan -> follow: each address -> its way (route) -> its next hop -> how that stands in the kernel's table
//! thread: neighbour answers, fails, is forgotten -> Health (the gate) -> workers look, groups ask those that are silent
//!         routes have changed                    -> all ways again
//!         a worker has asked                     -> the kernel's table, until there is an answer
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
use nix::sys::eventfd::{EfdFlags, EventFd};
use weir_kernel::next_hops::{NextHop, NextHops, Way};
use weir_program::stop::Stop;

use weir_forward::health::{ENTRY_MADE, Gate, Health};
use weir_forward::plan::{Outlet, Plan};
use weir_forward::worker::Workers;

/// Follows the next hops of a plan. Dropped, it follows none.
pub(super) struct Neighbours {
    /// `None`: the kernel does not tell, and every gate stays open.
    followed: Option<Arc<Mutex<Followed>>>,
    stop: Option<(Stop, JoinHandle<()>)>,
}

/// What is followed.
struct Followed {
    hops: NextHops,
    /// Written to when a worker asks.
    asked: Arc<EventFd>,
    plan: Option<Arc<Plan>>,
    /// By what decides about them.
    ways: HashMap<Question, Way>,
    /// Who is behind each.
    by_hop: HashMap<NextHop, Vec<Arc<Health>>>,
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
        let followed = Followed::open().inspect_err(|error| {
            tracing::warn!("{error}: destinations whose next hop does not answer are not noticed (allow AF_NETLINK)");
        });
        Self { followed: followed.ok().map(|followed| Arc::new(Mutex::new(followed))), stop: None }
    }

    /// Follows the next hops of this plan and no others. When it returns, what the kernel knows of them is known to whoever
    /// sends there.
    pub(super) fn follow(&self, plan: &Arc<Plan>) {
        let Some(followed) = &self.followed else { return };
        let mut followed = lock(followed);
        followed.plan = Some(Arc::clone(plan));
        followed.find_ways();
    }

    /// Starts the thread that listens; it has the workers look where something has changed.
    pub(super) fn start(&mut self, workers: Arc<Workers>) -> io::Result<()> {
        let Some(followed) = self.followed.clone() else { return Ok(()) };
        let stop = Stop::new()?;
        let events = {
            let Followed { hops, asked, .. } = &*lock(&followed);
            [asked.as_fd(), hops.neighbour_events(), hops.network_events()].map(|events| events.try_clone_to_owned())
        };
        let [asked, neighbours, network] = events;
        let (events, stopped) = ([asked?, neighbours?, network?], stop.clone());
        let listen = move || listen(&followed, &stopped, &events, &workers);
        self.stop = Some((stop, thread::Builder::new().name("neighbours".into()).spawn(listen)?));
        Ok(())
    }

    /// Sees to it that those that do not answer are asked again; to be called every second or so.
    pub(super) fn ask_again(&self, workers: &Workers) {
        let plan = workers.plan();
        let mut any = false;
        for outlet in plan.outlets.iter().filter(|outlet| outlet.health.hop.gate() != Gate::Open) {
            outlet.health.hop.let_ask();
            any = true;
        }
        if any {
            plan.ask_silent();
            workers.look();
        }
    }

    /// Looks at the kernel's table, so that what it knows at this moment is known.
    pub(super) fn refresh(&self, workers: &Workers) {
        let Some(followed) = &self.followed else { return };
        let mut followed = lock(followed);
        if followed.hear() | followed.refresh() {
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
fn listen(followed: &Mutex<Followed>, stop: &Stop, events: &[OwnedFd; 3], workers: &Workers) {
    let [asked, neighbours, network] = events;
    let mut last_change = None::<Instant>;
    while !stop.is_set() {
        let now = Instant::now();
        // Where routes change all the time, ways are asked for every now and then.
        let pause = last_change.map(|last| (last + CHANGES_APART).saturating_duration_since(now));
        let pause = pause.filter(|pause| !pause.is_zero());
        let mut descriptors = vec![readable(stop), readable(asked), readable(neighbours)];
        descriptors.extend(pause.is_none().then(|| readable(network)));
        let look = lock(followed).are_awaited().then_some(ENTRY_MADE);
        let wait = [look, pause].into_iter().flatten().min();
        let wait = wait.map_or(PollTimeout::NONE, |wait| {
            PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let _ = poll(&mut descriptors, wait);
        let mut followed = lock(followed);
        let _ = followed.asked.read();
        let mut changed = followed.hear();
        if pause.is_none() && followed.network_has_changed() {
            last_change = Some(now);
            changed |= followed.find_ways();
        }
        if followed.are_awaited() {
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
    fn open() -> anyhow::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let asked = Arc::new(EventFd::from_value_and_flags(0, flags)?);
        Ok(Self { hops: NextHops::open()?, asked, plan: None, ways: HashMap::new(), by_hop: HashMap::new() })
    }

    /// Finds the way to every outlet of the plan, unless it is known, and how those stand whose way is new.
    fn find_ways(&mut self) -> bool {
        self.network_has_changed();
        let Self { hops, asked, plan: Some(plan), ways, by_hop } = self else { return false };
        let known_ways = std::mem::take(ways);
        let was_behind: HashSet<(NextHop, *const Health)> = std::mem::take(by_hop)
            .into_iter()
            .flat_map(|(hop, behind)| behind.into_iter().map(move |health| (hop, Arc::as_ptr(&health))))
            .collect();
        let (mut table, mut changed) = (None, false);
        for outlet in &plan.outlets {
            let Some((question, interface)) = Question::about(outlet) else { continue };
            let way = ways.get(&question).or(known_ways.get(&question)).copied().unwrap_or_else(|| {
                // Who cannot be asked about is sent to as always.
                hops.way(question.to, question.from, interface).unwrap_or(Way::Unasked)
            });
            ways.insert(question, way);
            let Way::Via(hop) = way else {
                changed |= outlet.health.hop.set_gate(Gate::Open);
                continue;
            };
            outlet.health.hop.wake_when_asked(asked);
            if !was_behind.contains(&(hop, Arc::as_ptr(&outlet.health))) {
                let table = table.get_or_insert_with(|| hops.neighbours().unwrap_or_default());
                changed |= outlet.health.hop.hear(table.get(&hop).copied());
            }
            by_hop.entry(hop).or_default().push(Arc::clone(&outlet.health));
        }
        changed
    }

    /// Whether routes, addresses or interfaces have changed since the last call: what was known of ways is forgotten.
    fn network_has_changed(&mut self) -> bool {
        let changed = self.hops.network_has_changed();
        if changed {
            self.ways.clear();
        }
        changed
    }

    /// Takes in what the kernel has told; returns whether that changes anything.
    fn hear(&mut self) -> bool {
        let Self { hops, by_hop, .. } = self;
        let mut changed = false;
        let missed = hops.changes(|hop, neighbour| {
            for health in by_hop.get(&hop).into_iter().flatten() {
                changed |= health.hop.hear(neighbour);
            }
        });
        (missed && self.refresh()) | changed
    }

    /// Looks at the kernel's table; returns whether that changes anything. Those for whom the kernel makes no entry are
    /// followed no longer.
    fn refresh(&mut self) -> bool {
        let Ok(known) = self.hops.neighbours() else { return false };
        let mut changed = false;
        for (hop, behind) in &mut self.by_hop {
            behind.retain(|health| {
                let (changes, elsewhere) = health.see(known.get(hop).copied());
                changed |= changes;
                !elsewhere
            });
        }
        changed
    }

    /// Whether somebody was asked and has not answered: the kernel may not tell.
    fn are_awaited(&self) -> bool {
        self.by_hop.values().flatten().any(|health| health.hop.is_awaited())
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
        let from = outlet.settings.local().map(|from| from.ip().to_canonical()).filter(|from| !from.is_unspecified());
        Some((Self { to, scope, from, interface }, named.or((scope != 0).then_some(scope))))
    }
}

/// Nobody panics while holding it.
fn lock(followed: &Mutex<Followed>) -> MutexGuard<'_, Followed> {
    followed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Least time between two searches for all ways.
const CHANGES_APART: Duration = Duration::from_secs(1);
