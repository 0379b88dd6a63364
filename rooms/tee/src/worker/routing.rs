//! From a source and a listener to outlets, remembered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::plan::Plan;
use crate::settings::Policy;

/// What a worker's plan says of each source, remembered.
pub(super) struct Routing {
    plan: Arc<Plan>,
    /// Which route a source takes at a listener. Keyed by chance: senders must not be able to choose collisions.
    remembered: HashMap<(usize, IpAddr), usize>,
    /// One for each set of rules that was met.
    routes: Vec<Route>,
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
    pub(super) rules: Vec<usize>,
    /// Where they go, if that depends on nothing else.
    fixed: Option<Vec<Delivery>>,
    /// Whether it may be another outlet for each datagram.
    pub(super) singly: bool,
}

/// A delivery of a datagram to an outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Index of the rule that asks for it.
    pub(super) rule: usize,
    /// Index of the outlet.
    pub(super) outlet: usize,
}

impl Routing {
    /// Knows nothing yet. `worker`: where turns begin, so that workers don't all start with the same member.
    pub(super) fn new(plan: Arc<Plan>, worker: usize) -> Self {
        Self {
            remembered: HashMap::new(),
            routes: Vec::new(),
            turns: vec![worker; plan.groups.len()],
            marks: vec![0; plan.outlets.len()],
            number: 0,
            chosen: Vec::new(),
            plan,
        }
    }

    /// The route of datagrams of this source at this listener.
    pub(super) fn route(&mut self, listener: usize, source: IpAddr) -> usize {
        if let Some(&route) = self.remembered.get(&(listener, source)) {
            return route;
        }
        let rules: Vec<usize> = self.plan.matcher.matching(listener, source).collect();
        let known = self.routes.iter().position(|route| route.rules == rules);
        let route = known.unwrap_or_else(|| {
            let route = self.compile(rules);
            self.routes.push(route);
            self.routes.len() - 1
        });
        if self.remembered.len() >= REMEMBERED {
            self.remembered.clear();
        }
        self.remembered.insert((listener, source), route);
        route
    }

    /// What a route is.
    pub(super) fn get(&self, route: usize) -> &Route {
        &self.routes[route]
    }

    /// Where the next datagram of this source goes: each outlet once, by the first rule that names it.
    pub(super) fn choose(&mut self, route: usize, source: IpAddr) -> &[Delivery] {
        let Self { plan, routes, turns, marks, number, chosen, .. } = self;
        let route = &routes[route];
        if let Some(fixed) = &route.fixed {
            return fixed;
        }
        *number += 1;
        choose(
            plan,
            &route.rules,
            source,
            turns,
            |outlet| std::mem::replace(&mut marks[outlet], *number) != *number,
            chosen,
        );
        chosen
    }

    fn compile(&mut self, rules: Vec<usize>) -> Route {
        let plan = &self.plan;
        let groups = || rules.iter().flat_map(|&rule| &plan.rules[rule].groups).map(|&group| plan.groups[group].policy);
        let fixed = groups().all(|policy| policy == Policy::Replicate).then(|| {
            let (mut seen, mut deliveries) = (vec![false; plan.outlets.len()], Vec::new());
            // Any source will do: none is asked for.
            let source = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
            let first = |outlet: usize| !std::mem::replace(&mut seen[outlet], true);
            choose(plan, &rules, source, &mut self.turns, first, &mut deliveries);
            deliveries
        });
        Route { fixed, singly: groups().any(|policy| policy == Policy::RoundRobin), rules }
    }
}

fn choose(
    plan: &Plan,
    rules: &[usize],
    source: IpAddr,
    turns: &mut [usize],
    mut first: impl FnMut(usize) -> bool,
    deliveries: &mut Vec<Delivery>,
) {
    deliveries.clear();
    for &rule in rules {
        let leads = &plan.rules[rule];
        let mut add = |outlets: &[usize]| {
            deliveries.extend(outlets.iter().filter(|&&outlet| first(outlet)).map(|&outlet| Delivery { rule, outlet }));
        };
        add(&leads.outlets);
        for &group in &leads.groups {
            let members = plan.groups[group].choose(source, &mut turns[group], |outlet| plan.outlets[outlet].up());
            members.iter().for_each(|member| add(&member.outlets));
        }
    }
}

/// Sources whose route is remembered.
const REMEMBERED: usize = 65_536;
