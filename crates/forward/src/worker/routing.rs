//! From a source and a listener to outlets, remembered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::recent::Recent;
use crate::balance::Preferred;
use crate::plan::Plan;
use crate::settings::{OnLoop, Policy};

/// What a worker's plan says of each source, remembered.
pub(super) struct Routing {
    plan: Arc<Plan>,
    /// Which route a source takes at a listener.
    sources: Recent<(usize, IpAddr), usize>,
    /// The last answer of these, without a hash: most datagrams have the source of the one before.
    last: Option<((usize, IpAddr), usize)>,
    /// Which members a source prefers in a group of many.
    preferred: Recent<(usize, IpAddr), Preferred>,
    /// One for each set of rules that was met.
    routes: Vec<Route>,
    /// The place of each.
    by_rules: HashMap<Box<[usize]>, usize>,
    /// Rules and deliveries that the routes hold.
    held: usize,
    /// The rules of the source at hand.
    rules: Vec<usize>,
    /// Datagrams that each group has shared out.
    turns: Vec<usize>,
    /// Outlets that the datagram at hand has been given to: marked with its number.
    marks: Vec<u64>,
    number: u64,
    chosen: Vec<Delivery>,
}

/// What happens to the datagrams that a certain set of rules takes.
pub(super) struct Route {
    /// Indices of the rules; empty: nobody wants them.
    pub(super) rules: Box<[usize]>,
    /// Where they go, if that depends on nothing else.
    fixed: Option<Vec<Delivery>>,
    /// Whether it may be another outlet for each datagram.
    pub(super) singly: bool,
    /// The only source whose route it is: outlets at its address get nothing of it.
    horizon: Option<IpAddr>,
}

/// A delivery of a datagram to an outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Index of the rule that asks for it.
    pub(super) rule: usize,
    /// Index of the outlet.
    pub(super) outlet: usize,
    /// Whether it would go back to where it came from, and may not.
    pub(super) returns: bool,
}

impl Routing {
    /// Knows nothing yet. `worker`: where turns begin, so that workers don't all start with the same member.
    pub(super) fn new(plan: Arc<Plan>, worker: usize) -> Self {
        Self {
            sources: Recent::new(SOURCES),
            last: None,
            preferred: Recent::new(SOURCES),
            routes: Vec::new(),
            by_rules: HashMap::new(),
            held: 0,
            rules: Vec::new(),
            turns: vec![worker; plan.groups.len()],
            marks: vec![0; plan.outlets.len()],
            number: 0,
            chosen: Vec::new(),
            plan,
        }
    }

    /// The route of datagrams of this source at this listener. It holds until the next call.
    pub(super) fn route(&mut self, listener: usize, source: IpAddr) -> usize {
        let key = (listener, source);
        let known = self.last.filter(|(last, _)| *last == key).map(|(_, route)| route);
        if let Some(route) = known.or_else(|| self.sources.get(key)) {
            self.last = Some((key, route));
            return route;
        }
        let mut rules = std::mem::take(&mut self.rules);
        self.plan.matcher.matching(listener, source, &mut rules);
        let horizon = self.horizon(listener, source, &rules);
        let route = match self.by_rules.get(&rules[..]) {
            Some(&route) if horizon.is_none() => route,
            _ => self.compile(&rules, horizon),
        };
        self.rules = rules;
        self.sources.keep(key, route);
        self.last = Some((key, route));
        route
    }

    /// What a route is.
    pub(super) fn get(&self, route: usize) -> &Route {
        &self.routes[route]
    }

    /// Where the next datagram of this source goes: each outlet once, by the first rule that names it.
    pub(super) fn choose(&mut self, route: usize, source: IpAddr) -> &[Delivery] {
        let Self { plan, preferred, routes, turns, marks, number, chosen, .. } = self;
        let route = &routes[route];
        if let Some(fixed) = &route.fixed {
            return fixed;
        }
        *number += 1;
        let mut choice = Choice { plan, source, horizon: route.horizon, preferred, turns };
        choice.fill(&route.rules, |outlet| std::mem::replace(&mut marks[outlet], *number) != *number, chosen);
        chosen
    }

