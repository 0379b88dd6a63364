//! From a source and a listener to outlets, remembered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::plan::Plan;
use crate::settings::Policy;

/// A worker's way of asking its plan.
pub(super) struct Routing {
    plan: Arc<Plan>,
    /// Which course a source takes at a listener. Keyed by chance: senders must not be able to choose collisions.
    remembered: HashMap<(usize, IpAddr), usize>,
    /// One for each set of rules that was met.
    courses: Vec<Course>,
    /// Datagrams that each group has shared out.
    turns: Vec<usize>,
    /// Outlets that the datagram at hand has been given to: marked with its number.
    marks: Vec<u64>,
    number: u64,
    chosen: Vec<Copy>,
}

/// What happens to the datagrams that a certain set of rules takes.
pub(super) struct Course {
    /// Indices of the rules; empty: nobody wants them.
    pub(super) rules: Vec<usize>,
    /// Where they go, if that depends on nothing else.
    fixed: Option<Vec<Copy>>,
    /// Whether it may be another outlet for each datagram.
    pub(super) singly: bool,
}

/// A copy for an outlet.
#[derive(Clone, std::marker::Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
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
            courses: Vec::new(),
            turns: vec![worker; plan.groups.len()],
            marks: vec![0; plan.outlets.len()],
            number: 0,
            chosen: Vec::new(),
            plan,
        }
    }

    /// The course of datagrams of this source at this listener.
    pub(super) fn course(&mut self, listener: usize, source: IpAddr) -> usize {
        if let Some(&course) = self.remembered.get(&(listener, source)) {
            return course;
        }
        let rules: Vec<usize> = self.plan.rules.matching(listener, source).collect();
        let known = self.courses.iter().position(|course| course.rules == rules);
        let course = known.unwrap_or_else(|| {
            let course = self.lay(rules);
            self.courses.push(course);
            self.courses.len() - 1
        });
        if self.remembered.len() >= REMEMBERED {
            self.remembered.clear();
        }
        self.remembered.insert((listener, source), course);
        course
    }

    /// What a course is.
    pub(super) fn get(&self, course: usize) -> &Course {
        &self.courses[course]
    }

    /// Where the next datagram of this source goes: each outlet once, by the first rule that names it.
    pub(super) fn choose(&mut self, course: usize, source: IpAddr) -> &[Copy] {
        let Self { plan, courses, turns, marks, number, chosen, .. } = self;
        let course = &courses[course];
        if let Some(fixed) = &course.fixed {
            return fixed;
        }
        *number += 1;
        choose(
            plan,
            &course.rules,
            source,
            turns,
            |outlet| std::mem::replace(&mut marks[outlet], *number) != *number,
            chosen,
        );
        chosen
    }

    fn lay(&mut self, rules: Vec<usize>) -> Course {
        let plan = &self.plan;
        let groups =
            || rules.iter().flat_map(|&rule| &plan.routes[rule].groups).map(|&group| plan.groups[group].policy);
        let fixed = groups().all(|policy| policy == Policy::Replicate).then(|| {
            let (mut seen, mut copies) = (vec![false; plan.outlets.len()], Vec::new());
            // Any source will do: none is asked for.
            let source = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
            let first = |outlet: usize| !std::mem::replace(&mut seen[outlet], true);
            choose(plan, &rules, source, &mut self.turns, first, &mut copies);
            copies
        });
        Course { fixed, singly: groups().any(|policy| policy == Policy::RoundRobin), rules }
    }
}

fn choose(
    plan: &Plan,
    rules: &[usize],
    source: IpAddr,
    turns: &mut [usize],
    mut first: impl FnMut(usize) -> bool,
    copies: &mut Vec<Copy>,
) {
    copies.clear();
    for &rule in rules {
        let route = &plan.routes[rule];
        let mut add = |outlets: &[usize]| {
            copies.extend(outlets.iter().filter(|&&outlet| first(outlet)).map(|&outlet| Copy { rule, outlet }));
        };
        add(&route.outlets);
        for &group in &route.groups {
            let members = plan.groups[group].choose(source, &mut turns[group], |outlet| plan.outlets[outlet].up());
            members.iter().for_each(|member| add(&member.outlets));
        }
    }
}

/// Sources whose course is remembered.
const REMEMBERED: usize = 65_536;
