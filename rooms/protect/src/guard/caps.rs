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
        let mut more = [0.0; 2];
        for route in routes.iter().filter(|route| cuts_off(route)) {
            let prefix = &route.rule.destination;
            if self.prefixes.get(prefix).is_none_or(|(_, cuts)| *cuts == 0) {
                more[family(prefix)] += addresses(prefix);
            }
        }
        for (family, name) in [(0, "IPv4"), (1, "IPv6")].into_iter().filter(|(family, _)| more[*family] > 0.0) {
            let (share, most) = (self.share_of(family, more[family]), self.most(family, caps));
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
            && (0..2).all(|family| self.share_of(family, 0.0) <= self.most(family, caps))
    }

    pub(super) fn routes(&self) -> usize {
        self.routes
    }

    pub(super) fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// The part of the protected addresses that is cut off, of the family of which that is more.
    pub(super) fn share(&self) -> f64 {
        self.share_of(0, 0.0).max(self.share_of(1, 0.0))
    }

    /// What may be cut off: one address at least.
    fn most(&self, of: usize, caps: &Caps) -> f64 {
        caps.share.fraction().max(1.0 / self.space[of].max(1.0))
    }

    fn share_of(&self, of: usize, more: f64) -> f64 {
        let cut = self.prefixes.iter().filter(|(net, (_, cuts))| family(net) == of && *cuts > 0);
        let cut = cut.map(|(net, _)| addresses(net)).sum::<f64>() + more;
        if cut == 0.0 { 0.0 } else { cut / self.space[of].max(1.0) }
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