    /// A source that is also an address of destinations: what it sends is not sent back there (split horizon, RFC 2453,
    /// 3.4.3), or it is said that it may be a loop.
    fn horizon(&self, listener: usize, source: IpAddr, rules: &[usize]) -> Option<IpAddr> {
        let Plan { settings, addresses, books, .. } = &*self.plan;
        if settings.on_loop == OnLoop::Off || !addresses.contains(&source) {
            return None;
        }
        if settings.on_loop == OnLoop::Stop {
            return Some(source);
        }
        let outlets = rules.iter().flat_map(|&rule| self.plan.outlets_of_rule(rule));
        // On this machine there are senders beside many a collector.
        for outlet in outlets.filter(|outlet| !source.is_loopback() && outlet.is_at(source)) {
            books.tell_return(&outlet.book, source, &settings.listeners[listener].name);
        }
        None
    }

    /// Makes a route for these rules.
    fn compile(&mut self, rules: &[usize], horizon: Option<IpAddr>) -> usize {
        if self.held > HELD {
            self.routes.clear();
            self.by_rules.clear();
            self.held = 0;
            self.sources.clear();
        }
        let plan = Arc::clone(&self.plan);
        let policies =
            || rules.iter().flat_map(|&rule| &plan.rules[rule].groups).map(|&group| plan.groups[group].policy);
        let fixed = policies().all(|policy| policy == Policy::Replicate).then(|| {
            let Self { preferred, turns, marks, number, .. } = self;
            *number += 1;
            let mut deliveries = Vec::new();
            // Any source will do: none is asked for.
            let source = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
            let mut choice = Choice { plan: &plan, source, horizon, preferred, turns };
            choice.fill(rules, |outlet| std::mem::replace(&mut marks[outlet], *number) != *number, &mut deliveries);
            deliveries
        });
        self.held += rules.len() + fixed.as_ref().map_or(0, Vec::len) + 1;
        let singly = policies().any(|policy| policy == Policy::RoundRobin);
        self.routes.push(Route { fixed, singly, horizon, rules: rules.into() });
        let route = self.routes.len() - 1;
        if horizon.is_none() {
            self.by_rules.insert(rules.into(), route);
        }
        route
    }
}

/// What it takes to find the outlets of a source's datagram.
struct Choice<'a> {
    plan: &'a Plan,
    source: IpAddr,
    horizon: Option<IpAddr>,
    preferred: &'a mut Recent<(usize, IpAddr), Preferred>,
    turns: &'a mut [usize],
}

impl Choice<'_> {
    /// Fills `deliveries` with what these rules lead to, each outlet when it comes `first`.
    fn fill(&mut self, rules: &[usize], mut first: impl FnMut(usize) -> bool, deliveries: &mut Vec<Delivery>) {
        deliveries.clear();
        let Self { plan, source, horizon, preferred, turns } = self;
        for &rule in rules {
            let leads = &plan.rules[rule];
            let mut add = |outlets: &[usize]| {
                let returns = |outlet: usize| horizon.is_some_and(|source| plan.outlets[outlet].is_at(source));
                let outlets = outlets.iter().filter(|&&outlet| first(outlet));
                deliveries.extend(outlets.map(|&outlet| Delivery { rule, outlet, returns: returns(outlet) }));
            };
            add(&leads.outlets);
            for &index in &leads.groups {
                let group = &plan.groups[index];
                let preferred = || {
                    let key = (index, *source);
                    preferred.get(key).unwrap_or_else(|| {
                        let members = group.preferred(*source);
                        preferred.keep(key, members);
                        members
                    })
                };
                let up = |outlet: usize| plan.outlets[outlet].up();
                let members = group.choose(*source, preferred, &mut turns[index], up);
                members.iter().chain(group.take_wanted()).for_each(|member| add(&member.outlets));
            }
        }
    }
}

