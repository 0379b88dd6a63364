//! Settings and resolved names, compiled: what workers carry out.
//!
//! A plan never changes. A reload, or a name that resolves to something else, makes a new one from the old: what is in
//! both keeps its counts, its health and its limits. Health alone changes within a plan, atomically.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weir_dgram::Steering;

use crate::balance::{Group, Member};
use crate::counters::{Books, ListenerBook, OutletBook, RuleBook};
use crate::health::{Gate, Health};
use crate::limit::{Limiter, Nth};
use crate::matcher::Matcher;
use crate::settings::{self, Destination, Recipient, Settings, Target};

/// What workers carry out.
#[derive(Debug)]
pub struct Plan {
    /// What it was made from.
    pub settings: Arc<Settings>,
    /// By the indices of the settings.
    pub listeners: Vec<Listener>,
    /// One for each destination and address of it, in the order of the settings.
    pub outlets: Vec<Outlet>,
    /// Which rules take what.
    pub matcher: Matcher,
    /// By the indices of the settings.
    pub rules: Vec<Rule>,
    /// By the indices of the settings.
    pub groups: Vec<Group>,
    /// Where destinations are.
    pub addresses: HashSet<IpAddr>,
    /// Whether a destination gets headers.
    pub headed: bool,
    /// Whether the hops that a datagram has left count for a destination.
    pub guarded: bool,
    /// Whether a destination's answers go back.
    pub answered: bool,
    /// The counts of this and all plans before.
    pub books: Arc<Books>,
}

/// Where datagrams come in.
#[derive(Debug)]
pub struct Listener {
    /// What it is to be.
    pub settings: settings::Listener,
    /// Whether the local address of each datagram must be known: not told by the listener's own, and a destination gets
    /// it in a header.
    pub wants_local: bool,
    /// Whether the hops must be known with which each came.
    pub wants_hops: bool,
    /// Which worker gets a datagram, by what it says.
    pub steering: Option<Steering>,
    /// Its counts.
    pub book: Arc<ListenerBook>,
}

/// One address of a destination.
#[derive(Debug)]
pub struct Outlet {
    /// Index of its destination in the settings.
    pub destination: usize,
    /// Where it leads; `None`: the name does not resolve yet.
    pub address: Option<SocketAddr>,
    /// What the destination is to get.
    pub settings: Arc<Destination>,
    /// Its counts.
    pub book: Arc<OutletBook>,
    /// Whether it is thought to live.
    pub health: Arc<Health>,
    /// Its rate limits; `None`: without.
    pub limiter: Option<Arc<Limiter>>,
    /// Which of its datagrams pass; `None`: each.
    pub nth: Option<Arc<Nth>>,
}

/// Where a rule leads.
#[derive(Debug)]
pub struct Rule {
    /// Its counts.
    pub book: Arc<RuleBook>,
    /// Indices of outlets that get every datagram.
    pub outlets: Vec<usize>,
    /// Indices of groups that choose.
    pub groups: Vec<usize>,
}

/// What names resolved to: the addresses of each destination that has a name, by its index in the settings. A missing
/// or empty entry: not yet.
pub type Addresses = BTreeMap<usize, Vec<SocketAddr>>;

impl Plan {
    /// Compiles settings. What `previous` had under the same name and address is taken over. Never fails: settings are
    /// validated, and sockets are opened by [`Sockets::open`](super::sockets::Sockets::open).
    pub fn build(settings: Arc<Settings>, addresses: &Addresses, previous: Option<&Self>) -> Self {
        let books = previous.map_or_else(|| Arc::new(Books::new(settings.workers)), |plan| Arc::clone(&plan.books));
        let previous = Previous::new(previous);
        let shared: Vec<_> = settings.destinations.iter().cloned().map(Arc::new).collect();
        let mut outlets = Vec::new();
        let mut outlets_of = Vec::new();
        for (index, destination) in shared.iter().enumerate() {
            let first = outlets.len();
            for address in used(index, destination, addresses, &previous) {
                outlets.push(Outlet::build(index, destination, address, &books, &previous));
            }
            outlets_of.push((first..outlets.len()).collect::<Vec<usize>>());
        }
        let headed = shared.iter().any(|destination| destination.source.is_headed());
        let answered = shared.iter().any(|destination| destination.replies);
        let guarded = shared.iter().any(|destination| destination.hop_guard);
        let listener = |listener: &settings::Listener| Listener {
            wants_hops: guarded,
            wants_local: (headed || answered)
                && (listener.address.ip().is_unspecified() || listener.address.ip().is_multicast()),
            steering: settings.steering,
            book: books.listener(&listener.name, listener.address),
            settings: listener.clone(),
        };
        let rule = |rule: &settings::Rule| {
            let outlets = rule.to.iter().flat_map(|recipient| match *recipient {
                Recipient::Destination(index) => outlets_of[index].clone(),
                Recipient::Group(_) => Vec::new(),
            });
            let groups = rule.to.iter().filter_map(|recipient| match *recipient {
                Recipient::Destination(_) => None,
                Recipient::Group(index) => Some(index),
            });
            Rule { book: books.rule(&rule.name), outlets: outlets.collect(), groups: groups.collect() }
        };
        let group = |group: &settings::Group| {
            let members =
                group.members.iter().map(|&member| Member::new(&shared[member].name, outlets_of[member].clone()));
            Group::new(group.policy, members.collect())
        };
        Self {
            listeners: settings.listeners.iter().map(listener).collect(),
            matcher: Matcher::new(&settings.rules, settings.matching),
            rules: settings.rules.iter().map(rule).collect(),
            groups: settings.groups.iter().map(group).collect(),
            addresses: outlets.iter().filter_map(Outlet::ip).collect(),
            outlets,
            headed,
            guarded,
            answered,
            books,
            settings,
        }
    }

