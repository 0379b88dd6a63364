//! How much is announced, of what may be.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::model::{Action, Refusal, Route};
use crate::settings::Caps;

/// What all routes together take. What two attacks want alike counts twice: rather too much than too little.
#[derive(Clone, Debug, Default)]
pub(super) struct Used {
    routes: usize,
    /// How many routes each prefix has, and how many of them cut it off: blackhole it, or drop all to it.
    prefixes: BTreeMap<IpNet, (usize, usize)>,
    /// Protected addresses, of IPv4 and IPv6.
    space: [f64; 2],
}

impl Used {
    pub(super) fn new(protected: &[IpNet]) -> Self {
        let mut used = Self::default();
        used.protect(protected);
        used
    }

    /// The protected networks, none within another.
    pub(super) fn protect(&mut self, networks: &[IpNet]) {
        self.space = [0.0; 2];
        networks.iter().for_each(|net| self.space[family(net)] += addresses(net));
    }

    pub(super) fn add(&mut self, routes: &[Route]) {
        self.routes += routes.len();
        for route in routes {
            let (routes, cuts) = self.prefixes.entry(route.rule.destination).or_default();
            (*routes, *cuts) = (*routes + 1, *cuts + usize::from(cuts_off(route)));
        }
    }

    pub(super) fn remove(&mut self, routes: &[Route]) {
        self.routes -= routes.len();
        for route in routes {
            let prefix = &route.rule.destination;
            let Some((routes, cuts)) = self.prefixes.get_mut(prefix) else { continue };
            (*routes, *cuts) = (*routes - 1, *cuts - usize::from(cuts_off(route)));
            if *routes == 0 {
                self.prefixes.remove(prefix);
            }
        }
    }

    /// Whether these may be added.
    pub(super) fn fits(&self, routes: &[Route], caps: &Caps) -> Result<(), Refusal> {
        let refuse = |limit, why| Err(Refusal { limit, why });
        let count = self.routes + routes.len();
        if count > caps.routes as usize {
            return refuse("max_routes", format!("{count} routes would be announced, caps.routes is {}", caps.routes));
        }
        let news = routes.iter().filter(|route| !self.prefixes.contains_key(&route.rule.destination)).count();
        let prefixes = self.prefixes.len() + news;
        if prefixes > caps.prefixes as usize {
            let why = format!("routes would be for {prefixes} prefixes, caps.prefixes is {}", caps.prefixes);
            return refuse("max_prefixes", why);
        }
        let more: Vec<IpNet> =
            routes.iter().filter(|route| cuts_off(route)).map(|route| route.rule.destination).collect();
        for (of, name) in
            [(0, "IPv4"), (1, "IPv6")].into_iter().filter(|(of, _)| more.iter().any(|net| family(net) == *of))
        {
            let (share, most) = (self.share_of(of, &more), self.most(of, caps));
            if share > most {
                let (percent, most) = (share * 100.0, most * 100.0);
                let why = format!(
                    "{percent:.3} % of the protected {name} addresses would be cut off, caps.share is {most:.3} %"
                );
                return refuse("max_share", why);
            }
        }
        Ok(())
    }

    /// Whether all of it is within them.
    pub(super) fn holds(&self, caps: &Caps) -> bool {
        self.routes <= caps.routes as usize
            && self.prefixes.len() <= caps.prefixes as usize
            && (0..2).all(|family| self.share_of(family, &[]) <= self.most(family, caps))
    }

    pub(super) fn routes(&self) -> usize {
        self.routes
    }

    pub(super) fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// The part of the protected addresses that is cut off, of the family of which that is more.
    pub(super) fn share(&self) -> f64 {
        self.share_of(0, &[]).max(self.share_of(1, &[]))
    }

    /// What may be cut off: one address at least.
    fn most(&self, of: usize, caps: &Caps) -> f64 {
        caps.share.fraction().max(1.0 / self.space[of].max(1.0))
    }

    /// What is cut off, and as much more. A prefix within another one counts once.
    fn share_of(&self, of: usize, more: &[IpNet]) -> f64 {
        let cut = self.prefixes.iter().filter(|(_, (_, cuts))| *cuts > 0).map(|(net, _)| net).chain(more);
        let cut: Vec<IpNet> = cut.filter(|net| family(net) == of).copied().collect();
        // The sum of none is -0.
        IpNet::aggregate(&cut).iter().map(addresses).sum::<f64>().abs() / self.space[of].max(1.0)
    }
}

/// Addresses of a network.
pub(super) fn addresses(network: &IpNet) -> f64 {
    2_f64.powi(i32::from(network.max_prefix_len() - network.prefix_len()))
}

/// Whether a route takes all of its destination's traffic.
fn cuts_off(route: &Route) -> bool {
    match route.action {
        Action::Blackhole => true,
        Action::Drop => route.rule.is_bare(),
        Action::Limit { .. } | Action::Mark { .. } | Action::Redirect { .. } => false,
    }
}

fn family(network: &IpNet) -> usize {
    usize::from(network.addr().is_ipv6())
}