/// Sources that are remembered, by listener; the same number by group.
pub(crate) const SOURCES: usize = 65_536;

/// Rules and deliveries of all routes beyond which they are compiled anew: a few dozen MB.
const HELD: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use super::super::tests::settings;
    use super::*;
    use crate::settings::{Group, Recipient, Rule};

    fn source(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn more_sources_than_are_remembered_are_routed_all_the_same() {
        let mut settings = settings(3);
        settings.rules = (0..3)
            .map(|rule| Rule {
                name: rule.to_string(),
                sources: (rule < 2).then(|| format!("10.{rule}.0.0/16").parse().unwrap()).into_iter().collect(),
                listeners: Vec::new(),
                to: vec![Recipient::Destination(rule)],
            })
            .collect();
        let plan = Arc::new(Plan::build(Arc::new(settings), &BTreeMap::new(), None));
        let mut routing = Routing::new(plan, 0);
        // Three networks of 65,536 sources each, of which the first is asked for again and again.
        for number in (0..3 << 16).step_by(3).flat_map(|number| [number, 1]) {
            let route = routing.route(0, source(number));
            let outlets: Vec<_> = routing.choose(route, source(number)).iter().map(|to| to.outlet).collect();
            assert_eq!(outlets, [(number >> 16) as usize]);
        }
        assert_eq!(routing.routes.len(), 3);
    }

    #[test]
    fn a_source_stays_with_its_member_of_a_large_group() {
        let mut settings = settings(100);
        settings.groups = vec![Group { name: "all".into(), policy: Policy::Hash, members: (0..100).collect() }];
        settings.rules[0].to = vec![Recipient::Group(0)];
        let plan = Arc::new(Plan::build(Arc::new(settings), &BTreeMap::new(), None));
        let mut routing = Routing::new(Arc::clone(&plan), 0);
        for number in 0..1_000 {
            let [first, again] = [(); 2].map(|()| {
                let route = routing.route(0, source(number));
                routing.choose(route, source(number)).to_vec()
            });
            let all: Preferred = [u32::MAX; 4];
            // By all weights, as a group without a memory does it.
            let chosen = plan.groups[0].choose(source(number), || all, &mut 0, |_| true);
            assert_eq!((&first, first[0].outlet), (&again, chosen[0].outlets[0]));
        }
    }

    /// Where what comes from 10.0.0.1 and from 10.0.0.9 goes, a `true` for each that may not; and what is said about it.
    fn split(on_loop: OnLoop) -> (Vec<bool>, Vec<bool>, Vec<String>) {
        let mut settings = settings(2);
        settings.on_loop = on_loop;
        settings.destinations[1].to = crate::settings::Target::Address("10.0.0.1:514".parse().unwrap());
        settings.destinations[1].name = "siem".into();
        let plan = Arc::new(Plan::build(Arc::new(settings), &BTreeMap::new(), None));
        let mut routing = Routing::new(Arc::clone(&plan), 0);
        let mut returns = |number| {
            let route = routing.route(0, source(number));
            routing.choose(route, source(number)).iter().map(|to| to.returns).collect()
        };
        let (other, own, again) = (returns(9), returns(1), returns(9));
        assert_eq!(other, again);
        assert_eq!(own, returns(1));
        (own, other, plan.books.take_returns())
    }

    #[test]
    fn a_destination_is_not_sent_what_comes_from_its_own_address() {
        let nothing = vec![false, false];
        assert_eq!(split(OnLoop::Off), (nothing.clone(), nothing.clone(), vec![]));
        assert_eq!(split(OnLoop::Stop), (vec![false, true], nothing.clone(), vec![]));
        let line = "10.0.0.1 sends to listener \"in\" and is destination \"siem\": if it relays what it gets, this is a \
                    loop (loop = \"stop\", or hop_guard = true there)";
        assert_eq!(split(OnLoop::Warn), (nothing.clone(), nothing, vec![line.to_owned()]));
    }
}