    /// Has groups send a copy of their next datagram to a member whose next hops all do not answer: the kernel asks them
    /// again for that alone.
    pub fn ask_silent(&self) {
        let is_silent = |&at: &usize| self.outlets[at].health.hop.gate() != Gate::Open;
        for group in &self.groups {
            group.want(|member| {
                member.outlets.iter().all(is_silent) && !member.outlets.iter().any(|&at| self.outlets[at].up())
            });
        }
    }

    /// The outlets that a rule may lead to.
    pub(crate) fn outlets_of_rule(&self, rule: usize) -> impl Iterator<Item = &Outlet> {
        let rule = &self.rules[rule];
        let members = rule.groups.iter().flat_map(|&group| &self.groups[group].members);
        let outlets = rule.outlets.iter().chain(members.flat_map(|member| &member.outlets));
        outlets.map(|&outlet| &self.outlets[outlet])
    }

    /// The outlets of a destination, by its index in the settings.
    pub fn outlets_of(&self, destination: usize) -> impl Iterator<Item = &Outlet> {
        let first = self.outlets.partition_point(|outlet| outlet.destination < destination);
        self.outlets[first..].iter().take_while(move |outlet| outlet.destination == destination)
    }
}

impl Outlet {
    fn build(
        index: usize,
        destination: &Arc<Destination>,
        address: Option<SocketAddr>,
        books: &Books,
        previous: &Previous<'_>,
    ) -> Self {
        let old = previous.outlets_of(&destination.name).iter().copied().find(|old| old.address == address);
        let (rate, bandwidth) = (destination.rate, destination.bandwidth);
        let kept = old.filter(|old| old.settings.rate == rate && old.settings.bandwidth == bandwidth);
        let counted = old.filter(|old| old.settings.every == destination.every);
        Self {
            destination: index,
            address,
            nth: counted.map_or_else(|| Nth::new(destination.every).map(Arc::new), |old| old.nth.clone()),
            settings: Arc::clone(destination),
            book: books.outlet(&destination.name, address),
            health: old.map(|old| Arc::clone(&old.health)).unwrap_or_default(),
            limiter: kept.map_or_else(|| Limiter::new(rate, bandwidth).map(Arc::new), |old| old.limiter.clone()),
        }
    }

    /// What it is called in every plan: the name of its destination, and the address.
    pub fn key(&self) -> (&str, Option<SocketAddr>) {
        (&self.settings.name, self.address)
    }

    fn ip(&self) -> Option<IpAddr> {
        self.address.map(|address| address.ip().to_canonical())
    }

    /// Whether this is its address.
    pub fn is_at(&self, ip: IpAddr) -> bool {
        self.ip() == Some(ip)
    }

    /// Whether the address is a multicast group.
    pub fn is_multicast(&self) -> bool {
        self.address.is_some_and(|address| address.ip().is_multicast())
    }

    /// Whether it is resolved, and thought to live.
    pub fn healthy(&self) -> bool {
        self.address.is_some() && self.health.verdict().down.is_none()
    }

    /// Whether groups may choose it: resolved, and thought to live or to be tried.
    pub fn up(&self) -> bool {
        self.address.is_some() && self.health.up()
    }
}

/// What the plan before had, by the names of destinations.
struct Previous<'a>(HashMap<&'a str, Vec<&'a Outlet>>);

impl<'a> Previous<'a> {
    fn new(plan: Option<&'a Plan>) -> Self {
        let mut outlets: HashMap<&str, Vec<&Outlet>> = HashMap::new();
        for outlet in plan.into_iter().flat_map(|plan| &plan.outlets) {
            outlets.entry(&outlet.settings.name).or_default().push(outlet);
        }
        Self(outlets)
    }

    fn outlets_of(&self, destination: &str) -> &[&'a Outlet] {
        self.0.get(destination).map_or(&[], Vec::as_slice)
    }
}

/// The addresses that a destination's datagrams go to; one `None` while there is none.
fn used(
    index: usize,
    destination: &Destination,
    addresses: &Addresses,
    previous: &Previous<'_>,
) -> Vec<Option<SocketAddr>> {
    let known = match &destination.to {
        Target::Address(address) => return vec![Some(*address)],
        Target::Name(..) => addresses.get(&index).map_or(&[][..], Vec::as_slice),
    };
    let mut all: Vec<_> = known.iter().copied().map(Some).collect();
    all.sort_by_key(|address| address.map(|address| (address.ip(), address.port())));
    all.dedup();
    if all.is_empty() {
        return vec![None];
    }
    if destination.addresses != settings::Addresses::First {
        return all;
    }
    // Name servers turn the order of addresses round with every answer: stay with the one in use while it is there.
    let in_use = previous.outlets_of(&destination.name).iter().find(|old| all.contains(&old.address));
    let first = known.first().copied();
    vec![in_use.map_or(first, |old| old.address)]
}
